"""Tokens recomputed in context, on every tiny model: all of them are re-prefill, none are what was held.

The bound is the conformance suite's: twice what the dtype costs plain Transformers in the same KV, measured
against its float64 copy, layer by layer and channel by channel.
"""

from typing import Any

import pytest
import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.engines.hf.recompute import layer_inputs, recompute
from kamera.errors import ConfigError
from kamera.lab.conformance import entry
from kamera.lab.conformance.measure import kv_error
from kamera.lab.conformance.models import CASES, case_of
from kamera.lab.conformance.pieces import ids_of, positions_of
from kamera.lab.conformance.subject import Subject, starts_of

FACTOR = 2.0


def keep_all(_: int, fresh: Any, __: Any) -> Tensor:
    return torch.ones(len(next(iter(fresh.values()))), dtype=torch.bool)


class Window:
    """Prefix, A and B, blind: each from its own canonical."""

    def __init__(self, subject: Subject) -> None:
        self.subject = subject
        self.pieces = [subject.prefix, subject.a, subject.b]
        self.positions = positions_of(self.pieces)
        starts = starts_of(self.pieces)
        canonical = [subject.form([piece], [0])[0] for piece in self.pieces]
        self.blind = subject.place(canonical, self.pieces, starts)
        self.full, _ = subject.prefill(self.pieces, self.positions)
        self.num_tokens = len(self.positions)
        self.first = len(subject.prefix.ids)

    @property
    def bound(self) -> Tensor:
        return FACTOR * self.subject.rounding(self.pieces, self.positions)

    def rows(self, *chosen: int) -> Tensor:
        rows = torch.zeros(self.num_tokens, dtype=torch.bool)
        rows[list(chosen)] = True
        return rows

    def run(
        self, rows: Tensor, held: ChunkKV | None = None, keep: Any = keep_all, **more: Any
    ) -> Any:
        media = self.subject.media(self.pieces)
        held = held or self.blind
        window = (ids_of(self.pieces), self.positions, media)
        return recompute(self.subject.backbone, *window, held, rows, keep, **more)


def subject_of(case: Any, dtype: torch.dtype = torch.float32) -> Subject:
    """The case's first kind of chunk."""
    return next(iter(entry.tiny_subjects(case, dtype)))[1]


@pytest.fixture(scope="module", params=CASES, ids=lambda c: f"{c.model_type} {c.variant}".strip())
def window(request: pytest.FixtureRequest) -> Window:
    return Window(subject_of(request.param))


def test_all_tokens_are_re_prefill(window: Window) -> None:
    kv, written = window.run(window.rows(*range(window.num_tokens)))
    assert bool(written.all())
    assert bool((kv_error(kv, window.full) <= window.bound).all())


@pytest.mark.parametrize("model_type", ["qwen2_5_vl", "qwen3_vl", "kimi_k25", "llava", "gemma3"])
def test_all_tokens_are_re_prefill_in_bf16(model_type: str) -> None:
    window = Window(subject_of(case_of(model_type), torch.bfloat16))
    kv, _ = window.run(window.rows(*range(window.first, window.num_tokens)))
    assert kv.dtype == torch.bfloat16
    assert bool((kv_error(kv, window.full) <= window.bound).all())


def test_all_tokens_behind_an_exact_start_are_re_prefill(window: Window) -> None:
    kv, _ = window.run(window.rows(*range(window.first, window.num_tokens)))
    assert bool((kv_error(kv, window.full) <= window.bound).all())
    assert float((kv_error(window.blind, window.full) / window.bound).max()) > 5  # blind isn't


def test_no_tokens_are_what_was_held(window: Window) -> None:
    kv, written = window.run(window.rows())
    assert written.shape == (window.blind.num_layers, 0)
    for name, tensor in window.blind.tensors.items():
        assert kv.tensors[name].equal(tensor)


