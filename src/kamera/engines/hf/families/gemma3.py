"""Gemma 3: an image is a fixed number of tokens that attend to one another both ways.

Five layers in six slide, with a rotary base of their own. The text-only model is the same without images.
"""

from typing import Any

import torch
from torch import Tensor

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality


class SoftTokenImage(Modality):
    """An image of `mm_tokens_per_image` tokens, whatever its size.

    Its tokens see one another both ways, so a chunk holds a whole image: it is one prefill, always.
    """

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        return int(config.mm_tokens_per_image * inputs["pixel_values"].shape[0])

    def expand(self, inputs: Inputs, config: Any, processor: Any) -> str:
        """The template writes the start token alone; the processor, placeholders and the end token."""
        count = self.num_placeholders(inputs, config, processor)
        return f"{self.marker}{self.token * count}<end_of_image>"


class Gemma3(Family):
    """Tells the model which tokens are an image's: they attend both ways."""

    def forward_arguments(self, is_media: Tensor, num_past: int) -> dict[str, Any]:
        """Types of all tokens from the first in the cache on: the model's mask counts from there.

        Tokens in the cache are given as text. Only new tokens ask, and no image is cut in two.
        """
        if not bool(is_media.any()):
            return {}
        past = is_media.new_zeros((1, num_past))
        return {"token_type_ids": torch.cat([past, is_media], dim=1).long()}


IMAGE = SoftTokenImage(
    kind="image",
    marker="<start_of_image>",
    token="<image_soft_token>",
    options={"do_pan_and_scan": False},
    around=("\n\n", "\n\n"),
)

FAMILIES = (
    Gemma3("gemma3", "Gemma3ForConditionalGeneration", (IMAGE,), sees_ahead=True),
    Family("gemma3_text", "Gemma3ForCausalLM"),
)
