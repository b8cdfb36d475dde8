"""Configs as published on the Hub: the keys that decide, in the layout and spelling of their time.

Vision towers, token ids and the like are left out. Most are older than Transformers 5: `rope_theta` and
`rope_scaling` beside the sizes, `torch_dtype`, keys that the config class then filled in.
"""

from published.mrope import MROPE_MODELS
from published.one_axis import ONE_AXIS_MODELS
from published.refused import REFUSED
from published.text import TEXT_MODELS

SERVED = MROPE_MODELS | ONE_AXIS_MODELS | TEXT_MODELS
"""Name -> config, and what is known of the model."""

__all__ = ["REFUSED", "SERVED"]
