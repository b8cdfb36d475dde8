"""Table 4: the patch against a token selector and a token subset on a two-page task."""

from __future__ import annotations

from kamera.lab.evaluation import BLIND, REFERENCE
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import SHOWN, Claim, at_most, between, surely_above
from kamera.lab.reproductions.few_arms import rank_tallies
from kamera.lab.reproductions.figures import (
    JsonFigure,
    accuracy_gap_of,
    arm_figures,
    bytes_share_of,
    eta_gap_of,
    plain,
)
from kamera.lab.reproductions.page_bytes import GQA, LATENT, PER_HEAD, TABLE_TOKENS, share
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject

TASK = "binding"
PATCHES = ("patch 16", "patch 64")
TOKENS = ("cross-mass 25%", "leverage 64")
PAPER = {
    REFERENCE: "0.41, 0.28",
    BLIND: "0.28, 0.15",
    "patch 16": "0.39, 0.24",
    "patch 64": "0.41, 0.28",
    "cross-mass 25%": "0.35, –",
    "leverage 64": "0.26, –",
}
"""MLA, GQA."""
SHORT = (
    "A frame has about 64 tokens on the packaged models: 64 of each chunk are (nearly) all of them, "
    "which is re-prefill"
)
QUARTER = (
    "On the packaged models, the latent one apart, a quarter of the tokens, so chosen, holds what the "
    "answer needs"
)
THIN = (
    "Chunks of the packaged models have fewer tokens and features than the paper's, and m · (T + F) "
    "weighs more against T · F"
)
LAYOUT = (
    "Counted: one rank for both channels costs the narrow rotary key of a latent page m · (T + 64) for "
    "its T · 64, and the wide per-head page little. Figure 11 has 2.1 % for rank 16 on the per-head page, "
    "too"
)


def run(subject: Subject) -> ModelFigures:
    """Accuracy of each arm, what it loses to re-prefill, and bytes."""
    tallies = dict(subject.tallies(TASK))
    figures: dict[str, JsonFigure] = {}
    for arm in (REFERENCE, BLIND, PATCHES[0], *TOKENS):
        figures |= arm_figures(tallies, arm)
        figures[f"{REFERENCE} - {arm}: accuracy"] = accuracy_gap_of(
            tallies[REFERENCE], tallies[arm]
        )
        figures[f"{arm}: bytes"] = bytes_share_of(tallies, arm)
    wide, arm = rank_tallies(subject, TASK), PATCHES[1]
    figures |= arm_figures(wide, arm)
    figures[f"{REFERENCE} - {arm}: accuracy"] = accuracy_gap_of(wide[REFERENCE], wide[arm])
    figures[f"{arm}: bytes"] = bytes_share_of(wide, arm)
    for rival in TOKENS:
        one, other = tallies[PATCHES[0]], tallies[rival]
        figures[f"patch 16 - {rival}: accuracy"] = accuracy_gap_of(one, other)
        figures[f"patch 16 - {rival}: eta"] = eta_gap_of(one.kls, other.kls, tallies[BLIND].kls)
    return {"figures": figures | _counted()}


def _counted() -> dict[str, JsonFigure]:
    """Shares at the paper's shapes; of no model, so that n is 1."""
    found = {
        f"counted, {layout}, rank {rank}": plain(share(rank, TABLE_TOKENS, features), 1)
        for layout, features in (("GQA", GQA), ("latent", LATENT), ("per head", PER_HEAD))
        for rank in (16, 64)
    }
    ratio = (
        found["counted, latent, rank 16"]["value"] / found["counted, per head, rank 16"]["value"]
    )
    return found | {"counted: latent over per head": plain(ratio, 1)}


