"""Exact RoPE relocation: a model's rotary scheme as data, and the rotation by it (paper §3)."""

from kamera.rope.per_layer import PerLayerRope, Rope
from kamera.rope.read import read_rope_spec
from kamera.rope.rotate import relocate, rotate, unrotate
from kamera.rope.spec import Layout, RopeSpec

__all__ = [
    "Layout",
    "PerLayerRope",
    "Rope",
    "RopeSpec",
    "read_rope_spec",
    "relocate",
    "rotate",
    "unrotate",
]
