"""Figure 3 on nano-gqa: the deficit's energy, depth and keys."""

from typing import Any

import pytest
from reproduced_section import MODEL, check_charts, check_claims, section_of

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.case import cases_of
from kamera.lab.probes.energy import probe_energy
from kamera.lab.reproductions.fig3 import captured, components_of
from kamera.lab.tasks import TASKS


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    return section_of("fig3", 2)


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims("fig3", section)
    check_charts("fig3", section)


def test_the_energy_is_that_of_a_plain_svd(section: dict[str, Any]) -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model(MODEL)))
    shares, needed = [], []
    for case in cases_of(bench, TASKS["binding"].items(2)):
        full = case.conditioned().tensors["v"].flatten(2)
        delta = full - bench.canonical(case.chunk).tensors["v"].flatten(2)
        squares = [layer.double().svd().S.square() for layer in delta[1:]]
        energy = [(square.cumsum(0) / square.sum()) for square in squares]
        shares.append(sum(float(layer[1]) for layer in energy) / len(energy))
        needed.append(sum(int((layer < 0.9).sum()) + 1 for layer in energy) / len(energy))
    curve = section["models"][MODEL]["curves"]["energy"]
    assert curve["x"][1] == 2
    assert curve["y"][1] == pytest.approx(sum(shares) / 2, rel=1e-4)
    figure = section["models"][MODEL]["figures"]["components for 90 %"]
    assert figure["value"] == pytest.approx(sum(needed) / 2)


def test_all_components_hold_all_energy(engine, picture) -> None:
    from kamera.lab.probes.case import Case

    prefix, tail = engine.frame("what is it?")
    chunks = (prefix, engine.image_chunk(picture(1)), engine.image_chunk(picture(2)))
    (energy,) = [probe_energy([Case(Workbench(engine), chunks, 2, tail)])["v"]]
    full = len(energy.curve[0])
    shares = captured(energy, range(1, full + 1))
    assert shares == sorted(shares)
    assert shares[-1] == pytest.approx(1.0)
    components = components_of(energy)
    assert components is not None
    assert 1 <= components <= full
