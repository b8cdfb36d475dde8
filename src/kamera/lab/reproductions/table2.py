"""Table 2: the operating points of cross-chunk reuse, each with its cost, and what was ruled out."""

from __future__ import annotations

from kamera.arms import Workbench
from kamera.lab.evaluation import BLIND, REFERENCE, Tally
from kamera.lab.metrics import kl
from kamera.lab.probes.windows import Probe
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import SHOWN, Claim, at_least, at_most, surely_above
from kamera.lab.reproductions.figures import (
    JsonFigure,
    arm_figures,
    bytes_share_of,
    eta_gap_of,
    eta_of,
    mean_of,
    plain,
)
from kamera.lab.reproductions.reasons import SINK
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject
from kamera.lab.reproductions.window_outcomes import orbit, recall, survivor

TASK = "binding"
PATCH, DEEP, LAYERS = "patch 16", "deep 50% patch 16", "layers from 3"
RULED_OUT = ("sink 32", "antecedent operator", "key similarity 25%", "A-stream 1", "shallow seed 3")
MARGIN = 0.001
"""In η: two arms that differ by less are both at re-prefill."""

ORDER = (
    "Each color stands in one legend alone, so that the legends' order is nothing to the item; what "
    "differs is where they stand"
)
WHY = {
    "sink 32": SINK,
    "key similarity 25%": "Not known",
}


def run(subject: Subject) -> ModelFigures:
    """η and cost of every point, and the patch's margin over each estimator."""
    tallies = subject.tallies(TASK)
    figures = {"leading: kl": mean_of(_leading(subject)), **_window_operations(subject)}
    for arm in (PATCH, DEEP, LAYERS):
        figures |= arm_figures(tallies, arm)
        figures[f"{arm}: bytes"] = bytes_share_of(tallies, arm)
        figures[f"{arm}: work"] = _work(tallies, arm)
    figures["deep: bytes over the patch's"] = plain(
        tallies[DEEP].num_bytes / tallies[PATCH].num_bytes, subject.num_items
    )
    for arm in RULED_OUT:
        gap = eta_gap_of(tallies[PATCH].kls, tallies[arm].kls, tallies[BLIND].kls)
        figures |= arm_figures(tallies, arm) | {f"{PATCH} - {arm}": gap}
    return {"figures": figures}


def _leading(subject: Subject) -> list[float]:
    """KL of each item's window, without a pinned prefix, its first chunk from its canonical alone."""
    found = []
    probe = Probe(subject.engine, Workbench(subject.engine))
    for item in subject.items(TASK, subject.num_cases):
        _, tail = subject.engine.frame(item.question)
        window = probe.chunks(item.frames)
        swapped = {0: probe.canonical_and_patch(window, 0, None)}
        found.append(kl(probe.logits(window, swapped, tail), probe.reference(window, tail)))
        probe.bench.clear()
    return found


def _window_operations(subject: Subject) -> dict[str, JsonFigure]:
    reorder, (*_, last) = orbit(subject), recall(subject).values()
    kls = reorder.kls
    found = {f"reorder, {arm}: eta": eta_of(kls[arm], kls[BLIND]) for arm in kls if arm != BLIND}
    return {
        **found,
        "reorder: exact - orbit": eta_gap_of(kls["exact"], kls["orbit"], kls[BLIND]),
        "reorder: distance": mean_of(reorder.deficits["ordering"]),
        "recall, fresh: eta": eta_of(last.kls["fresh"], last.kls[BLIND]),
        "survivor, keep: kl": mean_of(survivor(subject).kls["keep"]),
    }


def _work(tallies: dict[str, Tally], arm: str) -> JsonFigure:
    """Tokens times layers on the request's path, over re-prefill's."""
    whole = tallies[REFERENCE]
    return plain(tallies[arm].num_token_layers / whole.num_token_layers, len(whole.kls))


