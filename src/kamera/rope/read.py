"""Read a `RopeSpec` off a model's own rotary module, or refuse with the reason."""

from collections.abc import Mapping
from typing import Any

import torch
from torch import Tensor

from kamera.errors import ConfigError, UnsupportedRopeError
from kamera.rope.probe import check_against_module
from kamera.rope.spec import RopeSpec

_PURE_ROTATIONS = ("default", "linear", "llama3", "yarn")
"""Schemes whose angle is linear in the position, with one set of frequencies for all lengths."""

_REFUSED = {
    "dynamic": "dynamic NTK changes every frequency with the sequence length, so keys of two "
    "lengths don't differ by a rotation",
    "longrope": "longrope switches between two sets of frequencies at the original context length, "
    "so keys on the two sides don't differ by a rotation",
    "proportional": "proportional RoPE (zero frequencies for part of a head) isn't supported yet",
}


def read_rope_spec(rotary: Any, config: Any) -> RopeSpec:
    """The rotary scheme of a model, from its rotary module and text config.

    Duck-typed; nothing here imports Transformers. The frequencies are the module's own `inv_freq`
    buffer (in float32, as its forward widens it), never computed from `rope_theta`. When the module
    can be called, its cos and sin at a few unequal positions are compared with the spec's, so that
    a layout that the config doesn't tell is refused and never silently misread.

    Args:
        rotary: has `inv_freq`; may have `attention_scaling`, `rope_type`, `mrope_section`.
        config: the **text** config: `rope_parameters` (a dict with `rope_type`, maybe
            `mrope_section`, `mrope_interleaved`) and `head_dim`, or `hidden_size` and
            `num_attention_heads`.

    Raises:
        UnsupportedRopeError: length-dependent scaling, interleaved M-RoPE, partial rotary,
            one base per layer type, an unknown scheme, or a module that the spec can't reproduce.
        ConfigError: an attribute that is missing or contradicts another.
    """
    parameters = _rope_parameters(config)
    scheme = _scheme(rotary, parameters)
    inv_freq = _inv_freq(rotary)
    section = _mrope_section(rotary, parameters)
    head_dim = _head_dim(config)
    if 2 * len(inv_freq) < head_dim:
        raise UnsupportedRopeError(
            f"partial rotary isn't supported yet: {2 * len(inv_freq)} of {head_dim} channels of a "
            "head rotate"
        )
    spec = RopeSpec(
        inv_freq=inv_freq,
        axes=_sectioned_axes(section, len(inv_freq)) if section else (0,) * len(inv_freq),
        num_axes=3 if section else 1,
        head_dim=head_dim,
        attention_scaling=float(getattr(rotary, "attention_scaling", 1.0)),
        scheme=scheme,
    )
    if callable(rotary):
        check_against_module(rotary, spec)
    return spec


def _rope_parameters(config: Any) -> Mapping[str, Any]:
    parameters = getattr(config, "rope_parameters", None)
    if not isinstance(parameters, Mapping):
        raise ConfigError(
            "Invalid config: expected a text config with a rope_parameters dict, got "
            f"{type(config).__name__} with rope_parameters={parameters!r}; "
            "pass model.config.get_text_config()"
        )
    if parameters and all(isinstance(value, Mapping) for value in parameters.values()):
        raise UnsupportedRopeError(
            "one RoPE base per layer type isn't supported yet: rope_parameters has "
            f"{sorted(parameters)}"
        )
    return parameters


def _scheme(rotary: Any, parameters: Mapping[str, Any]) -> str:
    module_scheme = getattr(rotary, "rope_type", None)
    scheme = module_scheme or parameters.get("rope_type") or "default"
    if not isinstance(scheme, str):
        raise UnsupportedRopeError(
            f"one RoPE base per layer type isn't supported yet: rope_type is {scheme!r}"
        )
    if scheme in _REFUSED:
        raise UnsupportedRopeError(f"rope_type {scheme!r}: {_REFUSED[scheme]}")
    if scheme not in _PURE_ROTATIONS:
        raise UnsupportedRopeError(
            f"rope_type {scheme!r} isn't known to be a pure rotation: supported are "
            f"{', '.join(_PURE_ROTATIONS)}"
        )
    return scheme


def _inv_freq(rotary: Any) -> tuple[float, ...]:
    buffer = getattr(rotary, "inv_freq", None)
    if not isinstance(buffer, Tensor) or buffer.ndim != 1:
        got = list(buffer.shape) if isinstance(buffer, Tensor) else type(buffer).__name__
        raise ConfigError(f"Invalid rotary.inv_freq: expected a tensor [N], got {got}")
    if buffer.is_meta:
        raise ConfigError("Invalid rotary.inv_freq: it is on the meta device; load the weights")
    values: list[float] = buffer.detach().to("cpu", torch.float32).tolist()
    return tuple(values)


def _mrope_section(rotary: Any, parameters: Mapping[str, Any]) -> list[int] | None:
    if parameters.get("mrope_interleaved"):
        raise UnsupportedRopeError("interleaved M-RoPE (Qwen3-VL) isn't supported yet")
    section = getattr(rotary, "mrope_section", None) or parameters.get("mrope_section")
    return [int(length) for length in section] if section else None


def _sectioned_axes(section: list[int], num_pairs: int) -> tuple[int, ...]:
    """The axis of each pair: chunk i of the sections reads axis i % 3 (Qwen2-VL, §M-RoPE)."""
    if sum(section) != num_pairs or min(section) < 0:
        raise ConfigError(
            f"Invalid mrope_section: expected lengths that add up to N={num_pairs}, got {section}"
        )
    return tuple(chunk % 3 for chunk, length in enumerate(section) for _ in range(length))


def _head_dim(config: Any) -> int:
    head_dim = getattr(config, "head_dim", None)
    if head_dim:
        return int(head_dim)
    try:
        return int(config.hidden_size) // int(config.num_attention_heads)
    except AttributeError as error:
        raise ConfigError(
            "Invalid config: expected head_dim, or hidden_size and num_attention_heads; got "
            f"{type(config).__name__}"
        ) from error
