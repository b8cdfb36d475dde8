"""Relocate, patch and write in one pass: the serve step's kernels, and which of them this process uses.

select      which one, and what it doesn't take
contract    Kernel, Placement, and where it writes
tables      cosines and sines of a placement
eager       the reference
blocked     plain torch, a block of tokens at a time
compiled    Numba's: loops, plan and team, around the `*_code` modules; kept is its code on disk
triton_apply, triton_tile, triton_interpreter   the GPU's
"""

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
