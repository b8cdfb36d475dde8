"""The rotary scheme of the KV in vLLM's cache, from vLLM's own rotary module."""

from __future__ import annotations

import inspect
from types import SimpleNamespace
from typing import Any

import torch
from torch import Tensor

from kamera.errors import UnsupportedModelError, UnsupportedRopeError
from kamera.rope import Rope, read_rope_spec

PROBED = (0, 1, 2, 37, 1000)
"""Positions at which the frequencies are compared with the module's own table."""


def read_rotary(vllm_config: Any) -> Rope:
    """The scheme that the model's layers rotate by, made as the model makes it.

    Raises:
        UnsupportedModelError: frequencies that don't reproduce the module's own table, layers that rotate
            in different ways, or an unknown scheme.
    """
    from vllm.config import set_current_vllm_config

    text = vllm_config.model_config.hf_text_config
    parameters = dict(text.rope_parameters)
    if any(isinstance(value, dict) for value in parameters.values()):
        raise UnsupportedModelError(
            "layers of different types rotate in different ways: the connector serves one scheme"
        )
    latent = bool(vllm_config.model_config.use_mla)
    with set_current_vllm_config(vllm_config):
        module = _module(text, parameters, vllm_config.model_config.dtype, latent)
    inv_freq, scaling = frequencies(module), float(getattr(module, "mscale", 1.0))
    _check_table(module, inv_freq, scaling)
    source = SimpleNamespace(
        inv_freq=inv_freq,
        attention_scaling=scaling,
        rope_type=_published(parameters.get("rope_type", "default")),
        mrope_section=getattr(module, "mrope_section", None),
    )
    return read_rope_spec(source, text, layout="half" if module.is_neox_style else "pairs")


def frequencies(module: Any) -> Tensor:
    """The module's own float32 frequencies, from the function that its table is made with."""
    scaled = getattr(module, "scaling_factor", None)
    takes_factor = "scaling_factor" in inspect.signature(module._compute_inv_freq).parameters
    of = scaled if takes_factor or (scaled is not None and _is_mrope(module)) else module.base
    made: Tensor = module._compute_inv_freq(of)
    return made.float().cpu()


def _is_mrope(module: Any) -> bool:
    return getattr(module, "mrope_section", None) is not None


def _module(text: Any, parameters: dict[str, Any], dtype: torch.dtype, latent: bool) -> Any:
    from vllm.model_executor.layers.rotary_embedding import get_rope

    if latent and parameters.get("rope_type", "default") != "default":
        # As DeepSeek's layers do before they ask for the module.
        scaled = parameters.get("attention_factor") == 1.0
        parameters["rope_type"] = "deepseek_llama_scaling" if scaled else "deepseek_yarn"
    head_dim = (
        text.qk_rope_head_dim
        if latent
        else getattr(text, "head_dim", None) or text.hidden_size // text.num_attention_heads
    )
    return get_rope(
        head_dim,
        max_position=text.max_position_embeddings,
        is_neox_style=not latent,
        rope_parameters=parameters,
        dtype=dtype,
    )


def _published(scheme: str) -> str:
    return "yarn" if scheme.startswith("deepseek") else scheme


def _check_table(module: Any, inv_freq: Tensor, scaling: float) -> None:
    """Compare with the cos | sin table that the layers read."""
    table = module.cos_sin_cache
    at = torch.tensor([p for p in PROBED if p < len(table)])
    angles = at[:, None].float() * inv_freq
    made = torch.cat([angles.cos(), angles.sin()], -1) * scaling
    bound = 4 * torch.finfo(table.dtype).eps * max(1.0, scaling)
    missed = float((table[at].float().cpu() - made).abs().max())
    if made.shape != table[at].shape or missed > max(bound, 1e-5):
        raise UnsupportedRopeError(
            f"{type(module).__name__} isn't a plain rotation by its own frequencies: its table differs from "
            f"theirs by {missed:.2g}, expected at most {bound:.2g}"
        )
