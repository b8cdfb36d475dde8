"""Arms: ways to fill the window, compared under one contract. One file each.

reprefill     everything from the pixels: the reference
prefix_cache  what every engine ships: the longest identical prefix is kept
blind         canonicals relocated, no patch
patched       canonicals relocated, each with its rank-m patch
kamera        a session: the planner's lanes
workbench     forwards that several arms share, remembered
"""

from kamera.arms.blind import Blind
from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.arms.kamera import Kamera
from kamera.arms.patched import Patched
from kamera.arms.prefix_cache import PrefixCache
from kamera.arms.reprefill import Reprefill
from kamera.arms.workbench import Workbench

__all__ = [
    "Arm",
    "ArmRequest",
    "Blind",
    "Kamera",
    "Patched",
    "PrefixCache",
    "Reprefill",
    "Served",
    "Workbench",
]
