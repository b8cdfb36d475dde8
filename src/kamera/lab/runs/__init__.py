"""The lab's runs: a task under every arm on given models, written as one report that pages are made from."""

from kamera.lab.runs.binding import RANKS, run_binding
from kamera.lab.runs.probes import run_probes
from kamera.lab.runs.report import read_report, write_section

__all__ = ["RANKS", "read_report", "run_binding", "run_probes", "write_section"]
