"""Figure 10: where the effect lives: pictures that bind, pictures that don't, and text."""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator
from pathlib import Path

from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.case import Case, answer_token
from kamera.lab.probes.mask_isolation import blocked_forward
from kamera.lab.probes.modality_scope import ScopeItems, measure_items
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import (
    SHOWN,
    Claim,
    at_least,
    at_most,
    between,
    surely_above,
)
from kamera.lab.reproductions.figures import JsonFigure, eta_of, flips_of, mean_of
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject
from kamera.lab.tasks.two_hop import TWO_HOP

RANK = 16
IMAGES = {"binding": "pictures that bind", "readout": "pictures that are read out"}
"""Task -> its scope."""
TEXT = "text"
ARMS = {
    "re-prefill": "re-prefill",
    "blind": "blind reuse",
    "patch": "rank-16 patch",
    "mask": "4-D mask",
}


def run(subject: Subject) -> ModelFigures:
    """Both picture tasks on the model, and the text control on the text model."""
    figures: dict[str, JsonFigure] = {}
    sees = any(modality.kind == "image" for modality in subject.engine.family.modalities)
    for task in IMAGES if sees else ():
        found = measure_with_mask(subject.cases(task, max(2, subject.num_items // 2)))
        figures |= scope_figures(task, found)
    num_texts = min(len(TWO_HOP), max(2, subject.num_items))
    text = None
    if not sees:
        text = measure_with_mask(text_cases(subject.engine, num_texts))
    elif subject.text_model is not None:
        text = text_items(subject.text_model, num_texts)
    if text is not None:
        figures |= scope_figures(TEXT, text)
    return {"figures": figures}


@functools.cache
def text_items(folder: Path, num_texts: int) -> ScopeItems:
    """The control, measured once for all models that stand beside it."""
    return measure_with_mask(text_cases(HFEngine.from_pretrained(folder), num_texts))


def text_cases(engine: HFEngine, num_texts: int) -> Iterator[Case]:
    """A and B are two paragraphs; the tail is a question and the beginning of its answer, as plain text."""
    bench = Workbench(engine)
    for text in TWO_HOP[:num_texts]:
        chunks = tuple(engine.text_chunk(f"{part}\n\n") for part in (text.first, text.second))
        tail = engine.text_chunk(text.tail)
        yield Case(bench, chunks, 1, tail, answer_token(engine, f" {text.answer}"))
        bench.clear()


def measure_with_mask(cases: Iterable[Case]) -> ScopeItems:
    """Every case under the arms, and in one forward in which B is kept from seeing A."""
    masked: list[int] = []

    def each() -> Iterator[Case]:
        for case in cases:
            masked.append(int(blocked_forward(case)[1].argmax()))
            yield case

    found = measure_items(each(), RANK)
    found.tokens["mask"] = masked
    return found


def scope_figures(scope: str, found: ScopeItems) -> dict[str, JsonFigure]:
    """`SCOPE: accuracy ARM` and the rest; accuracies over the cases whose answer is one token."""
    known = [at for at, answer in enumerate(found.answers) if answer is not None]
    right = {
        arm: [float(tokens[at] == found.answers[at]) for at in known]
        for arm, tokens in found.tokens.items()
    }
    accuracies = {f"{scope}: accuracy {arm}": mean_of(hits) for arm, hits in right.items()}
    tokens, kls = found.tokens, found.kls
    flips = [float(a != b) for a, b in zip(tokens["blind"], tokens["re-prefill"], strict=True)]
    return accuracies | {
        f"{scope}: lost": _difference(right["re-prefill"], right["blind"]),
        f"{scope}: not restored": _difference(right["re-prefill"], right["patch"]),
        f"{scope}: mask minus blind": _difference(right["mask"], right["blind"]),
        f"{scope}: blind kl": mean_of(kls["blind"]),
        f"{scope}: patch kl": mean_of(kls["patch"]),
        f"{scope}: eta": eta_of(kls["patch"], kls["blind"]),
        f"{scope}: flipped": mean_of(flips),
        f"{scope}: flips": flips_of(tokens["patch"], tokens["blind"], tokens["re-prefill"]),
    }


def _difference(one: list[float], other: list[float]) -> JsonFigure:
    """Of two accuracies on the same items."""
    return mean_of([a - b for a, b in zip(one, other, strict=True)])


def charts(models: Models) -> list[Chart]:
    """Accuracy under each arm, a group of bars for each kind of context; one panel a model."""
    scopes = {**IMAGES, TEXT: "text"}
    found = []
    for name, model in models.items():
        figures = model["figures"]
        measured = [scope for scope in scopes if f"{scope}: blind kl" in figures]
        labels = [scopes[scope] for scope in measured]
        series = []
        for arm, label in ARMS.items():
            at = [figures[f"{scope}: accuracy {arm}"] for scope in measured]
            value, low, high = ([one[end] for one in at] for end in ("value", "low", "high"))
            series.append(Series(label, labels, value, low, high))
        found.append(Chart(name, "bars", "context", "accuracy", series))
    return found


REPRODUCTION = Reproduction(
    name="fig10",
    title="Modality scope",
    paper=(
        "Figure 10 and section C.5 draw multi-hop accuracy under re-prefill, blind reuse, the patch and "
        "the 4-D mask: document images (MLA, and two GQA models; in Table 4 0.41 to 0.28 and 0.28 to 0.15 "
        "on two pages) and video lose and recover; audio (Qwen2.5-Omni, n = 40, exploratory) loses a "
        "little. Dense text (MuSiQue, the two supporting paragraphs, on Kimi-VL) and multi-image choice "
        "questions that are read out lose nothing. Other figures aren't in the text."
    ),
    ours=(
        "Pictures that bind are the binding task; pictures that are read out are the readout task, our "
        "negative control, half of the items each. Only B is blind. Text: 24 questions of our own over two "
        "short paragraphs each, answered by the next word, on SmolLM2-135M-Instruct (or the text model "
        "that is given): another model than the one that sees, and the same figures beside each. Video and "
        "audio are not measured: no packaged model learned to answer about them, and a row of untrained "
        "meaning would say nothing."
    ),
    run=run,
    claims=(
        Claim(
            "pictures that bind: accuracy that blind reuse loses",
            "binding: lost",
            "0.13 (two pages, MLA and GQA)",
            surely_above(0.0),
        ),
        Claim(
            "pictures that bind: accuracy that the patch doesn't restore",
            "binding: not restored",
            "0 at rank 64, 0.02 to 0.04 at rank 16",
            at_most(0.02),
        ),
        Claim(
            "pictures that bind: 4-D mask minus blind, accuracy",
            "binding: mask minus blind",
            "the mask reproduces the loss",
            between(-0.02, 0.02),
        ),
        Claim("pictures that bind: η", "binding: eta", "–", at_least(0.9)),
        Claim(
            "pictures that are read out: accuracy that blind reuse loses",
            "readout: lost",
            "no gap",
            at_most(0.02),
            "Not known",
        ),
        Claim(
            "text: accuracy that blind reuse loses",
            "text: lost",
            "no gap",
            at_most(0.02),
            "Not known",
        ),
        *(
            Claim(f"{label}: accuracy, {shown}", f"{scope}: accuracy {arm}", "–", SHOWN)
            for scope, label in {**IMAGES, TEXT: "text"}.items()
            for arm, shown in ARMS.items()
        ),
        *(
            Claim(f"{label}: KL of blind reuse", f"{scope}: blind kl", "–", SHOWN)
            for scope, label in {**IMAGES, TEXT: "text"}.items()
        ),
        *(
            Claim(f"{label}: answers that flip", f"{scope}: flipped", "–", SHOWN)
            for scope, label in {**IMAGES, TEXT: "text"}.items()
        ),
        Claim("video: accuracy that blind reuse loses", "video: lost", "a gap", SHOWN),
        Claim("audio: accuracy that blind reuse loses", "audio: lost", "a small gap", SHOWN),
    ),
    charts=charts,
)
