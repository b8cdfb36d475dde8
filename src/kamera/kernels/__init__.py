"""Relocate, patch and write in one pass: the serve step's kernels, and which of them this process uses."""

from kamera.kernels.contract import Destination, FlatFactors, Kernel, Pages, Placement
from kamera.kernels.eager import Eager
from kamera.kernels.select import kernel, place, select, warm_up, write

__all__ = [
    "Destination",
    "Eager",
    "FlatFactors",
    "Kernel",
    "Pages",
    "Placement",
    "kernel",
    "place",
    "select",
    "warm_up",
    "write",
]
