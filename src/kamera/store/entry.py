"""What a store keeps: named tensors with a name, an owner and a few attributes."""

import json
import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import NamedTuple

import torch

from kamera.errors import ConfigError
from kamera.identity import check_digest, check_tenant

__all__ = ["DTYPE_NAMES", "ENTRY_KINDS", "Attribute", "Entry", "EntryKey", "checked_fields"]

ENTRY_KINDS = ("canonical", "conditioned", "patch", "orbit", "vision")
"""Canonical KV, KV conditioned on an antecedent, a patch's factors, an orbit patch's, vision-tower output.

The kind is a part of the key, so approximate KV can't be found under an exact key.
"""

DTYPE_NAMES = {
    torch.float64: "F64",
    torch.float32: "F32",
    torch.float16: "F16",
    torch.bfloat16: "BF16",
    torch.float8_e4m3fn: "F8_E4M3",
    torch.float8_e5m2: "F8_E5M2",
    torch.int64: "I64",
    torch.int32: "I32",
    torch.int16: "I16",
    torch.int8: "I8",
    torch.uint8: "U8",
    torch.bool: "BOOL",
}
"""The dtypes that a store keeps, with their names in a safetensors header."""

Attribute = None | bool | int | float | str | list[object]
"""A JSON scalar, or a list of them (lists may nest)."""

MAX_NAME_LEN = 256
MAX_LIST_DEPTH = 8


class _KindAndDigest(NamedTuple):
    kind: str
    digest: str


class EntryKey(_KindAndDigest):
    """The name of an entry: one of `ENTRY_KINDS` and the digest of all that decides its bytes."""

    __slots__ = ()

    def __new__(cls, kind: str, digest: str) -> "EntryKey":
        """Raises `ConfigError` for another kind, or what isn't a digest."""
        if kind not in ENTRY_KINDS:
            raise ConfigError(
                f"Unknown entry kind: expected one of {', '.join(ENTRY_KINDS)}, got {kind!r}."
            )
        return cls.of_checked(kind, check_digest("Entry key", digest))

    @classmethod
    def of_checked(cls, kind: str, digest: str) -> "EntryKey":
        """A key of parts that are right: a plan makes some hundreds."""
        return tuple.__new__(cls, (kind, digest))

    def __str__(self) -> str:
        return f"{self.kind}-{self.digest}"


@dataclass(frozen=True, eq=False)
class Entry:
    """An entry as it is put and as it is got.

    `tensors` are dense, on the CPU and contiguous (made so here, without a copy where they already
    are), of a dtype in `DTYPE_NAMES`; 0-d and empty ones are fine. `attributes` are JSON scalars or
    lists of them, copied, tuples as lists. `model` is the model key's digest.
    """

    key: EntryKey
    model: str
    tenant: str | None
    tensors: dict[str, torch.Tensor]
    attributes: dict[str, Attribute]

    def __post_init__(self) -> None:
        tensors = {name: _stored(name, tensor) for name, tensor in self.tensors.items()}
        attributes = checked_fields(self.model, self.tenant, tensors, self.attributes)
        object.__setattr__(self, "tensors", tensors)
        object.__setattr__(self, "attributes", attributes)

    @classmethod
    def of_checked(
        cls,
        key: EntryKey,
        model: str,
        tenant: str | None,
        tensors: dict[str, torch.Tensor],
        attributes: dict[str, Attribute],
    ) -> "Entry":
        """An entry whose fields have passed `checked_fields` and whose tensors are fit to be stored."""
        entry = object.__new__(cls)
        fields = {
            "key": key,
            "model": model,
            "tenant": tenant,
            "tensors": tensors,
            "attributes": attributes,
        }
        entry.__dict__.update(fields)
        return entry

    @property
    def num_bytes(self) -> int:
        """Bytes of the tensors' elements: what a memory tier counts against its cap."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    def copied(self) -> "Entry":
        """The same entry on memory of its own: free of the pool that its tensors were views of."""
        tensors = {name: tensor.clone() for name, tensor in self.tensors.items()}
        return Entry(self.key, self.model, self.tenant, tensors, self.attributes)

    def attributes_json(self) -> str:
        """The attributes as canonical JSON: sorted keys, no spaces, ASCII."""
        return json.dumps(self.attributes, sort_keys=True, separators=(",", ":"), allow_nan=False)


def checked_fields(
    model: str, tenant: str | None, names: Iterable[str], attributes: Mapping[str, object]
) -> dict[str, Attribute]:
    """The attributes, copied. `ConfigError` for a field that no entry may have; `names` are the tensors'."""
    check_digest("Entry's model", model)
    check_tenant(tenant)
    copied = {name: _plain(name, value) for name, value in attributes.items()}
    for name in (*names, *copied):
        _check_name(name)
    return copied


def _check_name(name: object) -> None:
    valid = type(name) is str and 0 < len(name) <= MAX_NAME_LEN and name.isprintable()
    if not valid or name == "__metadata__":
        raise ConfigError(
            f"Invalid name of a tensor or an attribute: expected 1 to {MAX_NAME_LEN} printable "
            f"characters other than '__metadata__', got {name!r:.80}."
        )


def _stored(name: str, tensor: torch.Tensor) -> torch.Tensor:
    if tensor.layout is not torch.strided or tensor.device.type != "cpu":
        raise ConfigError(
            f"Tensor {name!r} can't be stored: expected a dense tensor on the CPU, got "
            f"{tensor.layout} on {tensor.device}. Move it with .cpu() first."
        )
    if tensor.dtype not in DTYPE_NAMES:
        raise ConfigError(
            f"Tensor {name!r} can't be stored: expected one of {', '.join(DTYPE_NAMES.values())}, "
            f"got {tensor.dtype}."
        )
    return tensor.detach().contiguous()


def _plain(name: str, value: object, depth: int = 0) -> Attribute:
    if type(value) is float and math.isfinite(value):
        return value
    if value is None or type(value) in (bool, int, str):
        return value  # type: ignore[return-value]
    if isinstance(value, list | tuple) and depth < MAX_LIST_DEPTH:
        return [_plain(name, item, depth + 1) for item in value]
    raise ConfigError(
        f"Attribute {name!r} isn't a JSON scalar or a list of them: expected None, bool, int, "
        f"finite float, str or a list, got {type(value).__qualname__} {value!r:.80}."
    )
