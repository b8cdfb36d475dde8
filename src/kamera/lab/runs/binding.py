"""The binding task under every arm: what reuse loses, who gives it back, for what bytes."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from kamera.arms import ROWS, Workbench
from kamera.lab.evaluation import Tally, against, best_token_arm, with_intervals
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import Claim, at_least, at_most, reaches, surely_above
from kamera.lab.reproductions.figures import JsonFigure, plain
from kamera.lab.reproductions.reasons import SINK, TOLD
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import NUM_LEARNED, Subject

TASK = "binding"
RANKS = (1, 4, 16)
"""Of the patches that are set against the best token arm of at most the same bytes."""
MARGIN = 0.001
"""In η: two arms that differ by less are both at re-prefill."""
TOKEN_ARMS = ("cacheblend 15%", "epic 16", "mpic 32", "vlcache 10%")
"""Those of the paper's Figure 7, in its settings."""
ARMS = ("patch 16", *TOKEN_ARMS, "sink 32", "oracle top 15%", "low-rank K 16", "deep 50% patch 16")
"""That a claim is about."""


def run(subject: Subject) -> ModelFigures:
    """Every arm on one model."""
    bench = Workbench(subject.engine)
    kinds = {arm.name: row.kind for row in ROWS for arm in row.make(bench)}
    return figures_of(subject.tallies(TASK), kinds)


def figures_of(tallies: dict[str, Tally], kinds: Mapping[str, str]) -> ModelFigures:
    """What is judged, every arm's figures, the paired comparisons, and the items that they come from.

    Args:
        tallies: by arm; re-prefill, blind and the patches of `RANKS` among them.
        kinds: arm name -> its kind.
    """
    arms = {name: {"kind": kinds[name], **row} for name, row in with_intervals(tallies).items()}
    paired = [against_best_tokens(tallies, rank) for rank in RANKS]
    return {
        "num_learned": NUM_LEARNED,
        "figures": judged_figures(arms, paired),
        "arms": arms,
        "paired": paired,
        "items": {name: _series(tally) for name, tally in tallies.items()},
    }


def judged_figures(
    arms: Mapping[str, Any], paired: list[dict[str, Any]]
) -> dict[str, JsonFigure | None]:
    """By the claims' keys; an arm that wasn't run has none."""
    found: dict[str, JsonFigure | None] = {}
    for arm in (arm for arm in ARMS if arm in arms):
        found[f"{arm}: eta"] = arms[arm]["intervals"]["eta"]
        found[f"{arm}: flips"] = arms[arm]["intervals"]["flip_recover"]
    for pair in paired:
        found[f"patch {pair['rank']} - best tokens"] = pair.get("eta")
    patch = arms["patch 16"]
    share = patch["num_bytes"] / arms["re-prefill"]["num_bytes"]
    found["patch 16: share of the KV's bytes"] = plain(share, patch["n"])
    return found


def against_best_tokens(tallies: dict[str, Tally], rank: int) -> dict[str, Any]:
    """A rank-m patch minus the token arm of highest η that keeps no more bytes.

    `other` is None where no token arm is that small; then there is no comparison.
    """
    arm = f"patch {rank}"
    rival = best_token_arm(tallies, arm)
    if rival is None:
        return {"rank": rank, "arm": arm, "other": None}
    return {"rank": rank, **against(tallies, arm, rival)}


def _series(tally: Tally) -> dict[str, list[Any]]:
    """What intervals are made from, in the order of the items."""
    return {
        "kl": tally.kls,
        "answer": tally.answers,
        "correct": [int(right) for right in tally.correct],
    }


def charts(models: Models) -> list[Chart]:
    """η and flip-recover by arm, the models side by side."""
    shown = ARMS[:7]
    panels = (("η", "eta"), ("flip-recover", "flips"))
    return [
        Chart(label, "bars", "", label, [_bars(name, m, key, shown) for name, m in models.items()])
        for label, key in panels
    ]


def _bars(name: str, model: ModelFigures, key: str, arms: tuple[str, ...]) -> Series:
    at = [model["figures"].get(f"{arm}: {key}") or plain(None, 0) for arm in arms]
    values, lows, highs = ([figure[end] for figure in at] for end in ("value", "low", "high"))
    return Series(name, arms, values, lows, highs)


_THIN = (
    "At this rank the patch's bytes buy the token arm a quarter to half of each frame, and both are at "
    "re-prefill; the lower ranks show the difference"
)

BINDING = Reproduction(
    name="binding",
    title="The binding task under every arm",
    paper=(
        "The paper compares the patch with CacheBlend, EPIC, MPIC, VLCache, attention sinks and others on "
        "benchmarks whose answers need what one segment absorbed from another (Figures 6 and 7, "
        "Tables 3 to 6, section C.3)."
    ),
    ours=(
        "A task that was made to need binding, under every arm of this project. A rank-m patch keeps m · (T "
        "+ F) numbers where the KV has T · F, so that its bytes weigh more on short chunks. The best token "
        "arm is the one of highest η among those that keep no more bytes, oracles among them, chosen on the "
        "tested items themselves, which favors the token arms. A margin in η of 0.001 or less counts as "
        "none: both arms are at re-prefill then. With one legend there is no other ordering, so that `orbit` "
        "holds none out: it is the patch itself (Table 2 has three legends). On the packaged models `vlcache "
        "… by layer` finds the last layer to matter most, which gives all layers the same share."
    ),
    run=run,
    claims=(
        Claim("`patch 16`: η", "patch 16: eta", "0.98 to 1.00 (Figure 7a)", at_least(0.98)),
        Claim("`patch 16`: flip-recover", "patch 16: flips", "0.96 (Figure 7b)", at_least(0.96)),
        *(
            Claim(
                f"`patch {rank}` minus the best token arm that keeps no more bytes: η",
                f"patch {rank} - best tokens",
                "0.27 over an oracle by the question (Table 6)" if rank == 16 else "–",
                surely_above(MARGIN),
                _THIN if rank == 16 else "",
            )
            for rank in RANKS
        ),
        *(
            Claim(f"`{arm}`: η", f"{arm}: eta", "0.10 to 0.71 (Figure 7a)", at_most(0.71), TOLD)
            for arm in TOKEN_ARMS
        ),
        *(
            Claim(
                f"`{arm}`: flip-recover",
                f"{arm}: flips",
                "0.21 to 0.44 (Figure 7b)",
                at_most(0.44),
                TOLD,
            )
            for arm in TOKEN_ARMS
        ),
        Claim(
            "`oracle top 15%`: η",
            "oracle top 15%: eta",
            "0.68 needs half of the tokens (section C.3)",
            at_most(0.68),
            TOLD,
        ),
        Claim(
            "`sink 32`: flip-recover",
            "sink 32: flips",
            "0.04 to 0.21 (Table 5)",
            at_most(0.21),
            SINK,
        ),
        Claim(
            "`low-rank K 16`: η",
            "low-rank K 16: eta",
            "at most 0 (Table 6)",
            reaches(0.0),
        ),
        Claim(
            "`deep 50% patch 16`: η",
            "deep 50% patch 16: eta",
            "about 0.95 (Figure 8)",
            at_least(0.95),
        ),
        Claim(
            "bytes of `patch 16` over those of the window's KV",
            "patch 16: share of the KV's bytes",
            "0.06 (Table 4)",
            at_most(0.065),
            "m · (T + F) over T · F is large where a chunk has 66 tokens and few features",
        ),
    ),
    charts=charts,
)