def charts(models: Models) -> list[Chart]:
    """Accuracy of each arm, by model."""
    arms = (REFERENCE, BLIND, *PATCHES, *TOKENS)
    series = []
    for name, model in models.items():
        at = [model["figures"][f"{arm}: accuracy"] for arm in arms]
        series.append(
            Series(
                name,
                arms,
                [figure["value"] for figure in at],
                [figure["low"] for figure in at],
                [figure["high"] for figure in at],
            )
        )
    for name, column in (("Kimi-VL (paper)", 0), ("Qwen2.5-VL (paper)", 1)):
        printed = [PAPER[arm].split(", ")[column] for arm in arms]
        values = [None if value == "–" else float(value) for value in printed]
        series.append(Series(name, arms, values, paper=True))
    return [Chart(TASK, "bars", "", "accuracy", series)]


REPRODUCTION = Reproduction(
    name="table4",
    title="The feature axis against the token axis",
    paper=(
        "Table 4 gives accuracy on two-page multi-hop document questions, on an MLA and a GQA model (in "
        "section C.1 Kimi-VL and Qwen2.5-VL; no n is printed): re-prefill, blind reuse, patches of rank 16 "
        "(about 6 % of the segment's KV) and 64 (about 25 %), cross-mass with 25 % of the tokens, and a "
        "leverage-Nyström subset of 64 tokens. The byte fractions are said to be the same on a per-head page "
        "and on a latent page."
    ),
    ours=(
        "The binding task: a legend and an item are the two pages. Cross-mass and leverage recompute "
        "their tokens in context, 64 of each chunk for leverage. Rank 64 is on half of the items. Figures "
        "with two values are of MLA and GQA. Rows that say `counted` need no model: m · (T + F) over T · "
        "F at the shapes of Qwen2.5-VL-7B and Kimi-VL-A3B and 480 tokens, which is where rank 16 costs "
        "Table 6's 31 tokens."
    ),
    run=run,
    claims=(
        Claim(
            "accuracy lost by blind reuse",
            f"{REFERENCE} - {BLIND}: accuracy",
            "0.13, 0.13",
            surely_above(0.0),
        ),
        Claim(
            "accuracy lost by `patch 16`",
            f"{REFERENCE} - patch 16: accuracy",
            "0.02, 0.04",
            at_most(0.04),
        ),
        Claim(
            "accuracy lost by `patch 64`",
            f"{REFERENCE} - patch 64: accuracy",
            "0.00, 0.00",
            at_most(0.0),
        ),
        *(
            Claim(
                f"accuracy of `patch 16` minus that of `{arm}`",
                f"patch 16 - {arm}: accuracy",
                paper,
                surely_above(0.0),
                why,
            )
            for arm, paper, why in zip(TOKENS, ("0.04", "0.13"), (QUARTER, SHORT), strict=True)
        ),
        *(
            Claim(f"`patch 16` minus `{arm}`: η", f"patch 16 - {arm}: eta", "–", SHOWN)
            for arm in TOKENS
        ),
        Claim(
            "`patch 16`: bytes over the KV's", "patch 16: bytes", "about 0.06", at_most(0.065), THIN
        ),
        Claim(
            "`patch 64`: bytes over the KV's", "patch 64: bytes", "about 0.25", at_most(0.26), THIN
        ),
        *(Claim(f"`{arm}`: bytes over the KV's", f"{arm}: bytes", "–", SHOWN) for arm in TOKENS),
        Claim(
            "counted, GQA page, rank 16: bytes over the KV's",
            "counted, GQA, rank 16",
            "about 0.06",
            between(0.055, 0.065),
        ),
        Claim(
            "counted, GQA page, rank 64: bytes over the KV's",
            "counted, GQA, rank 64",
            "about 0.25",
            between(0.24, 0.26),
        ),
        Claim(
            "counted, rank 16: share on the latent page over the share on the per-head page",
            "counted: latent over per head",
            "1: layout-invariant",
            between(0.95, 1.05),
            LAYOUT,
        ),
        Claim("counted, latent page, rank 16", "counted, latent, rank 16", "about 0.06", SHOWN),
        Claim("counted, per-head page, rank 16", "counted, per head, rank 16", "about 0.06", SHOWN),
        *(Claim(f"`{arm}`: accuracy", f"{arm}: accuracy", PAPER[arm], SHOWN) for arm in PAPER),
    ),
    charts=charts,
)
