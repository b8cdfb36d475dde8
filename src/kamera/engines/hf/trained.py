"""How many positions a model was trained on, by its text config."""

from collections.abc import Mapping
from typing import Any

_STRETCHING = ("linear", "yarn")
"""Schemes that reach `factor` times as far; a config may or may not count that in already."""


def num_trained_positions(config: Any) -> int | None:
    """`max_position_embeddings`, or what its scaling stretches the original length to, where that is more.

    None where the config doesn't say.
    """
    longest = getattr(config, "max_position_embeddings", None)
    if not isinstance(longest, int):
        return None
    scaling = getattr(config, "rope_parameters", None)
    if not isinstance(scaling, Mapping) or scaling.get("rope_type") not in _STRETCHING:
        return longest
    original = scaling.get("original_max_position_embeddings") or longest
    return max(longest, int(original * (scaling.get("factor") or 1.0)))