def test_chosen_tokens_see_what_is_held_and_one_another(window: Window) -> None:
    """Over exact KV every token is exact, whichever are chosen; the others keep their bytes."""
    if window.subject.backbone.family.sees_ahead:
        chosen = range(window.first, window.num_tokens)  # an image isn't cut in two
    else:
        chosen = range(window.first, window.num_tokens, 3)
    kv, _ = window.run(window.rows(*chosen), window.full)
    assert bool((kv_error(kv, window.full) <= window.bound).all())
    others = ~window.rows(*chosen)
    for name, tensor in window.full.tensors.items():
        assert kv.tensors[name][:, others].equal(tensor[:, others])


def test_rows_are_chosen_layer_by_layer(window: Window) -> None:
    """From a layer on nothing is written: there the window keeps what was held, below it is re-prefill."""
    last = window.blind.num_layers - 1

    def below_the_last(layer: int, fresh: Any, held: Any) -> Tensor:
        assert {n: t.shape for n, t in fresh.items()} == {n: t.shape for n, t in held.items()}
        return keep_all(layer, fresh, held) & (layer < last)

    kv, written = window.run(window.rows(*range(window.num_tokens)), keep=below_the_last)
    assert written.sum(1).tolist() == [window.num_tokens] * last + [0]
    assert bool((kv_error(kv, window.full)[:, :last] <= window.bound[:, :last]).all())
    for name, tensor in window.blind.tensors.items():
        assert kv.tensors[name][last].equal(tensor[last])


def test_attention_is_shown_and_looking_changes_nothing(window: Window) -> None:
    shown = {}
    rows = window.rows(*range(window.first, window.num_tokens))
    kv, _ = window.run(rows, observe=lambda layer, weights: shown.update({layer: weights}))
    assert sorted(shown) == list(range(window.blind.num_layers))
    for weights in shown.values():
        assert weights.shape[1:] == (window.num_tokens - window.first, window.num_tokens)
        assert weights.sum(-1).allclose(torch.ones(()), atol=1e-5)
        if not window.subject.backbone.family.sees_ahead:
            assert float(weights[:, 0, window.first + 1 :].max()) == 0  # nothing ahead
    assert bool((kv_error(kv, window.full) <= window.bound).all())


def test_a_layers_inputs_can_be_given(window: Window) -> None:
    """The window's own hidden states, put in half way up, change nothing; others do."""
    subject, half = window.subject, window.blind.num_layers // 2
    media = subject.media(window.pieces)
    ids = ids_of(window.pieces)
    hidden = layer_inputs(subject.backbone, ids, window.positions, media, half)
    assert hidden.shape[0] == window.num_tokens
    rows = window.rows(*range(window.num_tokens))
    kv, _ = window.run(rows, inputs=(half, hidden))
    assert bool((kv_error(kv, window.full) <= window.bound).all())
    other, _ = window.run(rows, inputs=(half, hidden.flip(0)))
    assert float((kv_error(other, window.full) / window.bound)[:, half].max()) > 5


def test_the_first_layers_inputs_are_the_embeddings(window: Window) -> None:
    """So a re-prefill of all layers, from inputs that were kept, is re-prefill."""
    subject = window.subject
    kept = [
        layer_inputs(subject.backbone, ids_of([p]), p.layout.at(0), subject.media([p]), 0)
        for p in window.pieces
    ]
    kv, _ = window.run(window.rows(*range(window.num_tokens)), inputs=(0, torch.cat(kept)))
    assert bool((kv_error(kv, window.full) <= window.bound).all())


def test_a_window_that_does_not_fit_is_refused() -> None:
    window = Window(subject_of(case_of("qwen2_5_vl")))
    rows = window.rows(0)
    with pytest.raises(ConfigError, match="held KV"):
        window.run(rows, window.blind.slice_tokens(0, window.num_tokens - 1))
    window.subject.media = lambda _: None  # type: ignore[method-assign]
    with pytest.raises(ConfigError, match="embeddings"):
        window.run(rows)
