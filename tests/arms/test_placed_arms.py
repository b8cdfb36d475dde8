"""Feature-side arms and estimators: what they keep, what they cost, how they differ from the patch."""

from typing import Any

import pytest
import torch
from family_window import FamilyWindow

from kamera.arms import (
    AntecedentOperator,
    ArmRequest,
    AStream,
    DeepPatched,
    LowRankKeys,
    Orbit,
    Patched,
    ShallowSeed,
    SharedBasis,
    Sink,
    Workbench,
)
from kamera.arms.orbit import orderings
from kamera.arms.regression import fit_ridge
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab.conformance.measure import logits_error


@pytest.fixture
def bench(engine: HFEngine) -> Workbench:
    return Workbench(engine)


def serve(arm: Any, request: ArmRequest) -> Any:
    arm.prepare(request)
    return arm.serve(request)


def test_half_of_the_layers_take_half_of_the_bytes(bench: Workbench, window: Any) -> None:
    request = window("cab")
    whole = serve(Patched(bench, 4), request)
    for share in (0.0, 0.25, 0.5, 1.0):
        deep = serve(DeepPatched(bench, 4, share), request)
        assert deep.num_bytes == share * whole.num_bytes
    assert deep.logits.equal(whole.logits)
    blind = bench.finish(request, bench.blind(request.cached)).logits
    none = serve(DeepPatched(bench, 4, 0.0), request).logits
    assert logits_error(none, blind) < 1e-5


def test_a_deep_patch_leaves_the_shallow_layers_blind(bench: Workbench, window: Any) -> None:
    request = window("ab")
    arm = DeepPatched(bench, None, 0.5)
    start = sum(chunk.extent for chunk in request.cached[:2])
    placed = arm.place(request, 2, start).kv
    chunk = request.cached[2]
    blind = bench.canonical(chunk).at(chunk.layout.at(start), bench.engine.spec)
    exact = bench.conditioned(request.cached, 2)
    for name, tensor in placed.tensors.items():
        assert tensor[:4].allclose(blind.tensors[name][:4], rtol=0, atol=1e-5)
        assert tensor[4:].allclose(exact.tensors[name][4:], rtol=0, atol=1e-4)
        assert not tensor[4:].allclose(blind.tensors[name][4:], rtol=0, atol=1e-2)


@pytest.mark.parametrize("share", [-0.1, 1.5])
def test_a_share_of_layers_is_a_share(bench: Workbench, share: float) -> None:
    with pytest.raises(ConfigError, match="share"):
        DeepPatched(bench, 4, share)


def test_a_shared_basis_keeps_coefficients_alone(bench: Workbench, window: Any) -> None:
    request = window("cab")
    arm = SharedBasis(bench, 4)
    with pytest.raises(ConfigError, match="learn"):
        serve(arm, request)
    arm.learn([window("ed"), window("fe")])
    served = serve(arm, request)
    num_tokens = sum(chunk.num_tokens for chunk in request.cached[1:])
    assert served.num_bytes == 2 * 8 * num_tokens * 4 * 4  # channels, layers, tokens, rank, float32
    assert served.num_bytes < serve(Patched(bench, 4), request).num_bytes


def test_a_basis_of_the_window_itself_is_at_least_as_good_as_anothers(
    bench: Workbench, window: Any
) -> None:
    """In energy: what the projection leaves of the deficit."""
    request = window("cab")
    left = []
    for taught in (request, window("fed")):
        arm = SharedBasis(bench, 4)
        arm.learn([taught])
        assert arm._basis is not None
        rest = 0.0
        for index in range(1, len(request.cached)):
            for name, delta in bench.delta(request.cached, index).items():
                basis = arm._basis[name]
                rest += float((delta - delta @ basis.mT @ basis).square().sum())
        left.append(rest)
    assert left[0] < left[1]


