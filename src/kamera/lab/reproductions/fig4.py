"""Figure 4: what cheap signals find of the tokens that lose most."""

from __future__ import annotations

from kamera.arms import Workbench
from kamera.errors import ConfigError
from kamera.lab.probes.content_change import ContentChange, probe_content_change
from kamera.lab.probes.selector_recall import SelectorRecall, probe_selector_recall
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import (
    SHOWN,
    Claim,
    at_most,
    between,
    surely_above,
    surely_below,
)
from kamera.lab.reproductions.figures import JsonFigure, mean_of, plain
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject

TASK = "binding"
SELECTORS: dict[str, tuple[str, float | None]] = {
    "cross_mass": ("attention to A", 0.70),
    "position": ("first tokens", 0.63),
    "key_norm": ("key norm", 0.46),
    "cross_mass_early": ("attention to A, two layers", None),
    "kv_deviation": ("KV deviation, layer 1", None),
    "key_similarity": ("key similarity", None),
    "leverage": ("leverage", None),
}
"""Name -> label, the paper's recall."""
SIGNALS: dict[str, tuple[str, float | None]] = {
    "motion": ("motion", -0.20),
    "kv_residual": ("KV residual", -0.22),
    "warp_residual": ("pixel residual", None),
    "dissimilarity": ("1 - similarity", 0.08),
    "embedding_difference": ("embedding difference", 0.61),
}
"""Name -> label, the paper's correlation."""
FREE = ("position", "key_norm", "key_similarity", "leverage")
"""Had without any forward over A and B together."""
CHEAP = (*FREE, "cross_mass_early", "kv_deviation")
"""Had without a whole conditioned forward."""


def run(subject: Subject) -> ModelFigures:
    """Selectors and signals on each case by itself."""
    recalls = [probe_selector_recall([case]) for case in subject.cases(TASK)]
    figures = {f"recall: {name}": _recall(recalls, name) for name in SELECTORS}
    figures["recall: random"] = mean_of([one.random for one in recalls])
    best = max(CHEAP, key=lambda name: figures[f"recall: {name}"]["value"])
    figures["recall: best cheap"] = figures[f"recall: {best}"]
    figures["recall: attention minus best free"] = _lead(recalls)
    changes = _changes(subject)
    for name in SIGNALS:
        figures[f"correlation: {name}"] = _correlation(changes, name)
    return {"figures": figures, "best_cheap": best}


def _recall(recalls: list[SelectorRecall], name: str) -> JsonFigure:
    return mean_of([one.recall[name] for one in recalls])


def _lead(recalls: list[SelectorRecall]) -> JsonFigure:
    """Attention's recall minus that of the free selector that is best on these very items."""
    best = max(FREE, key=lambda name: sum(one.recall[name] for one in recalls))
    return mean_of([one.recall["cross_mass"] - one.recall[best] for one in recalls])


def _changes(subject: Subject) -> list[ContentChange]:
    """One for each item; none where a model's image tokens don't make a grid."""
    bench = Workbench(subject.engine)
    found = []
    for item in subject.items(TASK, subject.num_cases):
        try:
            found.append(probe_content_change(bench, [item]))
        except ConfigError:
            return []
        bench.clear()
    return found


def _correlation(changes: list[ContentChange], name: str) -> JsonFigure:
    """Over the items in which the signal varies."""
    found = [rho for one in changes if (rho := one.spearman[name]) is not None]
    return mean_of(found) if found else plain(None, 0)


def charts(models: Models) -> list[Chart]:
    """Bars by selector and by signal, the paper's beside the models'."""
    axes = ("recall of the true top half", "Spearman's ρ with a token's ‖Δ‖")
    return [
        Chart(
            "Selectors",
            "bars",
            "selector",
            axes[0],
            _bars(models, "recall: {}", SELECTORS),
            levels=[("random", 0.5)],
        ),
        Chart(
            "Content change",
            "bars",
            "signal",
            axes[1],
            _bars(models, "correlation: {}", SIGNALS),
            levels=[("none", 0.0)],
        ),
    ]


def _bars(models: Models, key: str, rows: dict[str, tuple[str, float | None]]) -> list[Series]:
    labels = [label for label, _ in rows.values()]
    series = [Series("paper", labels, [paper for _, paper in rows.values()], paper=True)]
    for name, model in models.items():
        at = [model["figures"][key.format(row)] for row in rows]
        value, low, high = ([figure[end] for figure in at] for end in ("value", "low", "high"))
        series.append(Series(name, labels, value, low, high))
    return series


REPRODUCTION = Reproduction(
    name="fig4",
    title="Cheap estimates of the deficit",
    paper=(
        "Figure 4 (a) on Kimi-VL: how much of the half of the tokens with the largest ‖Δ‖ a selector of as "
        "many tokens finds: attention from B to A 0.70, the first tokens 0.63, key norm 0.46, random 0.5; "
        "the best \"leads, not solves\". (b) on video, Qwen2.5-VL: Spearman's correlation of a token's ‖Δ‖ "
        "with motion and KV residual -0.20 and -0.22 (which is which isn't said in the text), with 1 - "
        "frame similarity 0.08, with the difference of vision embeddings 0.61. No n is given."
    ),
    ours=(
        "The binding task: B is a picture, the frame before it a legend, which are two scenes and no "
        "video: nothing moves from one to the other, so that motion and residuals say what a best match "
        "costs. Each is a mean of figures within an item, with ‖Δ‖ over all layers and channels in units "
        "of their own KV. Attention to A needs the conditioned forward; the other selectors don't, or only "
        "two layers of it. Which of them is best is told on the cases themselves, which favors them."
    ),
    run=run,
    claims=(
        Claim("recall: attention to A", "recall: cross_mass", "0.70", surely_above(0.5)),
        Claim(
            "recall: the best that is cheap",
            "recall: best cheap",
            "at most 0.70",
            at_most(0.70),
            "Not known",
        ),
        Claim(
            "recall: attention to A minus the best without a forward",
            "recall: attention minus best free",
            "0.07",
            surely_above(0.0),
            "Not known",
        ),
        Claim("recall: first tokens", "recall: position", "0.63", at_most(0.63), "Not known"),
        Claim("recall: key norm", "recall: key_norm", "0.46", SHOWN),
        Claim("recall: attention to A, first two layers", "recall: cross_mass_early", "–", SHOWN),
        Claim("recall: KV deviation in layer 1", "recall: kv_deviation", "–", SHOWN),
        Claim("recall: key similarity", "recall: key_similarity", "–", SHOWN),
        Claim("recall: leverage", "recall: leverage", "–", SHOWN),
        Claim("recall: random", "recall: random", "0.5", SHOWN),
        Claim(
            "correlation: motion",
            "correlation: motion",
            "-0.20 or -0.22",
            surely_below(0.0),
            "No video: the frame before shows another scene, so that there is no motion to be still",
        ),
        Claim(
            "correlation: KV residual",
            "correlation: kv_residual",
            "-0.22 or -0.20",
            surely_below(0.0),
            "No video: the frame before shows another scene, so that no match is a good one",
        ),
        Claim("correlation: pixel residual", "correlation: warp_residual", "–", SHOWN),
        Claim(
            "correlation: 1 - similarity",
            "correlation: dissimilarity",
            "0.08",
            between(-0.2, 0.2),
            "Not known",
        ),
        Claim(
            "correlation: difference of vision embeddings",
            "correlation: embedding_difference",
            "0.61",
            surely_above(0.0),
            "Not known",
        ),
    ),
    charts=charts,
)
