"""Token arms: which tokens they choose, what they run, and that more of a budget costs more and helps."""

import itertools
from collections.abc import Callable
from typing import Any

import pytest
import torch
from family_window import FamilyWindow

import kamera
from kamera.arms import (
    ArmRequest,
    CacheBlend,
    Count,
    CrossMass,
    Epic,
    KeySimilarity,
    LayerReprefill,
    Leverage,
    Mpic,
    Patched,
    QueryOracle,
    SameBytes,
    Share,
    TopDeficit,
    VLCache,
    Workbench,
)
from kamera.arms.cacheblend import counts
from kamera.arms.laid_out import LaidOut
from kamera.arms.leverage import leverage
from kamera.arms.token_arm import TokenArm, row_bytes, token_layers
from kamera.arms.top_deficit import deficit_norms
from kamera.arms.vlcache import layer_importance, spread
from kamera.channels import ChunkKV
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError

STATIC: dict[str, Callable[[Workbench, float], TokenArm]] = {
    "epic": lambda b, p: Epic(b, Share(p)),
    "mpic": lambda b, p: Mpic(b, Share(p)),
    "vlcache": VLCache,
    "oracle top": lambda b, p: TopDeficit(b, Share(p)),
    "quest oracle": lambda b, p: QueryOracle(b, Share(p)),
    "leverage": lambda b, p: Leverage(b, Share(p)),
    "key similarity": lambda b, p: KeySimilarity(b, Share(p)),
}
ONLINE: dict[str, Callable[[Workbench, float], TokenArm]] = {
    "cacheblend": CacheBlend,
    "cross-mass": lambda b, p: CrossMass(b, Share(p)),
}


class Spy:
    """The engine, with a note of what it was asked to run and what was written."""

    def __init__(self, bench: Workbench, monkeypatch: pytest.MonkeyPatch) -> None:
        self.rows: list[torch.Tensor] = []
        self.written: list[torch.Tensor] = []
        real = bench.engine.recompute  # type: ignore[attr-defined]

        def recompute(
            chunks: Any, vision: Any, held: Any, rows: Any, keep: Any, **more: Any
        ) -> Any:
            out = real(chunks, vision, held, rows, keep, **more)
            self.rows.append(rows)
            self.written.append(out.written)
            return out

        monkeypatch.setattr(bench.engine, "recompute", recompute)


def laid_out(bench: Workbench, request: ArmRequest) -> LaidOut:
    return LaidOut(request, bench.blind(request.cached))


@pytest.fixture
def bench(engine: HFEngine) -> Workbench:
    return Workbench(engine)


@pytest.mark.parametrize("name", STATIC | ONLINE)
def test_costs_grow_with_the_budget(bench: Workbench, window: Any, name: str) -> None:
    request = window("cab")
    make = (STATIC | ONLINE)[name]
    served = [make(bench, p).serve(request) for p in (0.1, 0.4, 0.7, 1.0)]
    by_bytes = [one.num_bytes for one in served]
    by_layers = [one.num_token_layers for one in served]
    assert by_bytes == sorted(set(by_bytes))
    assert by_layers == sorted(set(by_layers))
    full = bench.full(request.cached).kv
    behind = int(laid_out(bench, request).behind.sum())
    assert by_bytes[-1] == full.slice_tokens(full.num_tokens - behind, full.num_tokens).num_bytes
    assert by_layers[-1] == behind * full.num_layers


