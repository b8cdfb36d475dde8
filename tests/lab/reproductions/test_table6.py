"""Table 6 on two items of nano-gqa: figures, verdicts and charts come out of one run of the arms."""

from typing import Any

import pytest

import kamera
from kamera.lab.reproductions.registry import REPRODUCTIONS
from kamera.lab.reproductions.run import run_reproductions

NAME = "table6"


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    one = REPRODUCTIONS[NAME]
    return run_reproductions([one], [kamera.packaged_model()], 2, command="kamera lab {name}")[NAME]


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    assert section["command"] == "kamera lab table6"
    figures = section["models"]["nano-gqa"]["figures"]
    for claim in REPRODUCTIONS[NAME].claims:
        assert claim.key in figures
        assert claim.verdict(figures) != "not measured"


def test_charts_are_drawn_from_the_section(section: dict[str, Any]) -> None:
    (chart,) = REPRODUCTIONS[NAME].charts(section["models"])
    assert [series.name for series in chart.series] == [
        "patch",
        "quest oracle",
        "oracle top",
        "epic",
    ]
