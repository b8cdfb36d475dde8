"""Every run of the lab: the binding task, the quick probes, then the paper's tables and figures."""

from __future__ import annotations

from kamera.errors import ConfigError
from kamera.lab.reproductions.registry import REPRODUCTIONS
from kamera.lab.reproductions.reproduction import Reproduction
from kamera.lab.runs.binding import BINDING
from kamera.lab.runs.probes import PROBES_RUN

RUNS: dict[str, Reproduction] = {
    BINDING.name: BINDING,
    PROBES_RUN.name: PROBES_RUN,
    **REPRODUCTIONS,
}


def run_named(name: str) -> Reproduction:
    """By its name.

    Raises:
        ConfigError: there is none.
    """
    if name not in RUNS:
        raise ConfigError(f"Invalid run {name!r}: expected one of {', '.join(RUNS)}")
    return RUNS[name]
