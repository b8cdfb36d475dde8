"""The Triton kernel into a paged pool: every layout of a page, and nothing beside the named slots."""

from collections.abc import Callable
from dataclasses import replace

import pytest
import torch
from torch import Tensor
from triton_cases import GQA, LAYERED, MLA, Case, contiguous, poisoned, raw
from triton_device import DEVICE

from kamera.kernels import Pages, Placement
from kamera.kernels.triton_apply import TritonKernel

KERNEL = TritonKernel()
NUM_BLOCKS, BLOCK_SIZE = 9, 8
DTYPE = torch.bfloat16

Layout = Callable[[int, dict[str, tuple[int, int]]], tuple[list[Tensor], dict[str, list[Tensor]]]]
"""(layers, channel -> (H, D)) -> the layers' memory, and channel -> views [B, S, H, D] of it."""


def split(num_layers: int, shapes: dict[str, tuple[int, int]], *order: int) -> tuple:
    """Each channel its own memory; `order` puts (block, slot, head, dim) in memory's order."""
    size = {name: (NUM_BLOCKS, BLOCK_SIZE, *shape) for name, shape in shapes.items()}
    memory = {
        name: [poisoned([full[i] for i in order], DTYPE) for _ in range(num_layers)]
        for name, full in size.items()
    }
    back = [order.index(i) for i in range(4)]
    views = {name: [t.permute(back) for t in tensors] for name, tensors in memory.items()}
    return [t for tensors in memory.values() for t in tensors], views


def token_major(num_layers: int, shapes: dict[str, tuple[int, int]]) -> tuple:
    """vLLM's NHD."""
    return split(num_layers, shapes, 0, 1, 2, 3)


def head_major(num_layers: int, shapes: dict[str, tuple[int, int]]) -> tuple:
    """vLLM's HND."""
    return split(num_layers, shapes, 0, 2, 1, 3)


def transposed(num_layers: int, shapes: dict[str, tuple[int, int]]) -> tuple:
    """Dims outside slots, as the CPU backend keeps keys."""
    return split(num_layers, shapes, 0, 2, 3, 1)


def together(num_layers: int, shapes: dict[str, tuple[int, int]]) -> tuple:
    """K and V of a block behind each other: [B, 2, S, H, D]."""
    (shape,) = set(shapes.values())
    memory = [poisoned((NUM_BLOCKS, 2, BLOCK_SIZE, *shape), DTYPE) for _ in range(num_layers)]
    return memory, {name: [t[:, i] for t in memory] for i, name in enumerate(shapes)}


def one_row(num_layers: int, shapes: dict[str, tuple[int, int]]) -> tuple:
    """MLA's row of c_kv and k_pe: [B, S, C + R]."""
    sizes = [dim for _, dim in shapes.values()]
    memory = [poisoned((NUM_BLOCKS, BLOCK_SIZE, sum(sizes)), DTYPE) for _ in range(num_layers)]
    parts = [t.unsqueeze(2).split(sizes, dim=-1) for t in memory]
    return memory, {name: [part[i] for part in parts] for i, name in enumerate(shapes)}


def unaligned(num_layers: int, shapes: dict[str, tuple[int, int]]) -> tuple:
    """Pages that begin at an odd number: no 16 bytes of a row lie together in memory's own steps."""
    memory = [
        poisoned((NUM_BLOCKS * BLOCK_SIZE * heads * dim + 1,), DTYPE)
        for heads, dim in shapes.values()
        for _ in range(num_layers)
    ]
    views = iter(memory)
    return memory, {
        name: [next(views)[1:].view(NUM_BLOCKS, BLOCK_SIZE, *shape) for _ in range(num_layers)]
        for name, shape in shapes.items()
    }


CASES: list[tuple[Layout, Case]] = [
    (token_major, GQA), (head_major, GQA), (transposed, GQA), (together, GQA), (unaligned, GQA),
    (one_row, MLA), (token_major, LAYERED),
]  # fmt: skip
cases = pytest.mark.parametrize(
    ("layout", "case"),
    CASES,
    ids=[f"{layout.__name__}-{case.num_layers}" for layout, case in CASES],
)


def scattered_slots(num_tokens: int) -> Tensor:
    """A slot for each token, in no order, none twice."""
    order = torch.randperm(NUM_BLOCKS * BLOCK_SIZE, generator=torch.Generator().manual_seed(4))
    return order[:num_tokens].to(DEVICE)


def written(placement: Placement, views: dict[str, list[Tensor]], slots: Tensor) -> None:
    pages = {name: Pages(layers, slots) for name, layers in views.items()}
    assert KERNEL.takes(placement, pages)
    KERNEL.write(placement, pages)


@cases
def test_a_token_goes_to_its_slot_and_nothing_else_is_touched(layout: Layout, case: Case) -> None:
    placement = replace(case, skip=4).placement()
    slots = scattered_slots(placement.num_tokens)
    slots[[0, 7, 20]] = -1
    memory, views = layout(case.num_layers, dict(case.shapes))
    written(placement, views, slots)

    expected_memory, expected = layout(case.num_layers, dict(case.shapes))
    plain = contiguous(placement, DTYPE)
    KERNEL.write(placement, plain)
    kept = slots >= 0
    for name, layers in expected.items():
        for layer, values in zip(layers, plain[name], strict=True):
            layer[slots[kept] // BLOCK_SIZE, slots[kept] % BLOCK_SIZE] = values[kept]
    for got, wanted in zip(memory, expected_memory, strict=True):
        assert raw(got).equal(raw(wanted))
    assert not any(raw(got).eq(raw(poisoned(got.shape, DTYPE))).all() for got in memory)


def test_slots_need_not_be_contiguous() -> None:
    placement = GQA.placement()
    slots = scattered_slots(GQA.num_tokens)
    memory, views = token_major(2, dict(GQA.shapes))
    written(placement, views, slots)
    again, more_views = token_major(2, dict(GQA.shapes))
    written(placement, more_views, torch.stack([slots, slots + 1], dim=1)[:, 0])
    assert all(raw(a).equal(raw(b)) for a, b in zip(memory, again, strict=True))


def test_a_pool_whose_layers_differ_is_left_to_the_reference() -> None:
    placement = GQA.placement()
    slots = scattered_slots(GQA.num_tokens)
    _, views = token_major(2, dict(GQA.shapes))
    _, others = head_major(2, dict(GQA.shapes))
    pages = {"k": Pages([views["k"][0], others["k"][1]], slots)}
    assert not KERNEL.takes(placement, pages)
