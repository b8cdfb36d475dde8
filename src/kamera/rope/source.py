"""`RotarySource`: what a rotary module and its text config tell, each fact with its own errors."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kamera.errors import ConfigError, UnsupportedRopeError

_PURE_ROTATIONS = ("default", "linear", "llama3", "yarn", "proportional")
"""Schemes whose angle is linear in the position, with one set of frequencies for all lengths."""

_SWITCHING = ("dynamic", "longrope")
"""Schemes with other frequencies beyond a length: pure rotations below it."""


@dataclass(frozen=True)
class RotarySource:
    """The rotary scheme of one layer type, or of all layers when `layer_type` is None.

    Attributes:
        rotary: the model's rotary module; a module for several layer types prefixes its buffers
            with the type (`full_attention_inv_freq`).
        config: the text config.
        parameters: the `rope_parameters` of this layer type.
        layer_type: its name in `config.layer_types`.
    """

    rotary: Any
    config: Any
    parameters: Mapping[str, Any]
    layer_type: str | None = None

    @property
    def scheme(self) -> str:
        """The `rope_type`; raises `UnsupportedRopeError` for one that isn't known."""
        of_module = getattr(self.rotary, "rope_type", None)
        if isinstance(of_module, Mapping):
            of_module = of_module.get(self.layer_type)
        scheme = of_module or self.parameters.get("rope_type") or "default"
        if scheme not in (*_PURE_ROTATIONS, *_SWITCHING):
            raise UnsupportedRopeError(
                f"rope_type {scheme!r} isn't known to be a pure rotation: supported are "
                f"{', '.join((*_PURE_ROTATIONS, *_SWITCHING))}"
            )
        return str(scheme)

    @property
    def inv_freq(self) -> tuple[float, ...]:
        """The module's frequencies in float32; below the switch for a scheme that has one."""
        name = self._name("inv_freq")
        buffer = getattr(self.rotary, name, None)
        if self.scheme in _SWITCHING:  # `inv_freq` is what the latest forward was long enough for
            buffer = getattr(self.rotary, self._name("original_inv_freq"), buffer)
        if not isinstance(buffer, Tensor) or buffer.ndim != 1:
            got = list(buffer.shape) if isinstance(buffer, Tensor) else type(buffer).__name__
            raise ConfigError(f"Invalid rotary.{name}: expected a tensor [N], got {got}")
        if buffer.is_meta:
            raise ConfigError(f"Invalid rotary.{name}: it is on the meta device; load the weights")
        values: list[float] = buffer.detach().to("cpu", torch.float32).tolist()
        return tuple(values)

    @property
    def attention_scaling(self) -> float:
        """The factor on cos and sin; 1 where the module has none."""
        for_all = getattr(self.rotary, "attention_scaling", 1.0)
        return float(getattr(self.rotary, self._name("attention_scaling"), for_all))

    @property
    def max_positions(self) -> int | None:
        """The exclusive bound of the positions that `inv_freq` holds for."""
        if self.scheme == "longrope":
            return self._length("original_max_position_embeddings")
        if self.scheme == "dynamic":
            # One less than the length: a module that grew beyond it goes back to the original
            # frequencies only for a forward that is shorter than it.
            length = getattr(self.rotary, "original_max_seq_len", None)
            return int(length or self._length("max_position_embeddings")) - 1
        return None

    @property
    def mrope_section(self) -> list[int] | None:
        """Pairs per chunk of position axes; None for 1-D RoPE."""
        section = getattr(self.rotary, "mrope_section", None) or self.parameters.get(
            "mrope_section"
        )
        return [int(length) for length in section] if section else None

    @property
    def head_dim(self) -> int:
        """D of the channel that rotates: of `k_pe` for MLA, else of a head."""
        config = self.config
        if self.layer_type is not None:  # Gemma4's full-attention layers have larger heads
            config = getattr(config, "per_layer_config", {self.layer_type: config})[self.layer_type]
        for name in ("qk_rope_head_dim", "head_dim"):
            if value := getattr(config, name, None):
                return int(value)
        try:
            return int(config.hidden_size) // int(config.num_attention_heads)
        except AttributeError as error:
            raise ConfigError(
                "Invalid config: expected head_dim, or hidden_size and num_attention_heads; got "
                f"{type(self.config).__name__}"
            ) from error

    def _name(self, buffer: str) -> str:
        return buffer if self.layer_type is None else f"{self.layer_type}_{buffer}"

    def _length(self, name: str) -> int:
        value = self.parameters.get(name) or getattr(self.config, name, None)
        if not isinstance(value, int):
            raise ConfigError(
                f"Invalid config: expected the length {name} at which {self.scheme} RoPE switches, "
                f"got {value!r}"
            )
        return value
