"""Figure 4 on nano-gqa: selectors and signals, and a model whose tokens make no grid."""

from typing import Any

import pytest
from reproduced_section import MODEL, check_charts, check_claims, section_of

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab.probes.case import cases_of
from kamera.lab.probes.token_diffuseness import token_norms
from kamera.lab.reproductions import fig4
from kamera.lab.reproductions.subject import Subject
from kamera.lab.tasks import TASKS


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    return section_of("fig4", 8)  # 2 cases


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims("fig4", section)
    check_charts("fig4", section)


def test_the_first_tokens_recall_is_counted_by_hand(section: dict[str, Any]) -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model(MODEL)))
    found = []
    for case in cases_of(bench, TASKS["binding"].items(2)):
        norms = token_norms(case).tolist()
        half = -(-len(norms) // 2)
        best = set(sorted(range(len(norms)), key=lambda at: -norms[at])[:half])
        found.append(len(best & set(range(half))) / half)
    figure = section["models"][MODEL]["figures"]["recall: position"]
    assert figure["value"] == pytest.approx(sum(found) / 2)
    assert figure["n"] == 2


def test_figures_are_recalls_and_correlations(section: dict[str, Any]) -> None:
    figures = section["models"][MODEL]["figures"]
    for key, figure in figures.items():
        if key.startswith("recall: attention minus"):
            continue
        low = 0.0 if key.startswith("recall") else -1.0
        assert low <= figure["value"] <= 1.0, key
    cheap = [figures[f"recall: {name}"]["value"] for name in fig4.CHEAP]
    assert figures["recall: best cheap"]["value"] == max(cheap)


def test_without_a_grid_the_correlations_are_not_measured(monkeypatch) -> None:
    def no_grid(*_: Any) -> None:
        raise ConfigError("no grid")

    monkeypatch.setattr(fig4, "probe_content_change", no_grid)
    folder = kamera.packaged_model(MODEL)
    figures = fig4.run(Subject(folder, HFEngine.from_pretrained(folder), 2))["figures"]
    assert figures["correlation: motion"] == {"value": None, "low": None, "high": None, "n": 0}
    assert figures["recall: position"]["n"] == 2
