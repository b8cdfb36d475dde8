"""The suite itself: its reference is exact, its bounds see mistakes, and nothing is left out in silence."""

import dataclasses
import json
from pathlib import Path
from typing import Any

import pytest
import torch

from kamera.channels import ChunkKV
from kamera.engines.hf.backbone import Backbone
from kamera.engines.hf.engine import HFEngine
from kamera.engines.hf.families import FAMILIES
from kamera.engines.hf.families.qwen_omni import OmniVideo
from kamera.engines.hf.families.qwen_vl import TimedVideo
from kamera.lab.conformance import __main__ as command
from kamera.lab.conformance import entry, matrix
from kamera.lab.conformance.case import Case
from kamera.lab.conformance.checks import (
    canonical,
    continuation,
    counting,
    mask,
    prefill,
    reach,
    relocation,
    rounding,
    routing,
)
from kamera.lab.conformance.checks import engine as engine_check
from kamera.lab.conformance.measure import Outcome, differing, layer_error
from kamera.lab.conformance.models import case_of, case_of_scheme
from kamera.lab.conformance.subject import Subject
from kamera.positions import PositionLayout
from kamera.rope import RopeSpec

QWEN3_VL, MOE = case_of("qwen3_vl"), case_of("qwen3_vl_moe")
LLAMA, GEMMA = case_of("llama"), case_of("gemma3")
QWEN2_5_VL = case_of("qwen2_5_vl", "long video, positions given")
OMNI = case_of("qwen2_5_omni_thinker", "long video")


def subject_of(case: Case, kind: str, dtype: torch.dtype = torch.float32) -> Subject:
    return next(s for name, s in entry.tiny_subjects(case, dtype) if name == kind)


def failing(outcomes: list[Outcome]) -> set[str]:
    return {outcome.check for outcome in outcomes if not outcome.ok}


@pytest.mark.parametrize(
    ("case", "kind"),
    [(QWEN3_VL, "image"), (LLAMA, "text"), (GEMMA, "image")],
    ids=["qwen3_vl", "llama", "gemma3"],
)
def test_the_float64_reference_is_free_of_position(case: Case, kind: str) -> None:
    """Exact angles, exact arithmetic: V is the same at every offset, and far from the dtype's own error."""
    subject = subject_of(case, kind)
    values = [
        subject.run([subject.b], subject.b.layout.at(at), exact=True).kv.tensors["v"]
        for at in (0, subject.far)
    ]
    assert values[0].dtype == torch.float64
    assert float(layer_error(values[1], values[0]).max()) < 1e-10
    rounding = subject.rounding([subject.b], subject.b.layout.at(subject.far))
    assert float(rounding[1, -1]) > 1e-7


def test_weights_are_far_from_linear() -> None:
    """Doubling the deviation of one embedding doesn't double what it changes in the last layer."""
    subject = subject_of(LLAMA, "text")
    pieces, at = [subject.b], subject.b.layout.at(0)
    table = subject.backbone.model.get_input_embeddings().weight
    before = table[subject.b.ids[3]].clone()
    values = []
    for step in (0.0, 0.5, 1.0):
        with torch.no_grad():
            table[subject.b.ids[3]] = before * (1 + step)
        values.append(subject.plain.run(pieces, at).kv.tensors["v"][-1])
    linear = 2 * (values[1] - values[0])
    assert float((values[2] - values[0] - linear).norm() / linear.norm()) > 0.2


def test_a_wrong_axis_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(QWEN3_VL, "image")
    axes = tuple(reversed(subject.rope.axes))
    monkeypatch.setattr(subject.backbone, "rope", dataclasses.replace(subject.rope, axes=axes))
    assert "relocation, layer 0" in failing(relocation.check(subject))


def test_a_wrong_attention_factor_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(case_of_scheme("yarn"), "text")
    rope = dataclasses.replace(subject.rope, attention_scaling=1.0)
    monkeypatch.setattr(subject.backbone, "rope", rope)
    assert failing(canonical.check(subject)) == {"canonical is the key before RoPE"}


def test_frequencies_a_millionth_off_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    """What a computed instead of a read `inv_freq` would do."""
    subject = subject_of(LLAMA, "text")
    slower = torch.tensor(subject.rope.inv_freq) * (1 - 1e-6)
    rope = dataclasses.replace(subject.rope, inv_freq=tuple(slower.tolist()))
    monkeypatch.setattr(subject.backbone, "rope", rope)
    assert "relocation, layer 0" in failing(relocation.check(subject))