def charts(models: Models) -> list[Chart]:
    """η of every point and of what was ruled out, by model."""
    bars = [
        ("patch", f"{PATCH}: eta"),
        ("orbit", "reorder, orbit: eta"),
        ("deep half", f"{DEEP}: eta"),
        ("recall", "recall, fresh: eta"),
        ("layers from 3", f"{LAYERS}: eta"),
        *((arm, f"{arm}: eta") for arm in RULED_OUT),
    ]
    series = []
    for name, model in models.items():
        at = [model["figures"][key] for _, key in bars]
        series.append(
            Series(
                name,
                [label for label, _ in bars],
                [figure["value"] for figure in at],
                [figure["low"] for figure in at],
                [figure["high"] for figure in at],
            )
        )
    return [Chart("Operating points", "bars", "", "η", series)]


REPRODUCTION = Reproduction(
    name="table2",
    title="A menu of operating points, and its boundary",
    paper=(
        "Table 2 (Appendix B) lists six points and what each costs: a leading segment (free), an exact "
        "patch (one forward of B), an orbit patch for all orderings (one patch a chunk; section 5: "
        "Qwen2.5-VL, Qwen3-VL, Kimi-VL, DeepSeek-VL, K = 3, every ordering), the deepest half of the "
        "layers (half the bytes), reversible eviction, and a partial forward. Its caption rules out five "
        "cheap estimators of the deficit, without a figure."
    ),
    ours=(
        "The binding task. Leading segment: a legend with no prefix before it, from its canonical. Patch, "
        "deep half, partial forward and the five estimators: all chunks of the window under each arm. "
        "Reorder: three legends before an item, the tested ordering held out of the orbit, rank 16, one "
        "drawn ordering an item; where that is the first one, another stands for Δid; of the paper's K = 3, "
        "4 and 6 the first alone. Eviction: as in Table 1. Work is tokens times layers on the request's path "
        "over re-prefill's; bytes are what is kept for this window over its KV. The paper names its "
        "estimators and doesn't define them: ours are readings of the names (docs/arms.md); a claim on one "
        "is that the patch of rank 16 beats it."
    ),
    run=run,
    claims=(
        Claim("leading segment: KL", "leading: kl", "deficit = 0", at_most(0.001)),
        Claim(
            "exact patch, rank 16: η",
            f"{PATCH}: eta",
            "ceiling (0.98 to 1.00, section 6)",
            at_least(0.98),
        ),
        Claim(
            "exact patch: work on the path (0 by construction)",
            f"{PATCH}: work",
            "no forward",
            SHOWN,
        ),
        Claim("exact patch: bytes", f"{PATCH}: bytes", "–", SHOWN),
        Claim("reorder, orbit patch: η", "reorder, orbit: eta", "0.87 to 0.92", at_least(0.87)),
        Claim(
            "reorder: η of the ordering's own patch minus the orbit's",
            "reorder: exact - orbit",
            "0.02 to 0.07",
            at_most(0.07),
        ),
        Claim(
            "reorder: distance of two orderings' Δ, ‖Δπ - Δid‖ / ‖Δid‖",
            "reorder: distance",
            "0.43 to 0.53: not order-invariant",
            at_least(0.43),
            ORDER,
        ),
        Claim("reorder, another ordering's patch: η", "reorder, transfer: eta", "–", SHOWN),
        Claim("deep half, rank 16: η", f"{DEEP}: eta", "about 0.95", at_least(0.95)),
        Claim(
            "deep half: bytes over the patch's",
            "deep: bytes over the patch's",
            "half",
            at_most(0.5),
        ),
        Claim(
            "eviction, recalled by a fresh patch: η",
            "recall, fresh: eta",
            "0.81 to 0.96",
            at_least(0.81),
        ),
        Claim(
            "eviction, survivor relocated only: KL",
            "survivor, keep: kl",
            "0.015 to 0.113",
            at_most(0.113),
        ),
        Claim("partial forward from layer 3: η", f"{LAYERS}: eta", "–", SHOWN),
        Claim("partial forward: work on the path", f"{LAYERS}: work", "–", SHOWN),
        *(
            Claim(
                f"`{PATCH}` minus `{arm}`, ruled out: η",
                f"{PATCH} - {arm}",
                "–",
                surely_above(MARGIN),
                WHY.get(arm, ""),
            )
            for arm in RULED_OUT
        ),
    ),
    charts=charts,
)
