"""Figure 6 on nano-gqa: the ends of its curves are exact."""

from dataclasses import replace
from typing import Any

import pytest
from reproduced_section import MODEL, check_charts, check_claims, section_of

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.case import cases_of
from kamera.lab.probes.rank_sweep import RankSweep
from kamera.lab.probes.token_diffuseness import TokenDiffuseness
from kamera.lab.reproductions.fig6 import RANK, SHARES, tokens_to_match
from kamera.lab.tasks import TASKS


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    return section_of("fig6", 2)


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims("fig6", section)
    check_charts("fig6", section)


def test_all_tokens_are_re_prefill_and_the_last_layer_explains_all(section: dict[str, Any]) -> None:
    curves = section["models"][MODEL]["curves"]
    assert curves["oracle"]["x"][-1] == 1.0
    # KL is quadratic in the logits' rounding: float32 of some ten nats leaves far less than 1e-6 of a gap.
    assert curves["oracle"]["y"][-1] == pytest.approx(1.0, abs=1e-6)
    assert curves["injection"]["y"][0] == pytest.approx(0.0, abs=1e-6)
    assert curves["injection"]["y"][-1] == pytest.approx(1.0, abs=1e-6)


def test_the_cells_are_counted_by_hand(section: dict[str, Any]) -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model(MODEL)))
    found, num_cells = [], 0
    for case in cases_of(bench, TASKS["binding"].items(2)):
        full, alone = case.conditioned(), bench.canonical(case.chunk)
        energy = sum((full.tensors[n] - alone.tensors[n]).square().sum((1, 3)) for n in ("k", "v"))
        cells = sorted(energy.flatten().tolist(), reverse=True)
        num_cells, total, seen, count = len(cells), sum(cells), 0.0, 0
        while seen < 0.9 * total:
            seen += cells[count]
            count += 1
        found.append(count / num_cells)
    figures = section["models"][MODEL]["figures"]
    assert figures["cells"]["value"] == num_cells
    assert figures["cells for 90 %"]["value"] == pytest.approx(sum(found) / 2)


def test_the_share_that_matches_is_the_first_that_does() -> None:
    def tokens(kls: list[float]) -> TokenDiffuseness:
        empty = dict.fromkeys(("energy", "oracle_eta", "first", "first_eta", "first_kl"), ())
        return TokenDiffuseness(
            SHARES, share_for_90=0.9, blind_kl=1.0, oracle_kl=tuple(kls), n=1, **empty
        )

    slow = [1.0 - share for share in SHARES]
    sweep = RankSweep((1, RANK), (0.9, 0.32), (0.1, 0.68), 1.0, RANK, 1)
    assert tokens_to_match([tokens(slow)], [sweep])["value"] == 0.75  # the first share above 0.68
    perfect = replace(sweep, kl=(0.9, 0.0))
    found = tokens_to_match([tokens(slow)] * 3, [perfect] * 3)
    assert (found["low"], found["value"], found["high"], found["n"]) == (1.0, 1.0, 1.0, 3)
