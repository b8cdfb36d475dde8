"""What the language model's part of a config says, its class's defaults filled in."""

from __future__ import annotations

from dataclasses import dataclass

from kamera.errors import ConfigError
from kamera.support.families import Family
from kamera.support.fields import Config, count, section, short
from kamera.support.layers import FULL, SLIDING, blocked, layer_types, window
from kamera.support.rotation import global_head_dim, head_dim, ropes
from kamera.support.texts import ALIASES, TEXTS, TextModel
from kamera.support.verdict import Attention, Blocked, Channel, Rope

_NESTED = ("text_config", "llm_config", "language_config")


@dataclass(frozen=True)
class Facts:
    """What the language model's config says."""

    attention: Attention | None = None
    channels: tuple[Channel, ...] = ()
    layer_types: tuple[str, ...] = ()
    sliding_window: int | None = None
    ropes: tuple[Rope, ...] = ()
    blocked: tuple[Blocked, ...] = ()


def text_of(outer: Config, family: Family | None, model_type: str) -> tuple[Config, str | None]:
    """The language model's part of the config, and its native type."""
    for key in _NESTED:
        nested = section(outer, key)
        if nested:
            stated = nested.get("model_type")
            named = isinstance(stated, str) and stated
            kind = short("model_type", named) if named else family and family.text
            return nested, ALIASES.get(kind, kind) if kind else None
    if family is not None:
        # Flat: a text model, or an early layout of a vision model.
        return outer, family.text or None
    return outer, model_type if model_type in TEXTS else None


def facts_of(text: Config, row: TextModel) -> Facts:
    kinds = layer_types(text, row)
    attention, channels = _channels(text, row, kinds)
    shared = count(text, "num_kv_shared_layers", row.shared_kv_layers, least=0)
    return Facts(
        attention=attention,
        channels=channels,
        layer_types=kinds,
        sliding_window=window(text, row) if SLIDING in kinds else None,
        ropes=ropes(text, row, kinds),
        blocked=blocked(kinds, shared),
    )


def _channels(
    text: Config, row: TextModel, kinds: tuple[str, ...]
) -> tuple[Attention, tuple[Channel, ...]]:
    if row.latent is not None:
        latent = count(text, "kv_lora_rank", row.latent)
        rotary = head_dim(text, row)
        return "mla", (Channel("c_kv", 1, latent, False), Channel("k_pe", 1, rotary, True))
    heads = count(text, "num_attention_heads", row.num_heads)
    default = (
        heads if row.num_kv_heads is None or "num_key_value_heads" in text else row.num_kv_heads
    )
    kv_heads = count(text, "num_key_value_heads", default)
    if heads % kv_heads:
        raise ConfigError(
            f"Invalid num_key_value_heads in the config: expected a divisor of num_attention_heads={heads}, "
            f"got {kv_heads}"
        )
    attention: Attention = "mha" if kv_heads == heads else "mqa" if kv_heads == 1 else "gqa"
    if _shapes_differ(text, row, kinds):
        return attention, ()
    dim = head_dim(text, row)
    return attention, (Channel("k", kv_heads, dim, True), Channel("v", kv_heads, dim, False))


def _shapes_differ(text: Config, row: TextModel, kinds: tuple[str, ...]) -> bool:
    """Full and sliding layers have heads of two sizes, or of two numbers (Gemma 4)."""
    if row.global_head_dim is None or not {FULL, SLIDING} <= set(kinds):
        return False
    layers = section(text, "per_layer_config")
    own = [section(layers, key).get("num_key_value_heads") for key in layers]
    if text.get("attention_k_eq_v"):
        own.append(text.get("num_global_key_value_heads"))
    heads = text.get("num_key_value_heads", row.num_kv_heads)
    if any(number not in (None, heads) for number in own):
        return True
    return global_head_dim(text, row) != head_dim(text, row)
