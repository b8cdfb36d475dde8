"""Why a model is refused, what limits one that is served, and what its user should know."""

from __future__ import annotations

import difflib

from kamera.support.facts import Facts
from kamera.support.families import SERVED, Family
from kamera.support.fields import Config, section
from kamera.support.layers import SLIDING
from kamera.support.ranges import ranges
from kamera.support.refused import REFUSED, SERVE_WITHOUT, UNTESTED
from kamera.support.rotation import PURE_ROTATIONS, SWITCHING
from kamera.support.shown import printable, shown
from kamera.support.texts import TEXTS
from kamera.support.verdict import Reason, Rope

_SLIDING_TESTED = ("gemma3_text", "qwen2", "qwen2_5_vl_text")
"""Text types that tests run with sliding layers."""


def reasons_of(
    config: Config,
    outer: Config,
    model_type: str,
    family: Family | None,
    text: Config,
    text_type: str | None,
    facts: Facts,
) -> list[Reason]:
    if family is None:
        return [_unknown(model_type, text_type)]
    found = [
        Reason(
            blocked.kind,
            f"{len(blocked.layers)} of {len(facts.layer_types)} layers: {printable(blocked.layer_type)}, "
            f"{ranges(blocked.layers)}",
            blocked.why,
            SERVE_WITHOUT,
        )
        for blocked in facts.blocked
    ]
    for key in _looking_ahead(config, outer, text):
        found.append(
            Reason(
                "cannot",
                key,
                "every token sees the ones behind it, so a chunk's KV changes with what follows",
                SERVE_WITHOUT,
            )
        )
    row = TEXTS.get(text_type or "")
    partial = row is not None and row.partial is not None
    found += [reason for rope in facts.ropes if (reason := _rope_reason(rope, text_type, partial))]
    if not family.served:
        found += _family_reasons(family, model_type, facts)
    elif text_type != family.text and text_type not in family.texts:
        served = ", ".join(dict.fromkeys((family.text, *family.texts)))
        found.append(
            Reason(
                "not yet",
                f"language model {shown(text_type)}",
                f"{family.name} is tested with {served}; with this one {UNTESTED}",
                SERVE_WITHOUT,
            )
        )
    found += _tower_reasons(outer, family)
    return sorted(found, key=lambda reason: reason.kind != "cannot")


def _family_reasons(family: Family, model_type: str, facts: Facts) -> list[Reason]:
    """Of a family that isn't served. Where its layers are the reason, "no test holds" adds nothing."""
    found = []
    if facts.layer_types and not facts.channels:
        found.append(
            Reason(
                "not yet",
                "global_head_dim",
                "full and sliding layers have heads of two sizes, and a channel has one shape for all layers",
                family.todo,
            )
        )
    if family.kind != "not yet" or not (facts.blocked or found):
        found.append(
            Reason(family.kind, f"model type {shown(model_type)}", family.why, family.todo)
        )
    return found


def _tower_reasons(outer: Config, family: Family) -> list[Reason]:
    found = []
    for key, tested in family.towers.items():
        kind = section(outer, key).get("model_type")
        if kind is not None and kind not in tested:
            why = f"{family.name}'s image tokens are counted as {' and '.join(tested)} make them; with this "
            found.append(
                Reason(
                    "not yet",
                    f"{key} of type {shown(kind)}",
                    f"{why}tower {UNTESTED}",
                    SERVE_WITHOUT,
                )
            )
    return found


def _rope_reason(rope: Rope, text_type: str | None, partial: bool) -> Reason | None:
    """`partial`: the model's own code can rotate a part of a head."""
    if rope.scheme not in PURE_ROTATIONS and rope.scheme not in SWITCHING:
        known = ", ".join((*PURE_ROTATIONS, *SWITCHING))
        return Reason(
            "cannot",
            f"rope_type {shown(rope.scheme)}",
            f"it isn't known to be a rotation: known are {known}",
            SERVE_WITHOUT,
        )
    if not partial and rope.rotary_dims != rope.head_dim:
        return Reason(
            "config",
            f"partial_rotary_factor with rope_type {rope.scheme!r}",
            f"{text_type} rotates whole heads: {rope.rotary_dims} rotated dims don't fill one of "
            f"{rope.head_dim}, and its first forward fails",
            "Check partial_rotary_factor in config.json; 1.0 is what this language model can do.",
        )
    if rope.rotary_dims % 2 or not 0 < rope.rotary_dims <= rope.head_dim:
        return Reason(
            "config",
            f"{rope.rotary_dims} rotated dims of a head of {rope.head_dim}",
            "dims rotate in pairs, within the head",
            "Check hidden_size, num_attention_heads, head_dim and partial_rotary_factor in config.json.",
        )
    wrong = _section_error(rope) if rope.axes != "1-D" else ""
    if wrong:
        return Reason(
            "config",
            f"mrope_section {shown(list(rope.section))}",
            wrong,
            "Check head_dim, partial_rotary_factor and mrope_section in config.json.",
        )
    return None