def test_a_chunk_that_sees_what_stands_before_it_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(LLAMA, "text")
    monkeypatch.setattr(mask, "blocked_mask", lambda *_: None)
    assert failing(mask.check(subject)) == {"blocked mask"}


def test_a_backbone_that_trusts_the_model_s_memory_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """Positions left out: the model takes them from `rope_deltas`."""
    subject = subject_of(QWEN3_VL, "image")
    monkeypatch.setattr(Backbone, "_position_ids", lambda *_: None)
    assert "continuation with stale rope_deltas" in failing(continuation.check(subject))


@pytest.mark.parametrize("case", [QWEN2_5_VL, OMNI], ids=["qwen2_5_vl", "qwen2_5_omni"])
def test_text_that_resumes_inside_a_long_video_fails(case: Case) -> None:
    subject = subject_of(case, "video")
    b = subject.b.layout
    after = int(b.local[:-1, 1:].max()) + 1  # one past the rows and columns alone
    inside = PositionLayout(torch.cat([b.local[:-1], torch.full((1, 3), after)]), after + 1)
    subject.b = dataclasses.replace(subject.b, layout=inside)
    assert failing(counting.check(subject))


@pytest.mark.parametrize("case", [QWEN2_5_VL, OMNI], ids=["qwen2_5_vl", "qwen2_5_omni"])
def test_steps_that_are_rounded_instead_of_cut_off_fail(
    case: Case, monkeypatch: pytest.MonkeyPatch
) -> None:
    for video in (TimedVideo, OmniVideo):
        monkeypatch.setattr(video, "steps", lambda *_: [0, 2, 4, 5])
    assert failing(counting.check(subject_of(case, "video")))


