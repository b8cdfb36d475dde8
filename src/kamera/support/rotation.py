"""How the keys rotate, from the config: scheme, axes, layout, dims, bases."""

from collections.abc import Mapping

from kamera.errors import ConfigError
from kamera.support.fields import Config, count, integers, number, section, short
from kamera.support.layers import FULL, SLIDING
from kamera.support.shown import shown
from kamera.support.texts import TextModel
from kamera.support.verdict import Rope

PURE_ROTATIONS = ("default", "linear", "llama3", "yarn", "proportional")
"""Schemes with one set of frequencies for all lengths (YaRN's factor on cos and sin is divided out)."""

SWITCHING = {
    "dynamic": "max_position_embeddings",
    "longrope": "original_max_position_embeddings",
}
"""Schemes whose frequencies change at a length, and the key that says where."""

_WHOLE_HEAD = ("default", "proportional")
"""Schemes that fill a whole head in a model without partial rotation, whatever the config says: the
class's own ignores `partial_rotary_factor`, proportional pads with pairs that don't turn."""


def head_dim(text: Config, row: TextModel) -> int:
    """D, or R of MLA."""
    if row.rotary is not None:
        return count(text, "qk_rope_head_dim", row.rotary)
    if row.head_dim is not None or text.get("head_dim") is not None:
        return count(text, "head_dim", row.head_dim)
    hidden = count(text, "hidden_size", row.hidden_size)
    heads = count(text, "num_attention_heads", row.num_heads)
    return hidden // heads


def global_head_dim(text: Config, row: TextModel) -> int:
    """D of the full-attention layers, where sliding layers may have another."""
    if "per_layer_config" not in text:
        return count(text, "global_head_dim", row.global_head_dim)
    layers = section(text, "per_layer_config")  # how Transformers 5 writes it
    own = [count(section(layers, key), "head_dim", head_dim(text, row)) for key in layers]
    return max(own, default=head_dim(text, row))


def ropes(text: Config, row: TextModel, kinds: tuple[str, ...]) -> tuple[Rope, ...]:
    """One for each way that layers rotate; none for a model without RoPE.

    Raises:
        ConfigError: a value that can't be.
    """
    if row.scheme == "none":
        return ()
    parameters = section(text, "rope_parameters")
    scaling = section(text, "rope_scaling")
    nested = {kind: parameters[kind] for kind in (FULL, SLIDING) if kind in parameters}
    if row.local_base is None and not nested:
        return (_rope("all", scaling or parameters, text, row, row.base),)
    full = {**section(nested, FULL), **scaling}
    local = section(nested, SLIDING)
    local_base = number(text, "rope_local_base_freq", row.local_base or row.base)
    found = [_rope(FULL, full, text, row, row.base)] if FULL in kinds else []
    if SLIDING in kinds:
        plain: dict[str, object] = {"rope_theta": local_base, "rope_type": "default"}
        if row.partial is not None:
            plain["partial_rotary_factor"] = 1.0
        found.append(_rope(SLIDING, {**plain, **local}, text, row, local_base))
    return tuple(found)


def _rope(
    layer_type: str, parameters: Mapping[str, object], text: Config, row: TextModel, base: float
) -> Rope:
    scheme = _scheme(parameters, row)
    dim = head_dim(text, row)
    if layer_type == FULL and row.global_head_dim is not None:
        dim = global_head_dim(text, row)
    partial = 1.0
    if row.partial is not None or scheme not in _WHOLE_HEAD:
        stated = number(text, "partial_rotary_factor", row.partial or 1.0)
        partial = number(parameters, "partial_rotary_factor", stated)
    outer = number(text, "rope_theta", base)
    return Rope(
        layer_type=layer_type,
        scheme=scheme,
        axes=row.axes,
        section=_section(parameters, row),
        layout=row.layout,
        head_dim=dim,
        rotary_dims=int(dim * partial),
        base=number(parameters, "rope_theta", outer),
        max_positions=_switch(scheme, parameters, text, row),
    )


def _section(parameters: Mapping[str, object], row: TextModel) -> tuple[int, ...]:
    if not row.section or parameters.get("mrope_section") is None:
        return row.section
    return integers(parameters, "mrope_section")


def _scheme(parameters: Mapping[str, object], row: TextModel) -> str:
    scheme = parameters.get("rope_type") or parameters.get("type") or row.scheme
    if not isinstance(scheme, str):
        raise ConfigError(f"Invalid rope_type in the config: expected a name, got {shown(scheme)}")
    short("rope_type", scheme)
    if scheme == "mrope" and row.section:
        return "default"  # what Qwen2-VL's first configs called it
    if row.longrope_only and scheme in ("su", "yarn"):
        return "longrope"  # Phi's first configs; its class renames both
    return scheme


def _switch(
    scheme: str, parameters: Mapping[str, object], text: Config, row: TextModel
) -> int | None:
    if scheme not in SWITCHING:
        return None
    longest = count(text, "max_position_embeddings", row.max_positions)
    if scheme == "dynamic":
        # One less: a module that grew beyond it goes back only for a forward that is shorter than it.
        return longest - 1
    key = SWITCHING[scheme]
    return count(text, key, count(parameters, key, row.original_max_positions or longest))
