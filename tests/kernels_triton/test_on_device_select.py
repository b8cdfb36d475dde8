"""The dispatcher and the Triton kernel: when it is chosen, and that what it writes is its own."""

from collections.abc import Iterator
from typing import Any

import pytest
import torch
from triton_cases import GQA, contiguous, raw
from triton_device import DEVICE

from kamera.kernels import kernel, select, write
from kamera.kernels.triton_apply import TritonKernel


@pytest.fixture
def forced(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """KAMERA_KERNEL=triton for one test; what the process had chosen is chosen anew after it."""
    select.cache_clear()
    monkeypatch.setenv("KAMERA_KERNEL", "triton")
    yield
    select.cache_clear()


def test_it_is_chosen_by_its_name(forced: None) -> None:
    assert isinstance(select(), TritonKernel)
    assert kernel("triton").name == "triton"


def test_it_is_chosen_where_a_device_is_and_not_on_a_cpu(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("KAMERA_KERNEL", raising=False)
    for found in (True, False):
        monkeypatch.setattr(torch.cuda, "is_available", lambda found=found: found)
        select.cache_clear()
        assert (select().name == "triton") is found
    select.cache_clear()


def test_the_dispatcher_gives_it_what_it_takes(
    forced: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    seen: list[Any] = []
    original = TritonKernel.write
    monkeypatch.setattr(
        TritonKernel, "write", lambda self, *given: (seen.append(given), original(self, *given))
    )
    placement = GQA.placement()
    out = contiguous(placement, torch.bfloat16)
    write(placement, out)
    assert len(seen) == 1
    plain = contiguous(placement, torch.bfloat16)
    TritonKernel().write(placement, plain)
    assert all(raw(out[name]).equal(raw(plain[name])) for name in out)


def test_the_dispatcher_leaves_float64_to_the_reference(forced: None) -> None:
    placement = GQA.placement()
    out = {
        name: torch.full(tensor.shape, torch.nan, dtype=torch.float64, device=DEVICE)
        for name, tensor in placement.canonical.tensors.items()
    }
    write(placement, out)
    assert all(tensor.isfinite().all() for tensor in out.values())
