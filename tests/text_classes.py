"""Transformers' classes of a language model, by its type: nothing else need be named."""

import copy
import sys
from typing import Any

import torch
from transformers.models.auto.configuration_auto import CONFIG_MAPPING
from transformers.models.auto.modeling_auto import MODEL_MAPPING
from transformers.models.paddleocr_vl.modeling_paddleocr_vl import PaddleOCRTextModel
from transformers.models.qwen2_5_omni.modeling_qwen2_5_omni import Qwen2_5OmniThinkerTextModel
from transformers.models.qwen3_omni_moe.modeling_qwen3_omni_moe import Qwen3OmniMoeThinkerTextModel

OUTSIDE: dict[str, Any] = {
    "paddleocr_vl_text": PaddleOCRTextModel,
    "qwen2_5_omni_text": Qwen2_5OmniThinkerTextModel,
    "qwen3_omni_moe_text": Qwen3OmniMoeThinkerTextModel,
}
"""Those that the Auto classes don't know."""


def build_config(kind: str, **fields: Any) -> Any:
    """The class's own reading of a config.json. Copied: the class writes into nested dicts."""
    return CONFIG_MAPPING[kind](**copy.deepcopy(fields))


def model_class(kind: str) -> Any:
    """The language model's class."""
    return OUTSIDE.get(kind) or MODEL_MAPPING[CONFIG_MAPPING[kind]]


def modeling(kind: str) -> Any:
    """The module that the class stands in, with its functions."""
    return sys.modules[model_class(kind).__module__]


def build_model(kind: str, config: Any) -> Any:
    """The language model, random weights of one seed."""
    torch.manual_seed(0)
    return model_class(kind)(config).eval()


def build_rotary(kind: str, config: Any) -> Any:
    """Its rotary module alone."""
    with torch.device("meta"):  # a look at what the model holds costs no memory
        rotary = type(model_class(kind)(config).rotary_emb)
    return rotary(config)
