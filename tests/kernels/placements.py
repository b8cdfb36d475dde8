"""Chunks, patches and destinations to try a kernel on, and how far it may be from float64."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from kamera.channels import ChunkKV
from kamera.kernels import Pages, Placement
from kamera.patch import Factors, Patch, RaggedFactors, apply
from kamera.rope import PerLayerRope, RopeSpec


def spec(num_pairs, dim, *, axes=1, layout="half", scaling=1.0):
    """A scheme of this many pairs in heads of `dim`; with three axes pair i reads axis i mod 3."""
    inv_freq = tuple(torch.logspace(0, -4, num_pairs).tolist())
    return RopeSpec(
        inv_freq, tuple(i % axes for i in range(num_pairs)), axes, dim, scaling, layout=layout
    )


ROPES = {
    "1-D": spec(64, 128),
    "head of 64": spec(32, 64),
    "head of 80": spec(40, 80),
    "small head": spec(4, 8),
    "M-RoPE": spec(64, 128, axes=3),
    "pairs": spec(32, 64, layout="pairs"),
    "pairs, odd": spec(21, 48, layout="pairs"),
    "half of the dims": spec(32, 128, layout="pairs", axes=3),
    "three quarters": spec(36, 96),
    "attention factor": spec(32, 64, scaling=1.139),
    "by layer": PerLayerRope.of(
        [spec(32, 64), spec(32, 64, scaling=1.3), spec(16, 64, layout="pairs"), spec(32, 64)]
    ),
}
LAYERS = 4


def positions(num_tokens, rope, start=1000):
    """t, h and w of each token, none like the other."""
    steps = torch.arange(num_tokens)
    return start + torch.stack([steps, 2 * steps + 1, steps % 5], dim=-1)[:, : rope.num_axes]


def chunk(num_tokens, rope, dtype, *, heads=2, latent=None, seed=0):
    """Random KV: k and v, or c_kv of `latent` numbers and k_pe."""
    generator = torch.Generator().manual_seed(seed)
    sizes = {"k": (heads, rope.head_dim), "v": (heads, rope.head_dim)}
    if latent is not None:
        sizes = {"c_kv": (1, latent), "k_pe": (1, rope.head_dim)}
    return ChunkKV(
        {
            name: torch.randn(LAYERS, num_tokens, *size, generator=generator).to(dtype)
            for name, size in sizes.items()
        }
    )


def patch(kv, ranks, dtype=torch.float32, seed=1):
    """Random factors: one rank for all layers, or a list of them, one for each."""
    generator = torch.Generator().manual_seed(seed)
    factors = {}
    for name, tensor in kv.tensors.items():
        tokens, features = tensor.shape[1], tensor.shape[2] * tensor.shape[3]
        if isinstance(ranks, int):
            u = torch.randn(LAYERS, tokens, ranks, generator=generator).to(dtype)
            vt = torch.randn(LAYERS, ranks, features, generator=generator).to(dtype)
            factors[name] = Factors(u, vt / features**0.5)
            continue
        u = torch.randn(tokens * sum(ranks), generator=generator).to(dtype)
        vt = (torch.randn(features * sum(ranks), generator=generator) / features**0.5).to(dtype)
        factors[name] = RaggedFactors(u, vt, tuple(ranks), tokens, features)
    return Patch(factors, "A")


def dense(placement, dtype=None):
    """Contiguous destinations full of a number that no kernel writes."""
    out = {}
    for name, tensor in placement.canonical.tensors.items():
        layers, _, heads, dim = tensor.shape
        shape = (layers, placement.num_tokens, heads, dim)
        out[name] = torch.full(shape, 777.0, dtype=dtype or tensor.dtype)
    return out


@dataclass(frozen=True)
class Exact:
    """What float64 gives, and how far plain torch is from it."""

    truth: dict[str, torch.Tensor]
    plain: dict[str, torch.Tensor]

    @classmethod
    def of(cls, placement, dtype):
        """Of a placement into a cache of this dtype."""
        kv = placement.canonical
        wide = ChunkKV({name: tensor.double() for name, tensor in kv.tensors.items()})
        rest = (placement.patch, placement.positions, placement.rope)
        exact, plain = apply(wide, *rest), apply(kv, *rest, dtype)
        skip = placement.skip
        return cls(
            {name: tensor[:, skip:] for name, tensor in exact.tensors.items()},
            {name: tensor[:, skip:] for name, tensor in plain.tensors.items()},
        )

    def check(self, got):
        """Twice plain torch's error in the same dtype."""
        for name, tensor in got.items():
            allowed = 2 * (self.plain[name].double() - self.truth[name]).abs().max()
            error = (tensor.double() - self.truth[name]).abs().max()
            assert error <= allowed, f"{name}: {error} of {allowed}"


def bits(tensor):
    """The bytes of a tensor as integers."""
    kinds = {2: torch.int16, 4: torch.int32, 8: torch.int64}
    return tensor.contiguous().view(kinds[tensor.element_size()])


POOLS = {
    "slots, heads": lambda b, s, h, d, dtype: torch.full((b, s, h, d), 777.0, dtype=dtype),
    "heads, slots": lambda b, s, h, d, dtype: torch.full(
        (b, h, s, d), 777.0, dtype=dtype
    ).transpose(1, 2),
    "keys transposed in a block": lambda b, s, h, d, dtype: torch.full(
        (b, h, d, s), 777.0, dtype=dtype
    ).permute(0, 3, 1, 2),
    "k and v side by side": lambda b, s, h, d, dtype: torch.full(
        (b, s, h, 2 * d), 777.0, dtype=dtype
    )[..., d:],
}
"""Layouts of a paged cache, as views [B, S, H, D]."""


def pages(placement, layout, dtype, block=8, seed=3):
    """Pages of a pool in this layout, slots drawn."""
    generator = torch.Generator().manual_seed(seed)
    count = -(-placement.num_tokens // block) + 3
    slots = torch.randperm(count * block, generator=generator)[: placement.num_tokens]
    out = {}
    for name, tensor in placement.canonical.tensors.items():
        _, _, heads, dim = tensor.shape
        layers = [POOLS[layout](count, block, heads, dim, dtype) for _ in range(LAYERS)]
        out[name] = Pages(layers, slots)
    return out


def read(destination):
    """The tokens of a destination, and the numbers of all other slots."""
    slots = destination.slots
    flat = torch.stack([layer.reshape(-1, *layer.shape[2:]) for layer in destination.layers])
    other = torch.ones(flat.shape[1], dtype=torch.bool)
    other[slots] = False
    return flat[:, slots], flat[:, other]


__all__ = [
    "LAYERS", "POOLS", "ROPES", "Exact", "Placement", "bits", "chunk", "dense", "pages", "patch",
    "positions", "read", "spec",
]  # fmt: skip
