"""One typed, length-prefixed encoding, so that two different values never share their bytes.

Every value is `tag (1 byte) + payload length (8 bytes, little-endian) + payload`. The length in
front of every payload is what makes `["ab", "c"]` and `["a", "bc"]` differ, and the tag is what
makes `1`, `True`, `1.0` and `"1"` differ. The whole table:

    tag  type    payload
    N    None    empty
    B    bool    one byte, 0 or 1
    I    int     two's complement, little-endian, bit_length // 8 + 1 bytes
    F    float   IEEE 754 binary64, little-endian (NaN by its bits; 0.0 and -0.0 differ)
    S    str     UTF-8
    Y    bytes   as they are
    L    list    the items, encoded one after the other (a tuple is a list)
    M    dict    key, value, key, value ... ; keys are strings, sorted by their UTF-8 bytes
    A    array   dtype name (S), shape (L of I), data (Y: C order, little-endian)

Types are matched exactly: a subclass (an enum, a numpy scalar) is refused and not guessed at.
"""

import struct
from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import torch

from kamera.errors import ConfigError

__all__ = ["MAX_DEPTH", "array_bytes", "encode", "encode_parts"]

MAX_DEPTH = 64
"""Deepest nesting of lists and dicts; past it the value is refused (it is likely a cycle)."""

Buffer = bytes | memoryview

_ARRAY_DTYPES = frozenset(
    ["bool", "float16", "bfloat16", "float32", "float64", "float8_e4m3fn", "float8_e5m2"]
    + [f"{sign}int{bits}" for sign in ("", "u") for bits in (8, 16, 32, 64)]
)


def encode(value: object) -> bytes:
    """The encoding of `value` in one piece. Raises `ConfigError` for a type outside the table."""
    return b"".join(encode_parts(value))


def encode_parts(value: object) -> list[Buffer]:
    """The encoding of `value` as buffers to be read in order.

    Array data is not copied where its memory is already C-order and on the CPU, so a part may alias
    the caller's array: hash or write the parts before the array changes.
    """
    parts: list[Buffer] = []
    _emit(value, parts, depth=0)
    return parts


def array_bytes(array: npt.NDArray[Any] | torch.Tensor) -> memoryview:
    """The elements of `array` as flat bytes: C order, little-endian. Aliases it where it can."""
    if isinstance(array, torch.Tensor):
        if not array.numel():
            return memoryview(b"")
        flat = array.detach().cpu().contiguous().as_strided((array.numel(),), (1,))
        return flat.view(torch.uint8).numpy().data
    little = np.ascontiguousarray(array, dtype=array.dtype.newbyteorder("<"))
    return little.reshape(-1).view(np.uint8).data


def _emit(value: object, parts: list[Buffer], *, depth: int) -> int:
    """Append the encoding of `value` to `parts` and return its length in bytes."""
    if depth > MAX_DEPTH:
        raise ConfigError(
            f"Value nests too deep for an identity: expected at most {MAX_DEPTH} levels of lists "
            "and dicts. Flatten it, or look for a container that holds itself."
        )
    if isinstance(value, np.ndarray | torch.Tensor):
        return _container(b"A", _array_items(value), parts, depth)
    if type(value) in (list, tuple):
        return _container(b"L", list(value), parts, depth)  # type: ignore[call-overload]
    if type(value) is dict:
        return _container(b"M", _map_items(value), parts, depth)
    scalar = _SCALARS.get(type(value))
    if scalar is None:
        raise ConfigError(
            f"Type {type(value).__qualname__} can't be part of an identity: expected None, bool, "
            f"int, float, str, bytes, list, dict or array, got {value!r:.80}. Convert it first."
        )
    tag, payload_of = scalar
    return _leaf(tag, payload_of(value), parts)


def _leaf(tag: bytes, payload: Buffer, parts: list[Buffer]) -> int:
    parts.append(tag + len(payload).to_bytes(8, "little"))
    parts.append(payload)
    return 9 + len(payload)


def _container(tag: bytes, items: list[object], parts: list[Buffer], depth: int) -> int:
    slot = len(parts)
    parts.append(b"")  # the header: its length is known once the items are written
    length = 0
    for item in items:
        if type(item) is memoryview:
            length += _leaf(b"Y", item, parts)
        else:
            length += _emit(item, parts, depth=depth + 1)
    parts[slot] = tag + length.to_bytes(8, "little")
    return 9 + length


def _map_items(value: dict[Any, Any]) -> list[object]:
    for key in value:
        if type(key) is not str:
            raise ConfigError(
                f"Map key can't be part of an identity: expected str, got {type(key).__qualname__} "
                f"{key!r:.80}. Convert the keys to strings first."
            )
    items: list[object] = []
    for key in sorted(value, key=_utf8):
        items += (key, value[key])
    return items


def _array_items(array: npt.NDArray[Any] | torch.Tensor) -> list[object]:
    on_meta = isinstance(array, torch.Tensor) and (
        array.device.type == "meta" or array.layout is not torch.strided
    )
    masked = isinstance(array, np.ma.MaskedArray)
    name = str(array.dtype).removeprefix("torch.")
    if isinstance(array, np.ndarray):
        name = array.dtype.name  # without the byte order: the data is written little-endian
    if name not in _ARRAY_DTYPES or on_meta or masked:
        raise ConfigError(
            f"Array can't be part of an identity: expected a dense array of one of "
            f"{', '.join(sorted(_ARRAY_DTYPES))}, got {type(array).__qualname__} of {name}."
        )
    return [name, [int(size) for size in array.shape], array_bytes(array)]


def _utf8(value: str) -> bytes:
    try:
        return value.encode("utf-8")
    except UnicodeEncodeError as error:
        raise ConfigError(
            f"String can't be part of an identity: expected valid Unicode, "
            f"got {value!r:.80} ({error})."
        ) from None


_SCALARS: dict[type, tuple[bytes, Callable[[Any], bytes]]] = {
    type(None): (b"N", lambda _: b""),
    bool: (b"B", lambda value: b"\x01" if value else b"\x00"),
    int: (b"I", lambda value: value.to_bytes(value.bit_length() // 8 + 1, "little", signed=True)),
    float: (b"F", lambda value: struct.pack("<d", value)),
    str: (b"S", _utf8),
    bytes: (b"Y", lambda value: value),
}
