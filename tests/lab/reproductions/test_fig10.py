"""Figure 10 on nano-gqa, which also stands in for the text model: it never learned such texts."""

from typing import Any

import pytest
from reproduced_section import MODEL, check_charts, check_claims, section_of

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.case import cases_of
from kamera.lab.probes.mask_isolation import blocked_forward
from kamera.lab.reproductions.fig10 import RANK, scope_figures, text_cases
from kamera.lab.tasks import TASKS
from kamera.lab.tasks.two_hop import TWO_HOP

NOT_MEASURED = ("video: lost", "audio: lost")


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    return section_of("fig10", 6, text_model=kamera.packaged_model(MODEL))


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims("fig10", section, unmeasured=NOT_MEASURED)
    figures = section["models"][MODEL]["figures"]
    assert figures["text: blind kl"]["n"] == 6
    # Of the first six answers nano-gqa's vocabulary keeps one whole: green.
    assert figures["text: accuracy re-prefill"]["n"] == 1


def test_without_a_text_model_the_control_is_not_measured() -> None:
    section = section_of("fig10", 2)
    assert not [key for key in section["models"][MODEL]["figures"] if key.startswith("text")]
    check_charts("fig10", section)


def test_accuracies_by_hand(section: dict[str, Any]) -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model(MODEL)))
    right = {"re-prefill": 0, "blind": 0, "mask": 0}
    for case in cases_of(bench, TASKS["binding"].items(3)):
        right["re-prefill"] += int(case.reference().argmax()) == case.answer
        right["blind"] += int(case.with_kv(case.blind()).argmax()) == case.answer
        right["mask"] += int(blocked_forward(case)[1].argmax()) == case.answer
    figures = section["models"][MODEL]["figures"]
    for arm, count in right.items():
        assert figures[f"binding: accuracy {arm}"]["value"] == pytest.approx(count / 3)
    assert figures["binding: lost"]["value"] == pytest.approx(
        (right["re-prefill"] - right["blind"]) / 3
    )


def test_a_text_of_full_rank_is_restored(engine) -> None:
    from kamera.lab.probes.modality_scope import measure_items

    found = measure_items(text_cases(engine, 2), 64)
    found.tokens["mask"] = found.tokens["blind"]
    figures = scope_figures("text", found)
    assert figures["text: eta"]["value"] == pytest.approx(1.0, abs=1e-5)
    assert figures["text: flips"]["value"] in (None, 1.0)
    assert RANK < 64


def test_the_second_text_names_nothing_that_it_asks_for() -> None:
    assert len(TWO_HOP) == 24
    assert len({text.answer for text in TWO_HOP}) == 24
    for text in TWO_HOP:
        words = text.first.lower().replace(",", " ").replace(".", " ").split()
        assert text.answer.lower() in words, "the first text holds the answer"
        for part in (text.second, text.question, text.lead):
            assert text.answer.lower() not in part.lower().split(), "the answer takes both texts"
