"""Idefics3 and SmolVLM: sub-images named by row and column, then the whole image."""

from typing import Any

from kamera.engines.hf.family import Family
from kamera.engines.hf.modality import Inputs, Modality

EDGE, WHOLE = "<fake_token_around_image>", "<global-img>"


class SplitImage(Modality):
    """Sub-images [1, images, 3, S, S], all of one size, the whole image the last of them.

    `rows` and `cols` [1, 1] are those of the sub-images, 0 for an image that isn't split. One image has
    no padding, so its pixel mask is all ones, which is what the tower assumes without one.
    """

    def num_placeholders(self, inputs: Inputs, config: Any, processor: Any) -> int:
        return int(inputs["pixel_values"].shape[1]) * _tokens_each(inputs, config)

    def expand(self, inputs: Inputs, config: Any, processor: Any) -> str:
        rows, columns = int(inputs["rows"]), int(inputs["cols"])
        one = self.token * _tokens_each(inputs, config)
        lines = [
            "".join(f"{EDGE}<row_{row}_col_{col}>{one}" for col in range(1, columns + 1)) + "\n"
            for row in range(1, rows + 1)
        ]
        before = "\n" if lines else ""
        return f"{''.join(lines)}{before}{EDGE}{WHOLE}{one}{EDGE}"


def _tokens_each(inputs: Inputs, config: Any) -> int:
    height, width = inputs["pixel_values"].shape[-2:]
    patch = config.vision_config.patch_size
    return int((height // patch) * (width // patch) // config.scale_factor**2)


IMAGE = SplitImage(
    kind="image",
    marker="<image>",
    token="<image>",
    extras=("rows", "cols"),
    options={"return_row_col_info": True},
)

FAMILIES = tuple(
    Family(model_type, model_class, (IMAGE,))
    for model_type, model_class in (
        ("idefics3", "Idefics3ForConditionalGeneration"),
        ("smolvlm", "SmolVLMForConditionalGeneration"),
    )
)
