"""Cases for the Triton kernel, their truth in float64, and how far from it a right kernel may be."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import torch
from torch import Tensor
from triton_device import DEVICE

from kamera.channels import ChunkKV
from kamera.kernels import Pages, Placement
from kamera.patch import Patch, RaggedFactors, apply
from kamera.rope import PerLayerRope, Rope, RopeSpec

POISON = 0x5A
"""Every byte of a destination before it is written."""
FLOAT32_ROUNDING = 2.0**-24


def spec(
    head_dim: int,
    num_pairs: int | None = None,
    *,
    base: float = 1e4,
    num_axes: int = 3,
    **fields: object,
) -> RopeSpec:
    """Sections of t, h, w in turn; partial rotary with fewer pairs than head_dim / 2."""
    num_pairs = head_dim // 2 if num_pairs is None else num_pairs
    inv_freq = torch.tensor([base ** (-i / num_pairs) for i in range(num_pairs)])
    axes = tuple(i % num_axes for i in range(num_pairs))
    return RopeSpec(tuple(inv_freq.tolist()), axes, num_axes, head_dim, **fields)  # type: ignore[arg-type]


@dataclass(frozen=True)
class Case:
    """A chunk of random numbers, its patch and where it goes.

    Attributes:
        shapes: channel name -> (H, D).
        rope: the scheme.
        ranks: of each layer; None for no patch.
        num_tokens: T.
        dtype: of the canonical.
        factors: dtype of the factors.
        skip: tokens that aren't written.
        seed: of all numbers.
    """

    shapes: Mapping[str, tuple[int, int]]
    rope: Rope
    ranks: Sequence[int] | None = (8, 8)
    num_tokens: int = 37
    dtype: torch.dtype = torch.bfloat16
    factors: torch.dtype = torch.bfloat16
    skip: int = 0
    seed: int = 0

    @property
    def num_layers(self) -> int:
        """L."""
        if self.ranks is not None:
            return len(self.ranks)
        return self.rope.num_layers if isinstance(self.rope, PerLayerRope) else 2

    def placement(self) -> Placement:
        """On the tests' device. Every axis has positions of its own; one token is at the origin."""
        generator = torch.Generator().manual_seed(self.seed)

        def draw(*shape: int) -> Tensor:
            return torch.randn(shape, generator=generator)

        kv = {
            name: draw(self.num_layers, self.num_tokens, *shape).to(DEVICE, self.dtype)
            for name, shape in self.shapes.items()
        }
        patch = None if self.ranks is None else self._patch(self.ranks, draw)
        shape = (self.num_tokens, self.rope.num_axes)
        positions = torch.randint(0, 30_000, shape, generator=generator).to(DEVICE)
        positions[self.num_tokens // 2] = 0
        return Placement(ChunkKV(kv), patch, positions, self.rope, self.skip)

    def _patch(self, ranks: Sequence[int], draw: Callable[..., Tensor]) -> Patch:
        factors, total = {}, sum(ranks)
        for name, (heads, dim) in self.shapes.items():
            u = draw(total * self.num_tokens).to(DEVICE, self.factors)
            vt = draw(total * heads * dim).to(DEVICE, self.factors)
            factors[name] = RaggedFactors(u, vt, tuple(ranks), self.num_tokens, heads * dim)
        return Patch(factors, "antecedent")


GQA = Case({"k": (2, 32), "v": (2, 32)}, spec(32))
MLA = Case({"c_kv": (1, 80), "k_pe": (1, 32)}, spec(32, layout="pairs", num_axes=1))
PARTIAL = Case({"k": (3, 48), "v": (3, 48)}, spec(48, 10))
WIDE = Case({"k": (1, 160), "v": (1, 160)}, spec(160, num_axes=1))
YARN = Case({"k": (2, 32), "v": (2, 32)}, spec(32, attention_scaling=1.2079441541679836))
LAYERED = Case(
    {"k": (2, 64), "v": (2, 64)},
    PerLayerRope.of(
        [spec(64), spec(64, 12, base=1e6), spec(64, base=1e6), spec(64, 12, layout="pairs")]
    ),
    ranks=(8, 8, 8, 8),
)
FAMILIES = {
    "gqa": GQA, "mla": MLA, "partial": PARTIAL, "wide": WIDE, "yarn": YARN, "layered": LAYERED,
}  # fmt: skip
"""Half-split and interleaved pairs, one and three axes, partial rotary, a factor, ropes by layer."""


def contiguous(placement: Placement, dtype: torch.dtype) -> dict[str, Tensor]:
    """Poisoned [L, T − skip, H, D] for every channel."""
    return {
        name: poisoned((kv.shape[0], placement.num_tokens, *kv.shape[2:]), dtype)
        for name, kv in placement.canonical.tensors.items()
    }


def poisoned(shape: Sequence[int], dtype: torch.dtype) -> Tensor:
    """Every byte is `POISON`: what isn't written is seen."""
    size = torch.empty(0, dtype=dtype).element_size()
    tensor = torch.full((*shape, size), POISON, dtype=torch.uint8, device=DEVICE)
    return tensor.view(dtype).squeeze(-1)


def scattered(pages: Pages) -> Tensor:
    """[L, T, H, D] read back from the slots that aren't negative."""
    size = pages.layers[0].shape[1]
    slots = pages.slots[pages.slots >= 0]
    return torch.stack([layer[slots // size, slots % size] for layer in pages.layers])


def raw(tensor: Tensor) -> Tensor:
    """The bytes of each number as an integer, so that NaN equals itself and 0 isn't −0."""
    return tensor.view({2: torch.int16, 4: torch.int32}[tensor.element_size()])


def truth(placement: Placement) -> dict[str, Tensor]:
    """The reference in float64 from the same inputs, the tokens that are written."""
    canonical, patch = _double(placement.canonical), _exact(placement.patch)
    exact = apply(canonical, patch, placement.positions, placement.rope, torch.float64)
    return {name: kv[:, placement.skip :] for name, kv in exact.tensors.items()}


def bound(placement: Placement, name: str, exact: Tensor, dtype: torch.dtype) -> Tensor:
    """How far from `exact` any float32 computation with one rounding to `dtype` can be.

    Half a unit in the last place of `dtype`, and for the float32 part the usual bound of a sum of M products
    and a rotation, in whatever order: (M + 8) roundings of the sum of the magnitudes.
    """
    canonical, patch = _double(placement.canonical), _exact(placement.patch)
    size = canonical.tensors[name].abs()
    num_terms = 0
    if patch is not None:
        layers = list(patch.factors[name].layers(torch.float64))
        size = size + torch.stack([u.abs() @ vt.abs() for u, vt in layers]).view_as(size)
        num_terms = max(u.shape[1] for u, _ in layers)
    size = size[:, placement.skip :]
    # A rotated number comes of two: their sizes are at most twice the larger one's of the head.
    gain = max(s.attention_scaling for s in _specs(placement.rope))
    (rotates,) = (c.rotates for c in placement.canonical.channels if c.name == name)
    reach = 2 * gain * size.amax(-1, keepdim=True) if rotates else size
    return half_ulp(exact, dtype) + (num_terms + 8) * FLOAT32_ROUNDING * reach


def half_ulp(values: Tensor, dtype: torch.dtype) -> Tensor:
    """Half the distance of `dtype`'s numbers around each value, the wider one at a power of two."""
    info = torch.finfo(dtype)
    exponent = torch.frexp(values.abs().clamp(min=info.tiny) * (1 + info.eps)).exponent - 1
    return 0.5 * info.eps * torch.pow(2.0, exponent.double())


def _specs(rope: Rope) -> Sequence[RopeSpec]:
    return rope.specs if isinstance(rope, PerLayerRope) else (rope,)


def _double(kv: ChunkKV) -> ChunkKV:
    return ChunkKV({name: tensor.double() for name, tensor in kv.tensors.items()})


def _exact(patch: Patch | None) -> Patch | None:
    if patch is None:
        return None
    return Patch({n: f.flat(torch.float64) for n, f in patch.factors.items()}, patch.antecedent)