def test_learners_refuse_to_learn_from_nothing(bench: Workbench, window: Any) -> None:
    lone = window("")
    for arm in (SharedBasis(bench, 4), ShallowSeed(bench, 3)):
        with pytest.raises(ConfigError, match="expected"):
            arm.learn([lone])
    with pytest.raises(ConfigError, match="learn"):
        serve(AntecedentOperator(bench), window("a"))
    with pytest.raises(ConfigError, match="learn"):
        serve(ShallowSeed(bench, 3), window("a"))
    with pytest.raises(ConfigError, match="expected at least 1"):
        ShallowSeed(bench, 0)


def test_an_orbit_holds_out_the_tested_ordering(bench: Workbench, window: Any) -> None:
    request = window("abc")
    pinned, *free = request.cached[:-1]
    found = orderings(request.cached[:-1], 1, 6)
    assert [[c.digest for c in order] for order in found] == [
        [pinned.digest, free[1].digest, free[0].digest]
    ]
    four = window("abcd").cached
    assert len(orderings(four, 1, 100)) == 23
    assert len(orderings(four, 1, 6)) == 6
    assert all(order[0] == four[0] for order in orderings(four, 1, 100))
    assert orderings(four[:2], 1, 6) == [tuple(four[:2])]  # there is no other


def test_an_orbit_patch_serves_another_ordering(bench: Workbench, window: Any) -> None:
    """Closer to re-prefill than blind, and not the exact patch."""
    request = window("abc")
    truth = bench.full([*request.cached, request.tail]).logits
    orbit = serve(Orbit(bench, None), request).logits
    exact = serve(Patched(bench, None), request).logits
    assert logits_error(exact, truth) < 1e-4 < logits_error(orbit, truth)


def test_a_sink_without_tokens_is_blind(family: FamilyWindow) -> None:
    got = serve(Sink(family.bench, 0), family.request).logits
    assert logits_error(got, family.blind) <= family.bound


def test_a_chunk_behind_a_sink_knows_nothing_of_what_stands_between(
    bench: Workbench, window: Any
) -> None:
    """a and g are of one size: with a sink as long as the prefix, b is the same behind either."""
    found = []
    for names in ("ab", "gb"):
        request = window(names)
        prefix, first, _ = request.cached
        for num_tokens in (prefix.num_tokens, prefix.num_tokens + 2):
            arm = Sink(bench, num_tokens)
            arm.prepare(request)
            found.append(arm.place(request, 2, prefix.extent + first.extent).kv.tensors["v"])
    assert found[0].equal(found[2])
    assert not found[1].allclose(found[3], rtol=0, atol=1e-2)


def test_low_rank_keys_touch_keys_alone(bench: Workbench, window: Any) -> None:
    request = window("ab")
    arm = LowRankKeys(bench, 2)
    start = sum(chunk.extent for chunk in request.cached[:2])
    placed, chunk = arm.place(request, 2, start), request.cached[2]
    blind = bench.canonical(chunk).at(chunk.layout.at(start), bench.engine.spec)
    assert placed.kv.tensors["v"].equal(blind.tensors["v"])
    assert not placed.kv.tensors["k"].allclose(blind.tensors["k"], atol=1e-2)
    features = blind.tensors["k"].flatten(2).shape[2]
    assert placed.num_bytes == 8 * 2 * (chunk.num_tokens + features) * 4


@pytest.mark.parametrize(
    "make",
    [
        lambda bench: Orbit(bench, 4),
        lambda bench: SharedBasis(bench, 4),
        lambda bench: LowRankKeys(bench, 4),
        lambda bench: AntecedentOperator(bench, pool=2),
        lambda bench: Patched(bench, 4),
        lambda bench: DeepPatched(bench, 4),
        lambda bench: Sink(bench, 4),
    ],
)
def test_numbers_are_as_wide_as_the_kvs(tiny: Any, picture: Any, make: Any) -> None:
    """A model in bf16 keeps half of the bytes that the same one keeps in float32."""
    kept = []
    for dtype in ("float32", "bfloat16"):
        engine = HFEngine.from_pretrained(tiny, dtype=dtype)
        prefix, tail = engine.frame("where is the ball?")
        chunks = tuple(engine.image_chunk(picture(seed, 84, 56)) for seed in range(5))
        arm = make(Workbench(engine))
        arm.learn([ArmRequest(prefix, chunks[2:], tail)])
        served = serve(arm, ArmRequest(prefix, chunks[:3], tail))
        assert served.logits.isfinite().all()
        kept.append(served.num_bytes)
    assert kept[0] == 2 * kept[1] > 0


