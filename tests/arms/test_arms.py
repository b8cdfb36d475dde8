"""One contract over every arm, and what each of them promises of its own."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kamera.arms import (
    Arm,
    ArmRequest,
    Blind,
    Kamera,
    Patched,
    PrefixCache,
    Reprefill,
    Served,
    Workbench,
)
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.session import Session, SessionSettings
from kamera.store import MemoryStore

EXACT = 1e-6


def session(engine: HFEngine, **settings: Any) -> Session:
    return Session(engine, MemoryStore(1 << 30), SessionSettings(**{"rank": 10**6} | settings))


ARMS: dict[str, Callable[[HFEngine], Arm]] = {
    "re-prefill": Reprefill,
    "prefix cache": PrefixCache,
    "blind": lambda engine: Blind(Workbench(engine)),
    "patch 4": lambda engine: Patched(Workbench(engine), 4),
    "patch full": lambda engine: Patched(Workbench(engine), None),
    "kamera": lambda engine: Kamera(session(engine)),
}
EXACT_ARMS = ["re-prefill", "prefix cache", "patch full", "kamera"]
"""Those that equal re-prefill on a window that grows."""


def truth(engine: HFEngine, request: ArmRequest) -> torch.Tensor:
    return Reprefill(engine).serve(request).logits


def kl(expected: torch.Tensor, got: torch.Tensor) -> float:
    p, q = expected.double().log_softmax(-1), got.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum().item()


def serve(arm: Arm, request: ArmRequest) -> Served:
    arm.prepare(request)
    return arm.serve(request)


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_serves_a_window(engine: HFEngine, window: Any, name: str) -> None:
    arm = ARMS[name](engine)
    assert arm.name == name
    for names in ("a", "ab", "abc", "bc", "cba", "abc", ""):
        request = window(names)
        served = serve(arm, request)
        assert torch.isfinite(served.logits).all()
        assert served.logits.shape == (512,)
        assert served.logits.dtype == torch.float32
        total = sum(chunk.num_tokens for chunk in request.cached)
        assert 0 <= served.num_prefilled <= total
        assert 0 <= served.num_vision_runs <= len(request.chunks)
        assert served.ttft_s > 0
        assert served.num_formed >= 0


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_is_deterministic_and_can_be_reset(
    engine: HFEngine, window: Any, name: str
) -> None:
    arm = ARMS[name](engine)
    first = serve(arm, window("ab")).logits
    serve(arm, window("ba"))
    arm.reset()
    again = serve(arm, window("ab")).logits
    assert kl(first, again) <= EXACT


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_serves_one_image_twice(engine: HFEngine, window: Any, name: str) -> None:
    arm, request = ARMS[name](engine), window("aba")
    served = serve(arm, request)
    assert torch.isfinite(served.logits).all()
    if name in EXACT_ARMS:
        assert kl(truth(engine, request), served.logits) <= EXACT


@pytest.mark.parametrize("name", ARMS)
def test_every_arm_serves_text_alone(engine: HFEngine, window: Any, name: str) -> None:
    """One chunk at position 0: nothing stands before it, so every method is exact."""
    request = window("")
    assert len(request.cached) == 1
    served = serve(ARMS[name](engine), request)
    assert served.num_vision_runs == 0
    assert kl(truth(engine, request), served.logits) <= EXACT


@pytest.mark.parametrize("name", EXACT_ARMS)
def test_exact_arms_equal_re_prefill_while_the_window_grows(
    engine: HFEngine, window: Any, name: str
) -> None:
    arm = ARMS[name](engine)
    for names in ("a", "ab", "abc", "abc"):
        request = window(names)
        assert kl(truth(engine, request), serve(arm, request).logits) <= EXACT


@pytest.mark.parametrize("name", ["re-prefill", "prefix cache", "patch full"])
def test_re_prefilling_arms_are_exact_on_any_window(
    engine: HFEngine, window: Any, name: str
) -> None:
    arm = ARMS[name](engine)
    for names in ("abc", "bcd", "dcb", "dc", "a", "dca"):
        request = window(names)
        assert kl(truth(engine, request), serve(arm, request).logits) <= EXACT


def test_re_prefill_is_one_forward_from_the_pixels(engine: HFEngine, window: Any) -> None:
    request = window("ab")
    served = Reprefill(engine).serve(request)
    vision = {c.media.digest: engine.see(c) for c in request.chunks if c.media}
    out = engine.prefill([*request.cached, request.tail], vision, start=0)
    assert served.logits.equal(out.logits)
    assert served.num_vision_runs == 2
    assert served.num_prefilled == request.cached[0].num_tokens + 8 + 14
    assert request.tail_start == request.cached[0].extent + 5 + 6


def test_a_prefix_cache_keeps_what_the_windows_share(engine: HFEngine, window: Any) -> None:
    arm = PrefixCache(engine)
    prefix = window("").cached[0].num_tokens
    wanted = [
        ("ab", prefix + 8 + 14, 2),
        ("abc", 12, 1),  # the shared prefix is kept
        ("abc", 0, 0),
        ("bc", 14 + 12, 2),  # one slide and all behind the prefix is lost
        ("ba", 8, 1),
        ("", 0, 0),
        ("b", 14, 1),
    ]
    for names, num_prefilled, num_vision_runs in wanted:
        served = arm.serve(window(names))
        assert (served.num_prefilled, served.num_vision_runs) == (num_prefilled, num_vision_runs)
    arm.reset()
    assert arm.serve(window("b")).num_prefilled == prefix + 14


def test_blind_is_not_exact_and_a_patch_closes_the_gap(engine: HFEngine, window: Any) -> None:
    bench, request = Workbench(engine), window("abc")
    right = truth(engine, request)
    blind = kl(right, serve(Blind(bench), request).logits)
    by_rank = [kl(right, serve(Patched(bench, m), request).logits) for m in (1, 4, None)]
    assert blind > 1e-2
    assert by_rank[-1] <= EXACT < by_rank[0]
    assert by_rank[1] < blind


def test_blind_compiles_a_chunk_once(engine: HFEngine, window: Any) -> None:
    arm = Blind(Workbench(engine))
    prefix = window("").cached[0].num_tokens
    assert arm.serve(window("ab")).num_prefilled == prefix + 8 + 14
    assert arm.serve(window("ba")).num_prefilled == 0
    served = arm.serve(window("bac"))
    assert (served.num_prefilled, served.num_vision_runs) == (12, 1)


def test_patches_are_of_their_own_antecedents(engine: HFEngine, window: Any) -> None:
    """A patch prepared for [a, b] is never added in [b, a]."""
    arm = Patched(Workbench(engine), None)
    arm.prepare(window("ab"))
    with pytest.raises(KeyError):
        arm.serve(window("ba"))
    arm.prepare(window("ba"))
    request = window("ba")
    assert kl(truth(engine, request), arm.serve(request).logits) <= EXACT


def test_a_workbench_runs_each_forward_once(engine: HFEngine, window: Any) -> None:
    bench, request = Workbench(engine), window("abc")
    serve(Patched(bench, 4), request)
    runs = engine.num_vision_runs
    serve(Patched(bench, None), request)
    serve(Blind(bench), request)
    assert engine.num_vision_runs == runs
    bench.clear()
    serve(Blind(bench), request)
    assert engine.num_vision_runs == runs + 3


def test_kamera_slides_for_free(engine: HFEngine, window: Any) -> None:
    arm = Kamera(session(engine))
    arm.serve(window("abc"))
    served = arm.serve(window("bc"))
    assert (served.num_prefilled, served.num_vision_runs, served.num_formed) == (0, 0, 0)
    assert served.lanes == ("leading", "exact", "survivor")
    assert arm.serve(window("c")).lanes == ("leading", "exact")


def test_kamera_forms_off_the_path(engine: HFEngine, window: Any) -> None:
    served = Kamera(session(engine)).serve(window("ab"))
    prefix = window("").cached[0].num_tokens
    assert served.num_prefilled == prefix + 8 + 14
    # two solo forwards, and b behind the prefix alone
    assert served.num_formed == 8 + 14 + (prefix + 14)


def test_kamera_refuses_another_prefix_than_its_sessions(engine: HFEngine, window: Any) -> None:
    arm, request = Kamera(session(engine)), window("a")
    other = engine.text_chunk("<|im_start|>system\n")
    for prefix in (None, other):
        with pytest.raises(ConfigError, match="prefix"):
            arm.serve(ArmRequest(prefix, request.chunks, request.tail))


@pytest.mark.parametrize("name", [n for n in ARMS if n != "kamera"])
def test_arms_serve_a_window_without_a_prefix(engine: HFEngine, window: Any, name: str) -> None:
    request = ArmRequest(None, window("ab").chunks, window("").tail)
    served = serve(ARMS[name](engine), request)
    if name in EXACT_ARMS:
        assert kl(truth(engine, request), served.logits) <= EXACT