@pytest.mark.parametrize("name", STATIC)
def test_an_arm_runs_what_it_says(
    bench: Workbench, window: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(bench, monkeypatch)
    served = STATIC[name](bench, 0.3).serve(window("cab"))
    assert served.num_prefilled == int(spy.rows[-1].sum())
    per_row = row_bytes(bench.blind(window("cab").cached).tensors)
    assert served.num_bytes == int(spy.written[-1].sum()) * per_row
    assert served.num_token_layers == int(spy.written[-1].sum())  # the same tokens in every layer


@pytest.mark.parametrize("name", STATIC | ONLINE)
def test_the_leading_chunk_is_never_run(
    bench: Workbench, window: Any, name: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(bench, monkeypatch)
    request = window("ab")
    (STATIC | ONLINE)[name](bench, 1.0).serve(request)
    assert not bool(spy.rows[-1][: request.cached[0].num_tokens].any())
    assert bool(spy.rows[-1][request.cached[0].num_tokens :].all())


@pytest.mark.parametrize(
    "name", ["oracle top", "quest oracle", "epic", "leverage", "key similarity"]
)
def test_no_budget_is_blind(family: FamilyWindow, name: str) -> None:
    served = STATIC[name](family.bench, 0.0).serve(family.request)
    assert served.logits.equal(family.blind)
    assert (served.num_prefilled, served.num_bytes) == (0, 0)


def test_epic_takes_the_first_tokens_of_each_chunk(bench: Workbench, window: Any) -> None:
    layout = laid_out(bench, window("ab"))
    rows = Epic(bench, Count(3)).choose(layout).rows
    first = [index for start, _ in layout.spans[1:] for index in range(start, start + 3)]
    assert rows.nonzero()[:, 0].tolist() == first


def test_mpic_takes_all_text_and_the_first_tokens_of_each_image(
    bench: Workbench, window: Any, engine: HFEngine
) -> None:
    request = window("ab")
    layout = laid_out(bench, request)
    rows = Mpic(bench, Count(2)).choose(layout).rows
    for chunk, (start, end) in zip(request.chunks, layout.spans[1:], strict=True):
        is_media = engine.is_media(chunk)
        assert bool(rows[start:end][~is_media].all())
        assert rows[start:end][is_media].tolist() == [True, True] + [False] * (
            int(is_media.sum()) - 2
        )


def test_the_oracle_takes_the_largest_deficits(bench: Workbench, window: Any) -> None:
    layout = laid_out(bench, window("cab"))
    norms = deficit_norms(bench, layout)
    assert not bool(norms[: layout.spans[0][1]].any())  # the leading chunk has none
    rows = TopDeficit(bench, Share(0.3)).choose(layout).rows
    assert float(norms[rows].min()) >= float(norms[~rows].max())
    assert int(rows.sum()) == layout.budget(Share(0.3))


def test_a_deficit_norm_is_what_a_token_misses_where_it_stands(
    bench: Workbench, window: Any
) -> None:
    """Measured on placed KV, which a rotation leaves as long as it was."""
    request = window("cab")
    layout, true = laid_out(bench, request), bench.full(request.cached).kv
    wanted = torch.zeros(layout.num_tokens)
    for name, tensor in true.tensors.items():
        missing = (tensor - layout.blind.tensors[name]).flatten(2).norm(dim=-1)
        for chunk, (start, end) in list(zip(layout.chunks, layout.spans, strict=True))[1:]:
            own = bench.canonical(chunk).tensors[name].flatten(1).norm(dim=1, keepdim=True)
            wanted[start:end] += (missing[:, start:end] / own).square().sum(0)
    assert deficit_norms(bench, layout).allclose(wanted.sqrt(), rtol=1e-3)


def test_the_query_oracle_takes_what_the_question_attends_to(bench: Workbench, window: Any) -> None:
    """Against the attention of a run over the whole window and the question."""
    request = window("cab")
    layout, chunks = laid_out(bench, request), [*request.cached, request.tail]
    mass, num_tokens = torch.zeros(layout.num_tokens), layout.num_tokens
    total = num_tokens + request.tail.num_tokens

    def look(_: int, weights: torch.Tensor) -> None:
        mass.add_(weights[:, num_tokens:, :num_tokens].sum((0, 1)))

    bench.open.recompute(
        chunks,
        bench.vision(chunks),
        bench.full(chunks).kv,
        torch.ones(total, dtype=torch.bool),
        lambda layer, fresh, held: torch.ones(total, dtype=torch.bool),
        observe=look,
    )
    rows = QueryOracle(bench, Share(0.3)).choose(layout).rows
    others = layout.behind & ~rows
    assert float(mass[rows].min()) >= float(mass[others].max()) * (1 - 1e-4)


def test_the_query_oracle_knows_the_question(
    bench: Workbench, window: Any, engine: HFEngine
) -> None:
    """Another question, other tokens; and attention that the model's own weights give."""
    request = window("cab")
    _, tail = engine.frame("what color is it?")
    other = ArmRequest(request.prefix, request.chunks, tail)
    arm = QueryOracle(bench, Share(0.3))
    rows = [arm.choose(laid_out(bench, r)).rows for r in (request, other)]
    assert int(rows[0].sum()) == int(rows[1].sum())
    assert not rows[0].equal(rows[1])


def test_tokens_of_a_patchs_bytes(bench: Workbench, window: Any) -> None:
    """Never more than the patch's, and less than one token a chunk short of it."""
    request = window("cab")
    for rank in (1, 2, 4):
        patched = Patched(bench, rank)
        patched.prepare(request)
        allowed = patched.serve(request).num_bytes
        spent = TopDeficit(bench, SameBytes(rank)).serve(request).num_bytes
        token = 8 * row_bytes(bench.blind(request.cached).tensors)
        assert allowed - len(request.chunks) * token < spent <= allowed


def test_tokens_of_a_patchs_bytes_in_bf16(picture: Any) -> None:
    """A patch's numbers are as wide as the KV's: float32 factors would have twice the tokens' bytes."""
    engine = HFEngine.from_pretrained(kamera.packaged_model(), dtype="bfloat16")
    bench = Workbench(engine)
    prefix, tail = engine.frame("which digit goes with the shape?")
    chunks = tuple(engine.image_chunk(picture(seed, 84, 84)) for seed in range(2))
    request = ArmRequest(prefix, chunks, tail)
    patched = Patched(bench, 2)
    patched.prepare(request)
    allowed = patched.serve(request).num_bytes
    spent = TopDeficit(bench, SameBytes(2)).serve(request).num_bytes
    blind = bench.blind(request.cached)
    assert blind.dtype == torch.bfloat16
    token = blind.num_layers * row_bytes(blind.tensors)
    assert allowed - len(chunks) * token < spent <= allowed


def test_a_rank_that_is_full_asks_for_every_token() -> None:
    assert SameBytes(100).tokens(12, [64, 64]) == 12


@pytest.mark.parametrize("budget", [lambda: Share(1.1), lambda: Count(-1), lambda: SameBytes(0)])
def test_budgets_that_make_no_sense_are_refused(budget: Callable[[], Any]) -> None:
    with pytest.raises(ConfigError, match="expected"):
        budget()


def test_cacheblends_filters_fall_around_the_share() -> None:
    found = counts(1000, 0.15, 28, 1)
    assert found[:2] == [1000, 1000]
    assert found[2:] == sorted(found[2:], reverse=True)
    assert found[2] > 150 > found[-1]
    assert sum(found[2:]) / 26 == pytest.approx(150, abs=1)
    assert counts(1000, 1.0, 28, 1) == [1000] * 28


def test_cacheblend_filters_among_those_it_kept(
    bench: Workbench, window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(bench, monkeypatch)
    served = CacheBlend(bench, 0.4).serve(window("cab"))
    written = spy.written[-1]
    assert bool(written[:2].all())
    for below, above in itertools.pairwise(written):
        assert not bool((above & ~below).any())
    num_rows = written.shape[1]
    assert written.sum(1).tolist() == counts(num_rows, 0.4, 8, 1)
    assert served.num_token_layers == int(written.sum())


def test_cacheblend_keeps_the_highest_deviation_of_the_check_layer(
    bench: Workbench, window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """All tokens went through layers 0 and 1 in context, so that the deviation there is the true deficit."""
    spy = Spy(bench, monkeypatch)
    request = window("cab")
    CacheBlend(bench, 0.3).serve(request)
    true, blind = bench.full(request.cached).kv, bench.blind(request.cached)
    deficit = sum(
        (true.tensors[n][1] - blind.tensors[n][1]).square().sum((1, 2)) for n in true.tensors
    )
    kept = spy.written[-1][2]
    behind = deficit[laid_out(bench, request).behind]
    assert float(behind[kept].min()) >= float(behind[~kept].max()) * (1 - 1e-4)


def test_cross_mass_keeps_one_set_behind_its_check_layer(
    bench: Workbench, window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(bench, monkeypatch)
    request = window("cab")
    CrossMass(bench, Share(0.25)).serve(request)
    written = spy.written[-1]
    assert bool(written[:2].all())
    assert bool((written[2:] == written[2]).all())
    assert int(written[2].sum()) == laid_out(bench, request).budget(Share(0.25))


def test_cross_mass_keeps_those_that_attend_most_to_their_antecedents(
    bench: Workbench, window: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Layers 0 and 1 run over all tokens, so that their attention is re-prefill's."""
    request = window("cab")
    layout = laid_out(bench, request)
    mass = torch.zeros(layout.num_tokens)

    def look(layer: int, weights: torch.Tensor) -> None:
        for start, end in layout.spans[1:] if layer < 2 else []:
            first = layout.spans[0][1]
            mass[start:end] += weights[:, start - first : end - first, :start].mean(0).sum(1)

    bench.open.recompute(
        request.cached,
        bench.vision(request.cached),
        bench.full(request.cached).kv,
        layout.behind,
        lambda layer, fresh, held: torch.ones(int(layout.behind.sum()), dtype=torch.bool),
        observe=look,
    )
    spy = Spy(bench, monkeypatch)
    CrossMass(bench, Share(0.25)).serve(request)
    kept = torch.zeros_like(layout.behind)
    kept[layout.behind] = spy.written[-1][2]
    others = layout.behind & ~kept
    assert float(mass[kept].min()) >= float(mass[others].max()) * (1 - 1e-4)


def test_key_similarity_keeps_those_like_an_antecedents_key(bench: Workbench, window: Any) -> None:
    request = window("cab")
    layout = laid_out(bench, request)
    rows = KeySimilarity(bench, Share(0.25)).choose(layout).rows
    keys = torch.cat([bench.canonical(c).tensors["k"].flatten(2) for c in request.cached], dim=1)
    scores = torch.zeros(layout.num_tokens)
    for start, end in layout.spans[1:]:
        for token in range(start, end):
            cosines = torch.cosine_similarity(keys[:, token, None], keys[:, :start], dim=-1)
            scores[token] = cosines.max(dim=1).values.mean()
    others = layout.behind & ~rows
    assert float(scores[rows].min()) >= float(scores[others].max()) * (1 - 1e-5)


def test_leverage_is_that_of_a_token_unlike_the_others(bench: Workbench, window: Any) -> None:
    """One of two directions has a single token: its leverage is 1, and the others share the other's 1."""
    rows = torch.zeros(1, 5, 1, 4)
    rows[:, :, :, 0] = 1.0
    rows[:, 3] = torch.tensor([0.0, 0.1, 0.0, 0.0])
    found = leverage(ChunkKV({"k": rows, "v": rows}))
    assert found.tolist() == pytest.approx([0.5, 0.5, 0.5, 2.0, 0.5])  # of two channels
    layout = laid_out(bench, window("ab"))
    chosen = Leverage(bench, Count(3)).choose(layout).rows
    for chunk, (start, end) in list(zip(layout.chunks, layout.spans, strict=True))[1:]:
        scores, mine = leverage(bench.canonical(chunk)), chosen[start:end]
        assert int(mine.sum()) == 3
        assert float(scores[mine].min()) >= float(scores[~mine].max())


def test_vlcache_learns_which_layers_matter(bench: Workbench, window: Any) -> None:
    arm, uniform = VLCache(bench, 0.3, by_layer=True), VLCache(bench, 0.3)
    request = window("cab")
    layout = laid_out(bench, request)
    assert arm.choose(layout).kept.equal(uniform.choose(layout).kept)  # nothing learned yet
    arm.learn([window("ed")])
    per_layer = arm.choose(layout).kept.sum(1).tolist()
    assert len(set(per_layer)) > 1
    assert per_layer == sorted(per_layer, reverse=True)  # no token enters half way up
    work = [one.serve(request).num_token_layers for one in (arm, uniform)]
    # shares are rounded up image by image and layer by layer
    assert abs(work[0] - work[1]) <= len(request.chunks) * 8


def test_a_layers_importance_is_what_its_blindness_costs(bench: Workbench, window: Any) -> None:
    """The first layer's KV depends on the token alone: blind is exact there."""
    importance = layer_importance(bench, window("cab"))
    assert importance.shape == (8,)
    assert float(importance[0]) < 1e-6 < float(importance[1:].min())


def test_shares_of_layers_have_the_mean_that_was_asked_for() -> None:
    importance = torch.tensor([0.0, 1.0, 2.0, 50.0])
    for share in (0.1, 0.5, 0.9, 1.0):
        found = spread(importance, share)
        assert sum(found) / 4 == pytest.approx(share)
        assert found == sorted(found)
        assert max(found) <= 1.0
    assert spread(torch.zeros(4), 0.3) == pytest.approx([0.3] * 4)


@pytest.mark.parametrize("first", [0, 3, 8])
def test_layer_re_prefill_leaves_the_shallow_layers_as_they_are(
    bench: Workbench, window: Any, first: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    spy = Spy(bench, monkeypatch)
    request = window("cab")
    served = LayerReprefill(bench, first).serve(request)
    behind = int(laid_out(bench, request).behind.sum())
    num_rows = behind if first < 8 else 0
    assert spy.written[-1].sum(1).tolist() == [0] * first + [num_rows] * (8 - first)
    assert served.num_token_layers == behind * (8 - first)


def test_layer_re_prefill_is_exact_from_the_first_layer_alone(family: FamilyWindow) -> None:
    """The first layer's KV depends on the token alone, but what it passes on doesn't: not from the second."""
    from kamera.lab.conformance.measure import logits_error

    from_first = LayerReprefill(family.bench, 0).serve(family.request).logits
    from_second = LayerReprefill(family.bench, 1).serve(family.request).logits
    assert logits_error(from_first, family.truth) <= family.bound
    assert logits_error(from_second, family.truth) > family.bound


def test_layers_that_a_token_must_pass() -> None:
    written = torch.tensor([[1, 0, 0], [0, 0, 0], [1, 1, 0]]).bool()
    assert token_layers(written) == 6
