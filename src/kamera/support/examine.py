"""The verdict on a raw config: pure, no model code, no Transformers."""

from __future__ import annotations

from kamera.errors import ConfigError
from kamera.support.facts import Facts, facts_of, text_of
from kamera.support.families import SERVED, Family
from kamera.support.fields import Config, count, integers, names, section, short
from kamera.support.layers import SLIDING
from kamera.support.reasons import limits_of, notes_of, reasons_of
from kamera.support.refused import REFUSED
from kamera.support.shown import shown
from kamera.support.texts import TEXTS
from kamera.support.verdict import Status, Verdict

FAMILIES = {**SERVED, **REFUSED}
"""Model type -> family, served or not."""

_EXPERTS = ("num_experts", "n_routed_experts", "num_local_experts")


def examine(config: Config) -> Verdict:
    """What a model is, and whether it can be served, from its config alone.

    Args:
        config: a parsed config.json, as published in any version's layout, or `model.config.to_dict()`.

    Raises:
        ConfigError: no model type, or a value that can't be.
    """
    model_type = config.get("model_type")
    if not isinstance(model_type, str) or not model_type:
        raise ConfigError(
            f"Invalid config: expected model_type, a name, got {shown(model_type)}. Is this a model's "
            "config.json?"
        )
    family = FAMILIES.get(short("model_type", model_type))
    outer = section(config, "thinker_config") or config
    text, text_type = text_of(outer, family, model_type)
    # Code of its own may read the same keys otherwise: no facts where its row doesn't vouch for them.
    row = TEXTS.get(text_type or "") if family is None or family.text else None
    facts = facts_of(text, row) if row is not None else Facts()
    deepstack = _deepstack(outer, family)
    reasons = reasons_of(config, outer, model_type, family, text, text_type, facts)
    quantization = _quantization(config, text)
    limits: list[str] = []
    if family is not None and not reasons:
        architectures = names(config, "architectures")
        limits = limits_of(family, text_type, facts, architectures, quantization)
    notes = (
        []
        if family is None or reasons
        else notes_of(family, text_type, SLIDING in facts.layer_types, deepstack)
    )
    status: Status = "refused" if reasons else "partly" if limits else "supported"
    return Verdict(
        model_type=model_type,
        text_model_type=text_type,
        family=family.name if family else None,
        model_class=(family.model_class or None) if family else None,
        status=status,
        modalities=family.modalities if family and not reasons else (),
        reasons=tuple(reasons),
        notes=(*limits, *notes),
        attention=facts.attention,
        channels=facts.channels,
        layer_types=facts.layer_types,
        sliding_window=facts.sliding_window,
        ropes=facts.ropes,
        blocked=facts.blocked,
        deepstack_levels=deepstack,
        num_experts=_num_experts(text),
        dtype=_dtype(config, outer, text),
        quantization=quantization,
    )


def _deepstack(outer: Config, family: Family | None) -> int:
    listed = integers(section(outer, "vision_config"), "deepstack_visual_indexes")
    if listed:
        return len(listed)
    return family.deepstack if family is not None else 0


def _num_experts(text: Config) -> int:
    for key in _EXPERTS:
        value = text.get(key)
        if type(value) is int and value > 0:
            return count(text, key)
    return 0


def _dtype(*parts: Config) -> str | None:
    for part in reversed(parts):
        for key in ("dtype", "torch_dtype"):
            value = part.get(key)
            if isinstance(value, str) and value != "auto":
                return short(key, value).removeprefix("torch.")
    return None


def _quantization(*parts: Config) -> str | None:
    for part in parts:
        found = section(part, "quantization_config")
        if found:
            method = found.get("quant_method") or found.get("quant_algo") or "unknown method"
            return short("quant_method", method) if isinstance(method, str) else shown(method)
    return None