def test_an_operator_is_of_its_antecedent(bench: Workbench, window: Any) -> None:
    arm = AntecedentOperator(bench, pool=2)
    arm.learn([window("edf")])
    request = window("cab")
    served = serve(arm, request)
    features = 2 * bench.canonical(request.cached[1]).tensors["k"].flatten(2).shape[2]
    assert served.num_bytes == 3 * 8 * features**2 * 4  # one for each antecedent
    assert served.num_prefilled == 0


def test_a_seed_costs_the_layers_that_it_runs(bench: Workbench, window: Any) -> None:
    request = window("cab")
    num_tokens = sum(chunk.num_tokens for chunk in request.cached[1:])
    for num_layers in (1, 3, 8):
        arm = ShallowSeed(bench, num_layers)
        arm.learn([window("ed"), window("fe")])
        served = serve(arm, request)
        assert served.num_token_layers == num_layers * num_tokens
        assert served.num_prefilled == num_tokens


def test_a_stream_of_depth_one_sees_the_antecedents_once_a_layer(
    bench: Workbench, window: Any
) -> None:
    """The second layer's KV is exact: all below it is. The third's isn't."""
    request = window("cab")
    held: list[Any] = []
    real = bench.finish
    bench.finish = lambda request, kv: held.append(kv) or real(request, kv)  # type: ignore[method-assign,func-returns-value]
    served = AStream(bench, 1).serve(request)
    exact, blind = bench.full(request.cached).kv, bench.blind(request.cached)
    for layer, close in ((0, True), (1, True), (2, False)):
        got, wanted = held[0].tensors["v"][layer], exact.tensors["v"][layer]
        assert got.allclose(wanted, rtol=0, atol=1e-4) == close
        assert got.allclose(blind.tensors["v"][layer], rtol=0, atol=1e-2) == (layer == 0)
    num_tokens = sum(chunk.num_tokens for chunk in request.cached[1:])
    assert served.num_token_layers == num_tokens * (1 + 2 * 7)
    assert serve(AStream(bench, 0), request).num_token_layers == 0


def test_ridge_is_least_squares_on_either_side() -> None:
    generator = torch.Generator().manual_seed(0)
    for rows in (5, 40):
        x = torch.randn(2, rows, 12, generator=generator)
        y = torch.randn(2, rows, 3, generator=generator)
        weight = 0.1 * x.double().square().sum((1, 2)) / 12
        normal = x.double().mT @ x.double() + weight[:, None, None] * torch.eye(12)
        wanted = torch.linalg.solve(normal, x.double().mT @ y.double())
        assert fit_ridge(x, y, 0.1).double().allclose(wanted, rtol=1e-5, atol=1e-6)
    few = torch.randn(1, 4, 12, generator=generator)
    target = torch.randn(1, 4, 2, generator=generator)
    assert (few @ fit_ridge(few, target, 0.0)).allclose(target, atol=1e-5)


def test_an_engine_that_cannot_work_inside_a_window_is_refused(engine: HFEngine) -> None:
    class Closed:
        """A session's engine and no more."""

        def __init__(self) -> None:
            for name in ("model_key", "spec", "device", "num_vision_runs"):
                setattr(self, name, getattr(engine, name))
            for name in ("prompt", "frame", "image_chunk", "see", "prefill", "generate", "room"):
                setattr(self, name, getattr(engine, name))

    with pytest.raises(ConfigError, match="Closed can't recompute"):
        _ = Workbench(Closed()).open