@pytest.mark.parametrize("scheme", ["dynamic", "longrope"])
def test_an_answer_beyond_the_frequencies_reach_fails(
    scheme: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = subject_of(case_of_scheme(scheme), "text")
    assert failing(reach.check(subject)) == set()
    monkeypatch.setattr(RopeSpec, "check_reach", lambda *_: None)
    (outcome,) = reach.check(subject)
    assert (outcome.error, outcome.ok) == (3.0, False)


def test_products_in_bfloat16_fail() -> None:
    """As a rotation in the cache's dtype would make them."""
    subject = subject_of(LLAMA, "text", torch.bfloat16)
    at, rope = subject.b.layout.at(37), subject.rope
    keys = subject.prefill([subject.b], at)[0].tensors["k"][0]
    first, second = keys.chunk(2, dim=-1)
    angles = at.float() * rope.inv_freq_tensor()
    cos, sin = angles.cos().bfloat16()[:, None], angles.sin().bfloat16()[:, None]
    turned = torch.cat([first * cos - second * sin, second * cos + first * sin], -1)
    assert rounding.excess(turned, keys, at, rope, inverse=False) > 1.5
    assert failing(rounding.check(subject)) == set()


@pytest.mark.parametrize("mistake", ["order of images", "extent"])
def test_an_engine_that_misplaces_chunks_fails(
    mistake: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    subject = subject_of(QWEN3_VL, "image")
    run = HFEngine.prefill

    def wrong(self: HFEngine, chunks: Any, vision: Any, **options: Any) -> Any:
        if mistake == "extent":
            counted = [(c, PositionLayout(c.layout.local, c.num_tokens)) for c in chunks]
            chunks = [dataclasses.replace(chunk, layout=layout) for chunk, layout in counted]
        else:
            vision = dict(zip(vision, reversed(vision.values()), strict=True))
        return run(self, chunks, vision, **options)

    monkeypatch.setattr(HFEngine, "prefill", wrong)
    assert {"the engine's prefill", "the engine's logits"} <= failing(engine_check.check(subject))


def test_an_engine_that_decodes_at_one_place_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(LLAMA, "text")
    forward = Backbone.forward

    def stuck(self: Backbone, ids: Any, positions: Any, *rest: Any) -> Any:
        return forward(self, ids, positions * 0 if len(ids) == 1 else positions, *rest)

    monkeypatch.setattr(Backbone, "forward", stuck)
    wanted = {"the engine's last position", "the engine's tokens"}
    assert failing(engine_check.check(subject)) == wanted


def test_embeddings_that_change_fail(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(QWEN3_VL, "image")
    see = Backbone.see

    def unsteady(self: Backbone, kind: str, inputs: Any) -> torch.Tensor:
        seen = see(self, kind, inputs)
        return seen + 1e-6 * torch.rand_like(seen)

    monkeypatch.setattr(Backbone, "see", unsteady)
    assert "embeddings used again" in failing(prefill.check(subject))


def test_a_model_that_rotates_elsewhere_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    subject = subject_of(LLAMA, "text")
    monkeypatch.setattr(canonical, "ROTATIONS", ())
    with pytest.raises(ValueError, match="Heard 0 rotations in 3 layers"):
        canonical.check(subject)


def test_experts_that_flip_are_counted() -> None:
    subject = subject_of(MOE, "image")
    window, at = [subject.b], subject.b.layout.at(0)
    own, exact = subject.pair(window, at)
    assert subject.num_choices > 0
    assert routing.check(subject)[0].ok
    flipped = [chosen.flip(0) for chosen in exact.experts]
    subject.count_flips(own, dataclasses.replace(exact, experts=tuple(flipped)))
    assert not routing.check(subject)[0].ok


def test_tokens_go_to_different_experts() -> None:
    subject = subject_of(MOE, "text")
    own, _ = subject.pair([subject.b], subject.b.layout.at(0))
    assert all(len(chosen.unique(dim=0)) > 1 for chosen in own.experts)


@pytest.mark.parametrize("error", [float("nan"), float("inf"), 2.0])
def test_an_error_above_its_bound_isn_t_ok(error: float) -> None:
    assert not Outcome("x", error, 1.0).ok


def test_a_control_has_to_lie_far_above_its_bound() -> None:
    assert Outcome("control", 6.0, 1.0, is_control=True).ok
    assert not Outcome("control", 2.0, 1.0, is_control=True).ok
    assert not Outcome("control", float("nan"), 1.0, is_control=True).ok


def test_bytes_that_differ_are_counted_even_where_values_are_equal() -> None:
    assert differing(torch.tensor([0.0]), torch.tensor([-0.0])) == 1
    assert differing(torch.zeros(2), torch.zeros(3)) > 0


def test_a_family_without_a_row_fails_by_name(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(FAMILIES, "llama")
    line = next(e for e in entry.entries() if e.model_type == "llama")
    (row,) = matrix.rows_of(line, "float32")
    assert not row.outcome.ok
    assert "llama" in row.outcome.check


def test_a_check_that_raises_is_a_row_that_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    def broken(*_: Any, **__: Any) -> ChunkKV:
        raise RuntimeError("no such kernel")

    monkeypatch.setattr(ChunkKV, "at", broken)
    rows = list(matrix.rows_of(entry.entries()[0], "float32"))
    assert any("no such kernel" in row.outcome.check and not row.outcome.ok for row in rows)


def test_every_family_s_class_is_in_the_matrix() -> None:
    """A new row of the table needs a tiny model here."""
    served = {family.model_class for family in FAMILIES.values()}
    assert served == {line.model_class for line in entry.entries()}


def test_the_command_writes_the_report_and_says_so(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    path = tmp_path / "build" / "conformance.json"
    assert command.main(["--only", "qwen3 random", "--out", str(path)]) == 0
    report = json.loads(path.read_text())
    assert report["ok"]
    assert report["model_classes"] == ["Qwen3ForCausalLM"]
    keys = {"family", "model_class", "rope", "dtype", "check", "error", "bound", "ok"}
    assert all(keys <= row.keys() for row in report["rows"])
    assert {row["dtype"] for row in report["rows"]} == {"float32", "bfloat16"}
    assert "all within their bounds" in capsys.readouterr().out


def test_the_command_fails_when_a_row_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.delitem(FAMILIES, "qwen3")
    path = tmp_path / "conformance.json"
    assert command.main(["--only", "qwen3 random", "--out", str(path)]) == 1
    assert not json.loads(path.read_text())["ok"]
    assert "NOT OK  qwen3" in capsys.readouterr().out


def test_the_command_fails_when_nothing_ran(tmp_path: Path) -> None:
    assert command.main(["--only", "no such model", "--out", str(tmp_path / "r.json")]) == 1


def test_the_page_says_what_every_check_is() -> None:
    page = (Path(__file__).parents[2] / "docs" / "conformance.md").read_text(encoding="utf-8")
    lines = [e for e in entry.entries() if e.model_type == MOE.model_type]
    lines += [e for e in entry.entries() if "long video, positions" in e.variant][:1]
    rows = [row for line in lines for row in matrix.rows_of(line, "float32")]
    names = {row.outcome.check.removeprefix("control: ") for row in rows}
    spoken = page.replace("the last deepstack", "last deepstack")
    spoken = spoken.replace("text behind an image\ncounted by tokens", "text counted by tokens")
    spoken = spoken.replace("a B that does see A", "B sees A")
    assert {name for name in names if name not in spoken} == set()
