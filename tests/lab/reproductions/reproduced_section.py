"""One reproduction on a few items of nano-gqa, and what every one of them must give."""

from pathlib import Path
from typing import Any

import kamera
from kamera.engines.hf import HFEngine
from kamera.lab.reproductions.registry import REPRODUCTIONS
from kamera.lab.reproductions.subject import Subject

MODEL = "nano-gqa"


def section_of(name: str, num_items: int = 2, text_model: Path | None = None) -> dict[str, Any]:
    """The part of its section of the report that is the reproduction's own."""
    folder = kamera.packaged_model(MODEL)
    subject = Subject(folder, HFEngine.from_pretrained(folder), num_items, text_model=text_model)
    return {"models": {MODEL: REPRODUCTIONS[name].run(subject)}}


def check_claims(name: str, section: dict[str, Any], *, unmeasured: tuple[str, ...] = ()) -> None:
    """Every claim has its figure, with n; every figure that can has its interval around it."""
    figures = section["models"][MODEL]["figures"]
    for claim in REPRODUCTIONS[name].claims:
        if claim.key in unmeasured:
            assert claim.verdict(figures) == "not measured", claim.key
            continue
        figure = figures[claim.key]
        assert claim.verdict(figures) != "not measured", claim.key
        assert figure["n"] > 0
        if figure["low"] is not None:
            assert figure["low"] <= figure["value"] <= figure["high"], claim.key


def check_charts(name: str, section: dict[str, Any]) -> None:
    """Every panel is drawn from the section alone: as many y as x, and some y."""
    charts = REPRODUCTIONS[name].charts(section["models"])
    assert charts
    for chart in charts:
        for series in chart.series:
            assert len(series.x) == len(series.y)
            assert any(y is not None for y in series.y), series.name
