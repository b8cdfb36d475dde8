"""What of the model decides the bytes of a KV tensor."""

import copy
from dataclasses import dataclass, field
from typing import Any

from kamera.errors import ConfigError
from kamera.identity.digests import check_digest, digest

__all__ = ["Adapter", "ModelKey", "Shard"]

MODEL_VERSION = 1


@dataclass(frozen=True)
class Shard:
    """Which part of the model's KV this process holds. Ranges are half-open."""

    rank: int
    world_size: int
    layer_start: int
    layer_end: int
    head_start: int
    head_end: int

    def __post_init__(self) -> None:
        if not 0 <= self.rank < self.world_size:
            raise ConfigError(
                f"Invalid shard rank: expected 0 <= rank < world_size, got rank {self.rank} of "
                f"{self.world_size}."
            )
        for what, start, end in (
            ("layer", self.layer_start, self.layer_end),
            ("head", self.head_start, self.head_end),
        ):
            if not 0 <= start < end:
                raise ConfigError(
                    f"Invalid {what} range of the shard: expected 0 <= start < end, "
                    f"got [{start}, {end})."
                )

    @property
    def identity(self) -> list[object]:
        """The fields in the order in which they are digested."""
        return [
            self.rank,
            self.world_size,
            [self.layer_start, self.layer_end],
            [self.head_start, self.head_end],
        ]


@dataclass(frozen=True)
class Adapter:
    """A LoRA or another adapter on the weights. The name alone is never trusted."""

    name: str
    weights_digest: str

    def __post_init__(self) -> None:
        check_digest("Adapter weights digest", self.weights_digest)

    @property
    def identity(self) -> list[object]:
        """The fields in the order in which they are digested."""
        return [self.name, self.weights_digest]


@dataclass(frozen=True, eq=False)
class ModelKey:
    """All that decides KV bytes on the model's side. Equal if and only if the digests are equal.

    `weights_digest` is `weights_digest(folder)` of the checkpoint and plays the part of a revision.
    `dtype` is the logical dtype of the KV ("bfloat16"), `quantization` the scheme or None. `rope`
    is the rotary fingerprint (frequencies, sections, layout) and `layout` the attention layout
    (`{"kind": "gqa", "num_layers": ..., "num_kv_heads": ..., "head_dim": ...}`). `numerics` names
    engine, version and attention kernel ("transformers-5.24/sdpa"): two of them need not agree on
    the last bit. `rope` and `layout` are copied; read them, don't write to them.
    """

    model_id: str
    model_type: str
    weights_digest: str
    dtype: str
    quantization: str | None
    rope: dict[str, Any]
    layout: dict[str, Any]
    shard: Shard
    adapter: Adapter | None
    numerics: str
    digest: str = field(init=False)

    def __post_init__(self) -> None:
        check_digest("Weights digest", self.weights_digest)
        for name in ("model_type", "dtype", "numerics"):
            if not getattr(self, name):
                raise ConfigError(f"Model key has no {name}: expected a non-empty string, got ''.")
        for name in ("kind", "num_layers"):
            if name not in self.layout:
                raise ConfigError(
                    f"Attention layout has no {name!r}: expected kind, num_layers and the head "
                    f"sizes, got {sorted(self.layout)}."
                )
        object.__setattr__(self, "rope", copy.deepcopy(self.rope))
        object.__setattr__(self, "layout", copy.deepcopy(self.layout))
        object.__setattr__(self, "digest", digest("kamera.model", MODEL_VERSION, self._identity()))

    def _identity(self) -> dict[str, object]:
        return {
            "model_id": self.model_id,
            "model_type": self.model_type,
            "weights_digest": self.weights_digest,
            "dtype": self.dtype,
            "quantization": self.quantization,
            "rope": self.rope,
            "layout": self.layout,
            "shard": self.shard.identity,
            "adapter": None if self.adapter is None else self.adapter.identity,
            "numerics": self.numerics,
        }

    def __eq__(self, other: object) -> bool:
        return isinstance(other, ModelKey) and self.digest == other.digest

    def __hash__(self) -> int:
        return hash(self.digest)
