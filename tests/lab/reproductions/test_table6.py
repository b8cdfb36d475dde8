"""Table 6 on two items of nano-gqa: figures, verdicts and charts come out of one run of the arms."""

from typing import Any

import pytest
from reproduced_section import check_charts, check_claims, section_of

from kamera.lab.reproductions.registry import REPRODUCTIONS

NAME = "table6"


@pytest.fixture(scope="module")
def section() -> dict[str, Any]:
    return section_of(NAME)


def test_every_claim_has_its_figure(section: dict[str, Any]) -> None:
    check_claims(NAME, section)


def test_charts_are_drawn_from_the_section(section: dict[str, Any]) -> None:
    check_charts(NAME, section)
    (chart,) = REPRODUCTIONS[NAME].charts(section["models"])
    names = [series.name for series in chart.series]
    assert names == ["patch", "quest oracle", "oracle top", "epic"]
