"""The channels of a chunk's KV, and `ChunkKV`: all of them, all layers, as one value.

Each attention family is read through one split, content | rope (paper §3): a channel either
rotates with the position or is position-free. The operator never asks for the family.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import torch
from jaxtyping import Int
from torch import Tensor

from kamera.errors import ConfigError
from kamera.rope import Rope, relocate, unrotate
from kamera.shapes import LayerStack


@dataclass(frozen=True)
class Channel:
    """One cached tensor of a layer: its name and whether RoPE rotates it."""

    name: str
    rotates: bool


ATTENTION = (Channel("k", True), Channel("v", False))
"""MHA and GQA: keys [L, T, H, D] rotate, values don't."""

MLA = (Channel("c_kv", False), Channel("k_pe", True))
"""MLA: the latent [L, T, 1, C], after its norm, and the shared rotary key [L, T, 1, R]."""

_TABLES = {frozenset(channel.name for channel in table): table for table in (ATTENTION, MLA)}


def channels_of(names: Sequence[str]) -> tuple[Channel, ...]:
    """The channel table with exactly these names.

    Raises:
        ConfigError: no attention family has these channels.
    """
    table = _TABLES.get(frozenset(names))
    if table is not None:
        return table
    known = [[channel.name for channel in known_table] for known_table in _TABLES.values()]
    raise ConfigError(f"Invalid channels: expected one of {known}, got {sorted(names)}")


@dataclass(frozen=True, eq=False)
class ChunkKV:
    """One chunk's KV: channel name -> [L, T, H, D], all layers stacked, one dtype and device.

    H and D may differ between the channels (MLA: one head, of C and of R), L and T may not.
    The tensors are held, not copied; nothing here writes to them. Whether the rotating channels
    are canonical (un-rotated) or at a position is the caller's knowledge: the names of the methods
    say what they take and what they give.

    Raises:
        ConfigError: unknown channels, or tensors that disagree in L, T, dtype or device.
    """

    tensors: Mapping[str, LayerStack]

    def __post_init__(self) -> None:
        channels_of(list(self.tensors))
        object.__setattr__(self, "tensors", dict(self.tensors))
        first_name, first = next(iter(self.tensors.items()))
        for name, tensor in self.tensors.items():
            if tensor.ndim != 4:
                raise ConfigError(
                    f"Invalid shape of {name}: expected [L, T, H, D], got {list(tensor.shape)}"
                )
            if tensor.shape[:2] != first.shape[:2]:
                raise ConfigError(
                    f"Invalid shape of {name}: expected [L={first.shape[0]}, T={first.shape[1]}, "
                    f"H, D] as {first_name}, got {list(tensor.shape)}"
                )
            if not tensor.is_floating_point():
                raise ConfigError(
                    f"Invalid dtype of {name}: expected a floating dtype, got {tensor.dtype}"
                )
            if (tensor.dtype, tensor.device) != (first.dtype, first.device):
                raise ConfigError(
                    f"Invalid {name}: expected {first.dtype} on {first.device} as {first_name}, "
                    f"got {tensor.dtype} on {tensor.device}"
                )

    @property
    def channels(self) -> tuple[Channel, ...]:
        """The chunk's channel table, in its fixed order."""
        return channels_of(list(self.tensors))

    @property
    def num_layers(self) -> int:
        """L."""
        return self._any().shape[0]

    @property
    def num_tokens(self) -> int:
        """T, wrapper tokens included."""
        return self._any().shape[1]

    @property
    def num_bytes(self) -> int:
        """Bytes of all channels and layers, as if each tensor were contiguous."""
        return sum(tensor.numel() * tensor.element_size() for tensor in self.tensors.values())

    @property
    def dtype(self) -> torch.dtype:
        """The one dtype of all channels."""
        return self._any().dtype

    def slice_tokens(self, start: int, end: int) -> ChunkKV:
        """Tokens [start, end) as views of the same storage.

        Raises:
            ConfigError: unless 0 <= start <= end <= T.
        """
        if not 0 <= start <= end <= self.num_tokens:
            raise ConfigError(
                f"Invalid token range: expected 0 <= start <= end <= T={self.num_tokens}, "
                f"got [{start}, {end})"
            )
        return ChunkKV({name: tensor[:, start:end] for name, tensor in self.tensors.items()})

    def to_canonical(
        self,
        positions: Int[Tensor, "T P"],
        spec: Rope,
        out_dtype: torch.dtype | None = None,
    ) -> ChunkKV:
        """Take the rotation off KV as the model cached it at absolute `positions`.

        Rotating channels are un-rotated with one rounding to `out_dtype` (the chunk's own when
        None); the others keep their bytes and storage, or are cast when `out_dtype` differs.
        `out_dtype=torch.float32` un-rotates a bf16 cache without rounding again, as the deficit
        wants it.

        Raises:
            ConfigError: positions or a head size that don't fit.
        """
        return self._map(partial(unrotate, positions=positions, spec=spec), out_dtype)

    def at(
        self,
        positions: Int[Tensor, "T P"],
        spec: Rope,
        out_dtype: torch.dtype | None = None,
    ) -> ChunkKV:
        """Relocate this canonical to absolute `positions`: R(δ) alone, "blind" (paper Eq. 1).

        Dtypes, aliasing and errors as in `to_canonical`.
        """
        return self._map(partial(relocate, positions=positions, spec=spec), out_dtype)

    def _map(self, turn: Callable[..., Tensor], out_dtype: torch.dtype | None) -> ChunkKV:
        dtype = out_dtype or self.dtype
        tensors = {}
        for channel in self.channels:
            tensor = self.tensors[channel.name]
            tensors[channel.name] = (
                turn(tensor, out_dtype=dtype) if channel.rotates else tensor.to(dtype)
            )
        return ChunkKV(tensors)

    def _any(self) -> Tensor:
        return next(iter(self.tensors.values()))


def concat(chunks: Sequence[ChunkKV]) -> ChunkKV:
    """Chunks one after the other along the tokens; a new allocation.

    Raises:
        ConfigError: no chunk, or chunks whose channels, L, H, D, dtype or device differ.
    """
    if not chunks:
        raise ConfigError("Invalid chunks: expected at least one chunk to concatenate, got none")
    expected = _layout(chunks[0])
    for index, chunk in enumerate(chunks):
        if _layout(chunk) != expected:
            raise ConfigError(
                f"Invalid chunks[{index}]: expected (L, H, D, dtype, device) by channel as "
                f"chunks[0], {expected}, got {_layout(chunk)}"
            )
    names = [channel.name for channel in chunks[0].channels]
    return ChunkKV(
        {name: torch.cat([chunk.tensors[name] for chunk in chunks], dim=1) for name in names}
    )


def _layout(chunk: ChunkKV) -> dict[str, tuple[object, ...]]:
    return {
        name: (tensor.shape[0], *tensor.shape[2:], tensor.dtype, str(tensor.device))
        for name, tensor in chunk.tensors.items()
    }


__all__ = ["ATTENTION", "MLA", "Channel", "ChunkKV", "channels_of", "concat"]
