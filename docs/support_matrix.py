"""Writes the tables of docs/support.md from the rows that decide: `nox -s support_matrix`.

A test compares.
"""

import json
from collections.abc import Iterable
from pathlib import Path

import kamera
from kamera.support import FAMILIES, SERVED, Family, Verdict, examine
from kamera.support.ranges import ranges
from kamera.support.texts import TEXTS

PAGE = Path(__file__).parent / "support.md"
START, END = "<!-- support matrix -->", "<!-- /support matrix -->"
MOE = ("deepseek_v2", "deepseek_v3", "qwen3_vl_moe_text", "qwen3_omni_moe_text", "glm4v_moe_text")
KINDS = {
    "cannot": (
        "Can't be served",
        "The operator doesn't hold for them, or not in all of their layers. Serve them without Kamera.",
    ),
    "not yet": (
        "Not tested yet",
        "Serve them without Kamera, or [add the family](#how-to-add-a-model).",
    ),
    "remote code": (
        "Code of their own",
        "Checkpoints in a layout that no native class of Transformers reads: they bring their own code.",
    ),
}


def section() -> str:
    """What stands between the markers."""
    parts = [*_served(), ""]
    parts += [*_refused("cannot"), "", *_refused("not yet"), "", *_remote()]
    return "\n".join(parts).rstrip()


def page(text: str) -> str:
    """The page with the section put between its markers."""
    before, _, rest = text.partition(START)
    _, _, after = rest.partition(END)
    return f"{before}{START}\n{section()}\n{END}{after}"


def verdict_of(kind: str) -> Verdict:
    """Of a config with the class's defaults and the row's sample."""
    return examine({"model_type": kind, **FAMILIES[kind].sample})


def _served() -> Iterable[str]:
    yield "### Supported"
    yield ""
    yield "| model type | family | KV | RoPE | served | tested on | for example |"
    yield "| --- | --- | --- | --- | --- | --- | --- |"
    for kind, family in SERVED.items():
        verdict = verdict_of(kind)
        cells = (
            f"`{kind}`",
            family.name,
            _kv(verdict),
            _rope(family, verdict),
            _modalities(family),
        )
        yield f"| {' | '.join(cells)} | {_tested(kind, family)} | {family.example} |"


def _tested(kind: str, family: Family) -> str:
    """The row's own, and the packaged models of this type."""
    trained = [
        name
        for name in kamera.packaged_models()
        if json.loads((kamera.packaged_model(name) / "config.json").read_text())["model_type"]
        == kind
    ]
    return "; ".join((family.tested, *(f"the trained {name}" for name in trained)))


def _refused(kind: str) -> Iterable[str]:
    """One line for each reason, with all families that it holds for."""
    yield from _heading(kind)
    yield "| model types | families | why |"
    yield "| --- | --- | --- |"
    groups: dict[str, list[str]] = {}
    for model_type in FAMILIES:
        verdict = verdict_of(model_type)
        if verdict.reasons and verdict.reasons[0].kind == kind:
            groups.setdefault(_why(verdict), []).append(model_type)
    for why, types in groups.items():
        names = ", ".join(dict.fromkeys(FAMILIES[t].name.removesuffix(", text") for t in types))
        yield f"| {', '.join(f'`{t}`' for t in types)} | {names} | {why} |"


def _remote() -> Iterable[str]:
    yield from _heading("remote code")
    yield "| model type | family | what to do |"
    yield "| --- | --- | --- |"
    for model_type, family in FAMILIES.items():
        if family.kind == "remote code":
            yield f"| `{model_type}` | {family.name} | {family.todo} |"


def _heading(kind: str) -> Iterable[str]:
    title, says = KINDS[kind]
    yield f"### {title}"
    yield ""
    yield says
    yield ""


def _why(verdict: Verdict) -> str:
    """The reasons without what is one size's alone: which layers, and how many."""
    layers = [f"{_code(blocked.layer_type)} layers: {blocked.why}" for blocked in verdict.blocked]
    others = [r.why for r in verdict.reasons if not r.what.endswith(_places(verdict))]
    return ". ".join(text[0].upper() + text[1:] for text in (*layers, *others)) + "."


def _code(layer_type: str) -> str:
    return f"`{layer_type}`" if "_" in layer_type else layer_type


def _places(verdict: Verdict) -> tuple[str, ...]:
    return tuple(f"{b.layer_type}, {ranges(b.layers)}" for b in verdict.blocked)


def _kv(verdict: Verdict) -> str:
    moe = ", MoE" if verdict.num_experts or verdict.text_model_type in MOE else ""
    channels = "c_kv, k_pe (MLA)" if verdict.attention == "mla" else "k, v"
    sliding = ", sliding and full layers" if verdict.sliding_layers else ""
    deepstack = ", deepstack" if verdict.deepstack_levels else ""
    return f"{channels}{moe}{sliding}{deepstack}"


def _rope(family: Family, verdict: Verdict) -> str:
    rope = verdict.ropes[0]
    axes = rope.axes if rope.axes == "1-D" else f"M-RoPE {rope.axes}"
    partial = ", partial" if TEXTS[family.text].partial is not None else ""
    bases = ", two bases" if len(verdict.ropes) > 1 else ""
    return f"{axes}, {rope.layout}{partial}{bases}"


def _modalities(family: Family) -> str:
    missing = f"; not {', '.join(family.unserved)}" if family.unserved else ""
    return f"{', '.join(family.modalities)}{missing}"


if __name__ == "__main__":
    PAGE.write_text(page(PAGE.read_text(encoding="utf-8")), encoding="utf-8")