def _section_error(rope: Rope) -> str:
    pairs = rope.rotary_dims // 2
    if len(rope.section) != 3 or min(rope.section) < 0:
        return "it has to be three lengths, of t, h and w, none below 0"
    if sum(rope.section) != pairs:
        return (
            f"its lengths add up to {sum(rope.section):,} pairs, and {rope.rotary_dims} rotated dims "
            f"have {pairs}"
        )
    places = [len(range(axis, pairs, 3)) for axis in (1, 2)]
    if rope.axes == "interleaved" and any(
        length > most for length, most in zip(rope.section[1:], places, strict=True)
    ):
        return f"interleaved, h has at most {places[0]} of the {pairs} pairs, w at most {places[1]}"
    return ""


def _unknown(model_type: str, text_type: str | None) -> Reason:
    near = difflib.get_close_matches(model_type, {**SERVED, **REFUSED}, n=1)
    hint = f" Nearest: {near[0]}." if near else ""
    if text_type is not None:
        return Reason(
            "not yet",
            f"model type {shown(model_type)}",
            "it is the language model of a vision model; on its own " + UNTESTED,
            "Point to the whole model's folder.",
        )
    return Reason(
        "unknown",
        f"model type {shown(model_type)}",
        f"it isn't known, so nothing is known to hold. Served are: {', '.join(SERVED)}.{hint}",
        SERVE_WITHOUT,
    )


def limits_of(
    family: Family,
    text_type: str | None,
    facts: Facts,
    architectures: tuple[str, ...],
    quantization: str | None,
) -> list[str]:
    """What makes a served model `partly` served."""
    limits = [
        f"{rope.scheme} RoPE changes its frequencies at {rope.max_positions:,} positions: requests "
        "are served below them."
        for rope in facts.ropes
        if rope.max_positions is not None
    ]
    if facts.sliding_window is not None and text_type not in _SLIDING_TESTED:
        sliding = [i for i, kind in enumerate(facts.layer_types) if kind == SLIDING]
        limits.append(
            f"Layers {ranges(sliding)} see a window of {facts.sliding_window:,} tokens. All "
            f"their KV is kept, so they relocate like the others; no test runs {text_type} with such layers."
        )
    if quantization is not None:
        limits.append(
            f"Quantized weights ({printable(quantization)}): KV is cached in the compute dtype, so "
            "channels and bytes hold; no test runs on quantized weights. The loader needs the "
            "quantization's own package: without it, loading ends with a ConfigError."
        )
    if architectures and not set(architectures) & family.classes:
        limits.append(
            f"The weights are those of {shown(architectures[0])}; served is {family.model_class}. Where "
            "they lack its tensors, such as lm_head, the checkpoint can't be loaded."
        )
    return limits


def notes_of(family: Family, text_type: str | None, sliding: bool, deepstack: int) -> list[str]:
    notes = [f"{kind.capitalize()} isn't served in this family." for kind in family.unserved]
    if sliding and text_type in _SLIDING_TESTED:
        notes.append("Sliding layers keep all their KV; the model's own mask cuts the window.")
    if text_type != family.text:
        notes.append(
            f"Tested with a {family.text} language model; {text_type} is tested on its own."
        )
    if deepstack:
        notes.append(
            f"Vision features are added to the first {deepstack} layers (deepstack); they travel with the "
            "vision embeddings."
        )
    if "talker" not in family.name and family.name.endswith("thinker"):
        notes.append("The thinker is served: text out. The talker's speech isn't.")
    return notes


def _looking_ahead(*parts: Config) -> list[str]:
    """Keys that let a token see those behind it, at any level."""
    both = any(part.get("use_bidirectional_attention") in (True, "all") for part in parts)
    # Transformers asks whether the value is false; null and 0 are, where the key is there.
    acausal = any(not part.get("is_causal", True) for part in parts)
    return [*(["use_bidirectional_attention"] if both else []), *(["is_causal"] if acausal else [])]
