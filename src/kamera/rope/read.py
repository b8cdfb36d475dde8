"""Read a `Rope` off a model's own rotary module, or refuse with the reason."""

from collections.abc import Mapping
from typing import Any, get_args

from kamera.errors import ConfigError, UnsupportedRopeError
from kamera.rope.axes import interleaved_axes, sectioned_axes
from kamera.rope.per_layer import PerLayerRope, Rope
from kamera.rope.probe import chosen_by_module
from kamera.rope.source import RotarySource
from kamera.rope.spec import Layout, RopeSpec


def read_rope_spec(rotary: Any, config: Any, *, layout: Layout | None = None) -> Rope:
    """The rotary scheme of a model, from its rotary module and text config.

    Duck-typed; nothing here imports Transformers. The frequencies are the module's own `inv_freq`
    buffer (in float32, as its forward widens it), never computed from `rope_theta`. When the module
    can be called, its cos and sin at a few unequal positions are compared with the spec's, and so
    is a key that the apply function of the module's own source file rotated: axes and pairs that
    the config doesn't tell are found out, and never silently misread.

    Args:
        rotary: has `inv_freq`; may have `attention_scaling`, `rope_type`, `mrope_section`. A module
            for several layer types has `<layer type>_inv_freq` for each.
        config: the **text** config: `rope_parameters` (a dict with `rope_type`, maybe
            `mrope_section`, `mrope_interleaved`; or one such dict for each of `layer_types`) and
            `qk_rope_head_dim` (MLA), `head_dim`, or `hidden_size` and `num_attention_heads`.
        layout: how the pairs lie **in the cache**, for a model whose source doesn't tell: not every
            table tells it, and a module that has no apply function beside it can't be asked. None
            finds it out: from the apply function, else from the table (cos = cat(f, f) is read as
            `half`; repeated neighbours and complex numbers as `pairs`).

    Returns:
        A `PerLayerRope` when layers rotate in different ways, else one `RopeSpec`.

    Raises:
        UnsupportedRopeError: an unknown scheme, head sizes that differ between layers, or a module
            that no spec reproduces.
        ConfigError: an attribute that is missing or contradicts another.
    """
    if layout not in (None, *get_args(Layout)):
        raise ConfigError(
            f"Invalid layout: expected one of {get_args(Layout)} or None, got {layout!r}"
        )
    parameters = _rope_parameters(config)
    if not any(isinstance(value, Mapping) for value in parameters.values()):
        return _read(RotarySource(rotary, config, parameters), layout)
    layer_types = getattr(config, "layer_types", None)
    if not layer_types:
        raise ConfigError(
            "Invalid config: expected layer_types beside rope_parameters by layer type, got "
            f"{sorted(parameters)} and no layer_types"
        )
    specs = {
        name: _read(RotarySource(rotary, config, _of_type(parameters, name), name), layout)
        for name in dict.fromkeys(layer_types)
    }
    _check_head_sizes(specs)
    rope = PerLayerRope.of([specs[name] for name in layer_types])
    return rope if len(rope.specs) > 1 else rope.specs[0]


def _read(source: RotarySource, layout: Layout | None) -> RopeSpec:
    candidates = _candidates(source, layout)
    if not callable(source.rotary):
        return candidates[0]
    return chosen_by_module(
        source.rotary, candidates, layer_type=source.layer_type, layout_is_known=layout is not None
    )


def _candidates(source: RotarySource, layout: Layout | None) -> list[RopeSpec]:
    """The specs that the config leaves open, the likeliest first."""
    inv_freq, section, head_dim = source.inv_freq, source.mrope_section, source.head_dim
    num_pairs = len(inv_freq)
    axes = _axes(section, num_pairs, source.parameters) if section else [(0,) * num_pairs]
    layouts: tuple[Layout, ...] = (layout,) if layout else get_args(Layout)
    return [
        RopeSpec(
            inv_freq=inv_freq,
            axes=pair_axes,
            num_axes=3 if section else 1,
            head_dim=head_dim,
            attention_scaling=source.attention_scaling,
            scheme=source.scheme,
            layout=pairing,
            max_positions=source.max_positions,
        )
        for pair_axes in axes
        for pairing in layouts
    ]


def _axes(
    section: list[int], num_pairs: int, parameters: Mapping[str, Any]
) -> list[tuple[int, ...]]:
    """Interleaved when the config says so; both when it is silent, for the module to choose."""
    interleaved = parameters.get("mrope_interleaved", parameters.get("interleaved"))
    if interleaved:
        return [interleaved_axes(section, num_pairs)]
    sectioned = [sectioned_axes(section, num_pairs)]
    if len(section) != 3:
        return sectioned
    return [*sectioned, interleaved_axes(section, num_pairs)]


def _check_head_sizes(specs: Mapping[str, RopeSpec]) -> None:
    sizes = {name: spec.head_dim for name, spec in specs.items()}
    if len(set(sizes.values())) > 1:
        raise UnsupportedRopeError(
            f"head sizes that differ between layer types aren't supported: {sizes}; a chunk's keys "
            "are one tensor over all layers"
        )


def _rope_parameters(config: Any) -> Mapping[str, Any]:
    parameters = getattr(config, "rope_parameters", None)
    if not isinstance(parameters, Mapping):
        raise ConfigError(
            "Invalid config: expected a text config with a rope_parameters dict, got "
            f"{type(config).__name__} with rope_parameters={parameters!r}; "
            "pass model.config.get_text_config()"
        )
    return parameters


def _of_type(parameters: Mapping[str, Any], layer_type: str) -> Mapping[str, Any]:
    of_type = parameters.get(layer_type)
    if not isinstance(of_type, Mapping):
        raise UnsupportedRopeError(
            f"layers of type {layer_type!r} have no rotary parameters: rope_parameters has "
            f"{sorted(name for name, value in parameters.items() if isinstance(value, Mapping))}"
        )
    return of_type
