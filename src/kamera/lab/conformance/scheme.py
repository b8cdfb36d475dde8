"""A rotary scheme in a few words, read off the model: what the matrix prints."""

from __future__ import annotations

from kamera.rope import PerLayerRope, Rope, RopeSpec


def words(rope: Rope) -> str:
    """E.g. `M-RoPE interleaved, yarn` or `default; linear by layer`."""
    if isinstance(rope, PerLayerRope):
        return "; ".join(words(spec) for spec in rope.specs) + " by layer"
    parts = [_axes(rope), rope.scheme, _extent(rope)]
    if rope.layout == "pairs":
        parts.append("pairs")
    if rope.attention_scaling != 1.0:
        parts.append(f"s = {rope.attention_scaling:.3f}")
    if rope.max_positions is not None:
        parts.append(f"within {rope.max_positions}")
    return ", ".join(part for part in parts if part)


def _axes(spec: RopeSpec) -> str:
    if spec.num_axes == 1:
        return ""
    return f"M-RoPE {''.join('thw'[axis] for axis in spec.axes)}"


def _extent(spec: RopeSpec) -> str:
    if spec.rotary_dim < spec.head_dim:
        return f"{spec.rotary_dim} of {spec.head_dim}"
    still = sum(frequency == 0 for frequency in spec.inv_freq)
    return f"{still} of {spec.num_pairs} pairs still" if still else ""
