"""PaddleOCR-VL: a grid of merged patches, sectioned M-RoPE; images alone."""

from kamera.engines.hf.families.qwen_vl import GridImage
from kamera.engines.hf.family import Family

IMAGE = GridImage(
    kind="image",
    marker="<|IMAGE_START|><|IMAGE_PLACEHOLDER|><|IMAGE_END|>",
    token="<|IMAGE_PLACEHOLDER|>",
    inputs=("pixel_values", "image_grid_thw"),
)

FAMILIES = (Family("paddleocr_vl", "PaddleOCRVLForConditionalGeneration", (IMAGE,)),)
