"""Figure 8 on nano-gqa: cells against the oracle's norms, and budgets at their ends."""

from typing import Any

import pytest
import torch
from reproduced_section import MODEL, check_charts, check_claims, section_of

from kamera.arms import Workbench
from kamera.lab.probes.case import Case
from kamera.lab.probes.token_diffuseness import token_norms
from kamera.lab.reproductions.fig8 import BINS, binned, cell_norms, deep_over_shallow


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    return section_of("fig8", 2)


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims("fig8", section)
    check_charts("fig8", section)


def test_all_layers_recomputed_are_re_prefill(section: dict[str, Any]) -> None:
    figures = section["models"][MODEL]["figures"]
    # KL is quadratic in the logits' rounding: float32 of some ten nats leaves far less than 1e-6 of a gap.
    assert figures["recomputed 1: eta"]["value"] == pytest.approx(1.0, abs=1e-6)
    assert 0.4 <= figures["bytes of the deep half"]["value"] <= 0.6
    assert figures["patched 1: eta"]["value"] >= 0.98  # what `binding` holds rank 16 to


def test_cells_add_up_to_the_oracles_norms(engine, picture) -> None:
    prefix, tail = engine.frame("what is it?")
    chunks = (prefix, engine.image_chunk(picture(1)), engine.image_chunk(picture(2)))
    case = Case(Workbench(engine), chunks, 2, tail)
    cells = cell_norms(case)
    assert cells.shape == (8, case.chunk.num_tokens)
    torch.testing.assert_close(cells.norm(dim=0), token_norms(case))


def test_places_and_depth_on_made_cells() -> None:
    cells = torch.zeros(6, 4)
    cells[-2:] = 2.0
    cells[:2] = 0.5
    assert deep_over_shallow(cells) == pytest.approx(4.0)
    assert binned(torch.arange(32.0))[0] == pytest.approx((1 / 2) ** 0.5)  # of tokens 0 and 1
    few = binned(torch.tensor([1.0, 3.0]))
    assert len(few) == BINS
    assert (few[0], few[-1]) == (1.0, 3.0)
