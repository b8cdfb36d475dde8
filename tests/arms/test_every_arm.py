"""One contract over every arm that is compared, as compared: what it gives, what it counts, what it costs."""

from collections.abc import Sequence
from typing import Any

import pytest
import torch

from kamera.arms import ROWS, Arm, ArmRequest, Kamera, Row, Served, Workbench, compared_arms
from kamera.engines.hf import HFEngine

NUM_LAYERS = 8


@pytest.fixture(scope="module")
def bench(engine: HFEngine) -> Workbench:
    return Workbench(engine)


@pytest.fixture(params=ROWS, ids=lambda row: row.name)
def row(request: pytest.FixtureRequest) -> Row:
    found: Row = request.param
    return found


@pytest.fixture
def arms(row: Row, bench: Workbench, window: Any) -> Sequence[Arm]:
    """Those of one row, taught by windows that the tests don't ask for."""
    found = row.make(bench)
    for arm in found:
        arm.learn([window("ed"), window("fe")])
    return found


def serve(arm: Arm, request: ArmRequest) -> Any:
    arm.prepare(request)
    return arm.serve(request)


def test_names_are_unique_and_begin_with_their_rows(bench: Workbench) -> None:
    names = [arm.name for arm in compared_arms(bench)]
    assert len(set(names)) == len(names)
    for row in ROWS:
        assert all(arm.name.startswith(row.name) for arm in [*row.make(bench), row.at_end(bench)])


def test_an_arm_serves_and_counts(arms: Sequence[Arm], window: Any) -> None:
    for arm in arms:
        for names in ("a", "cab", "aba", ""):
            check_served(arm.name, serve(arm, window(names)), window(names))


def check_served(name: str, served: Served, request: ArmRequest) -> None:
    num_tokens = sum(chunk.num_tokens for chunk in request.cached)
    assert torch.isfinite(served.logits).all()
    assert served.logits.shape == (512,)
    assert served.logits.dtype == torch.float32
    assert served.ttft_s > 0
    assert 0 <= served.num_prefilled <= num_tokens
    deepest = NUM_LAYERS * (2 if name.startswith("A-stream") else 1)  # its passes overlap
    assert served.num_prefilled <= served.num_token_layers <= num_tokens * deepest
    assert bool(served.num_prefilled) == bool(served.num_token_layers)
    assert served.num_bytes >= 0


def test_an_arm_is_deterministic_and_can_be_reset(arms: Sequence[Arm], window: Any) -> None:
    for arm in arms:
        first = serve(arm, window("ab"))
        serve(arm, window("ba"))
        arm.reset()
        again = serve(arm, window("ab"))
        assert torch.equal(first.logits, again.logits)
        assert first.num_bytes == again.num_bytes


def test_a_lone_chunk_is_exact_and_costs_nothing(
    row: Row, arms: Sequence[Arm], bench: Workbench, window: Any
) -> None:
    """Nothing stands before it: nothing is recomputed, kept or added."""
    request = window("")
    truth = bench.full([*request.cached, request.tail]).logits
    for arm in arms:
        served = serve(arm, request)
        assert torch.allclose(served.logits, truth, rtol=0, atol=1e-4 * float(truth.abs().max()))
        if row.kind != "reference":
            assert (served.num_prefilled, served.num_bytes, served.num_token_layers) == (0, 0, 0)


def test_an_arm_serves_a_window_without_a_prefix(arms: Sequence[Arm], window: Any) -> None:
    request = ArmRequest(None, window("ab").chunks, window("").tail)
    for arm in arms:
        assert torch.isfinite(serve(arm, request).logits).all()


def test_an_arm_changes_what_blind_gives(
    row: Row, arms: Sequence[Arm], bench: Workbench, window: Any
) -> None:
    request = window("cab")
    blind = bench.finish(request, bench.blind(request.cached)).logits
    for arm in arms:
        moved = (serve(arm, request).logits - blind).norm() / blind.norm()
        assert float(moved) > 1e-3 or row.end == "blind"


def test_kamera_counts_the_bytes_of_its_patches(engine: HFEngine, window: Any) -> None:
    from kamera.session import Session, SessionSettings
    from kamera.store import MemoryStore

    arm = Kamera(Session(engine, MemoryStore(1 << 30), SessionSettings(rank=4)))
    first = arm.serve(window("ab"))
    assert first.num_token_layers == first.num_prefilled * NUM_LAYERS
    arm.reset()
    again = arm.serve(window("ab"))
    assert again.num_token_layers == 0
    assert again.num_bytes > 0
