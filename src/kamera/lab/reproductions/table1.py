"""Table 1: eviction is asymmetric. Recall needs a fresh patch, survivors only their rotation."""

from __future__ import annotations

import itertools

from kamera.lab.probes.outcome import Outcome
from kamera.lab.probes.windows import TURNOVERS
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import SHOWN, Claim, at_least, at_most
from kamera.lab.reproductions.figures import JsonFigure, eta_of, flips_of, mean_of, plain
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject
from kamera.lab.reproductions.window_outcomes import REMOVAL_RANKS, recall, survivor

STALE_PAPER = ((0.0, 0.9), (1.0, -0.68))
"""Section 5's ends of Qwen2.5-VL; it prints no figure between them."""
LEFT = (
    "The survivor's KV still holds what the departed chunk told, and re-prefill of what stays can't know "
    "it. The paper's rule (keep survivors as they are) holds where the answer doesn't hang on what left"
)

TURNED = "From turnover 0.5 on another legend tells: nothing is left of the old patch to decay"


def run(subject: Subject) -> ModelFigures:
    """Recall by turnover; survivors whose answer stays, and whose answer has left."""
    figures: dict[str, JsonFigure] = {}
    for turnover, outcome in recall(subject).items():
        blind, reference = outcome.answers["blind"], outcome.answers["reference"]
        for arm in ("stale", "fresh"):
            figures[f"{arm} at {turnover:g}: eta"] = eta_of(outcome.kls[arm], outcome.kls["blind"])
            figures[f"{arm} at {turnover:g}: flips"] = flips_of(
                outcome.answers[arm], blind, reference
            )
    figures["stale: largest rise"] = _largest_rise(figures, subject.num_cases)
    figures |= _survivor(survivor(subject), "stays")
    figures |= _survivor(survivor(subject, told_by_departed=True), "left")
    return {"figures": figures}


def _largest_rise(figures: dict[str, JsonFigure], n: int) -> JsonFigure:
    """Of the stale patch's η from one turnover to the next; at most 0 where it only falls."""
    etas = [figures[f"stale at {turnover:g}: eta"]["value"] for turnover in TURNOVERS]
    if None in etas:
        return plain(None, n)
    return plain(max(b - a for a, b in itertools.pairwise(etas)), n)


def _survivor(outcome: Outcome, told: str) -> dict[str, JsonFigure]:
    keep, blind = outcome.kls["keep"], outcome.kls["blind"]
    found = {
        f"{told}, keep: kl": mean_of(keep),
        f"{told}, keep: eta": eta_of(keep, blind),
        f"{told}, deficit: deep over shallow": mean_of(outcome.deficits["deep_over_shallow"]),
        f"{told}, deficit: e90": mean_of(outcome.deficits["e90"]),
    }
    for rank in REMOVAL_RANKS:
        found[f"{told}, removal {rank}: eta"] = eta_of(outcome.kls[f"removal {rank}"], keep)
    return found


def charts(models: Models) -> list[Chart]:
    """One panel a model: η of the stale and of the fresh patch as the window turns over."""
    found = []
    for name, model in models.items():
        series = []
        for arm in ("stale", "fresh"):
            at = [model["figures"][f"{arm} at {turnover:g}: eta"] for turnover in TURNOVERS]
            series.append(
                Series(
                    f"{arm} patch",
                    TURNOVERS,
                    [figure["value"] for figure in at],
                    [figure["low"] for figure in at],
                    [figure["high"] for figure in at],
                )
            )
        series.append(
            Series(
                "stale, Qwen2.5-VL-7B",
                [turnover for turnover, _ in STALE_PAPER],
                [eta for _, eta in STALE_PAPER],
                paper=True,
            )
        )
        found.append(
            Chart(name, "lines", "turnover of the window", "η", series, levels=(("blind", 0.0),))
        )
    return found


REPRODUCTION = Reproduction(
    name="table1",
    title="Eviction: recall needs a patch, survivors a rotation",
    paper=(
        "Section 5, Table 1 and Appendix B: cached Video-MME segments, n = 25 to 32 clips a model, on "
        "Qwen2.5-VL (GQA), Qwen3-VL (deepstack) and Kimi-VL (MLA). Recall: an evicted chunk comes back "
        "after the window has turned over by 0, 0.2 … 1; `stale` replays the patch as it was at eviction, "
        "`fresh` is a rank-32 patch on its present past. Survivor: the leading chunk leaves, the inner "
        "one is kept as it is and rotated, or given a rank-64 removal patch. η is the share of the gap "
        "from blind reuse to re-prefill; for the removal patch we read it as from keep-as-is."
    ),
    ours=(
        "The same two probes on windows of the binding task: legends that say which color has which "
        "digit, then an item. Recall: two legends, turnover 0, 0.5 and 1; the new legends give the item's "
        "color another digit. Survivor: of two legends the first leaves; the other and the item are kept, or "
        "patched, and the removal deficit is the item's. The row `stays` has the item's "
        "color in the legend that stays; `left` has it in the one that left, which the paper doesn't tell "
        "apart. Ranks are the paper's; where a chunk has 64 features or about as many tokens, 64 is full "
        "rank, so that rank 4 stands beside it. A paper figure with three values is of GQA, deepstack and "
        "MLA."
    ),
    run=run,
    claims=(
        Claim("recall, no turnover, stale patch: η", "stale at 0: eta", "about 0.9", at_least(0.9)),
        Claim(
            "recall, full turnover, stale patch: η",
            "stale at 1: eta",
            "-0.68, -2.85, 0.29",
            at_most(0.29),
        ),
        Claim(
            "recall, stale patch: largest rise of η from one turnover to the next",
            "stale: largest rise",
            "decays monotonically",
            at_most(0.0),
            TURNED,
        ),
        Claim(
            "recall, full turnover, fresh patch: η",
            "fresh at 1: eta",
            "0.87, 0.96, 0.81",
            at_least(0.81),
        ),
        Claim(
            "recall, full turnover, stale patch: flip-recover",
            "stale at 1: flips",
            "0.25, 0.00, 0.00",
            at_most(0.25),
        ),
        Claim(
            "recall, full turnover, fresh patch: flip-recover",
            "fresh at 1: flips",
            "0.75, 1.00, 0.67",
            at_least(0.67),
        ),
        Claim(
            "survivor whose answer stays, kept as it is: KL",
            "stays, keep: kl",
            "0.015, 0.113, 0.023",
            at_most(0.113),
        ),
        Claim(
            "survivor whose answer has left, kept as it is: KL",
            "left, keep: kl",
            "0.015, 0.113, 0.023 (not told apart)",
            at_most(0.113),
            LEFT,
        ),
        Claim("survivor whose answer stays, kept as it is: η", "stays, keep: eta", "–", SHOWN),
        *(
            Claim(
                f"survivor whose answer {told}, removal patch of rank {rank}: η",
                f"{key}, removal {rank}: eta",
                "0.87, 0.83, 0.82" if rank == 64 else "–",
                at_least(0.82),
            )
            for told, key in (("stays", "stays"), ("has left", "left"))
            for rank in REMOVAL_RANKS
        ),
        Claim(
            "removal deficit, answer left: relative norm, deepest third over first third of the layers",
            "left, deficit: deep over shallow",
            "about 3",
            at_least(3.0),
        ),
        Claim(
            "removal deficit, answer left: components that hold 90 % of its energy",
            "left, deficit: e90",
            "36 to 44",
            at_most(44.0),
        ),
    ),
    charts=charts,
)
