"""Claims of the paper that a run of the lab can speak to, each with the figure that decides."""

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Model = dict[str, Any]
Interval = dict[str, Any]
"""`value`, `low`, `high`; the last two are None where there is none."""
MARGIN = 0.001
"""In η: two arms that differ by less are both at re-prefill."""


@dataclass(frozen=True)
class Claim:
    """One of them.

    Attributes:
        figure: what is looked at.
        paper: what the paper found.
        place: where.
        ours: the figure of one model; None where it has none.
        holds: whether it bears the claim out.
        rule: the same in words.
    """

    figure: str
    paper: str
    place: str
    ours: Callable[[Model], Interval | None]
    holds: Callable[[Interval], bool]
    rule: str


def _of(arm: str, figure: str) -> Callable[[Model], Interval | None]:
    return lambda model: model["arms"][arm]["intervals"][figure]


def _at_least(bar: float) -> Callable[[Interval], bool]:
    return lambda ours: ours["value"] >= bar


def _at_most(bar: float) -> Callable[[Interval], bool]:
    return lambda ours: ours["value"] <= bar


def _beyond_margin(ours: Interval) -> bool:
    return ours["low"] is not None and ours["low"] > MARGIN


def _low_not_above_zero(ours: Interval) -> bool:
    return ours["low"] is not None and ours["low"] <= 0


def _difference(rank: int) -> Callable[[Model], Interval | None]:
    def ours(model: Model) -> Interval | None:
        pair = next(pair for pair in model["paired"] if pair["rank"] == rank)
        return pair.get("eta")

    return ours


def _share_of_kv(arm: str) -> Callable[[Model], Interval | None]:
    def ours(model: Model) -> Interval | None:
        arms = model["arms"]
        share = arms[arm]["num_bytes"] / arms["re-prefill"]["num_bytes"]
        return {"value": share, "low": None, "high": None}

    return ours


TOKEN_ARMS = ("cacheblend 15%", "epic 16", "mpic 32", "vlcache 10%")
"""Those of the paper's Figure 7, in its settings."""

CLAIMS: tuple[Claim, ...] = (
    Claim(
        "`patch 16`: η", "0.98 to 1.00", "Figure 7a",
        _of("patch 16", "eta"), _at_least(0.98), "at least 0.98",
    ),
    Claim(
        "`patch 16`: flip-recover", "0.96", "Figure 7b",
        _of("patch 16", "flip_recover"), _at_least(0.96), "at least 0.96",
    ),
    *(
        Claim(
            f"`patch {rank}` minus the best token arm that keeps no more bytes: η",
            "0.27 over an oracle by the question" if rank == 16 else "–", "Table 6",
            _difference(rank), _beyond_margin, f"interval above {MARGIN}",
        )
        for rank in (1, 4, 16)
    ),
    *(
        Claim(
            f"`{arm}`: η", "0.10 to 0.71", "Figure 7a",
            _of(arm, "eta"), _at_most(0.71), "at most 0.71",
        )
        for arm in TOKEN_ARMS
    ),
    *(
        Claim(
            f"`{arm}`: flip-recover", "0.21 to 0.44", "Figure 7b",
            _of(arm, "flip_recover"), _at_most(0.44), "at most 0.44",
        )
        for arm in TOKEN_ARMS
    ),
    Claim(
        "`oracle top 15%`: η", "half of the tokens are needed", "section C.2",
        _of("oracle top 15%", "eta"), lambda ours: ours["value"] < 0.9, "below 0.9",
    ),
    Claim(
        "`sink 32`: flip-recover", "0.04 to 0.21", "Table 5",
        _of("sink 32", "flip_recover"), _at_most(0.21), "at most 0.21",
    ),
    Claim(
        "`low-rank K 16`: η", "at most 0", "Table 6",
        _of("low-rank K 16", "eta"), _low_not_above_zero, "interval reaches 0",
    ),
    Claim(
        "`deep 50% patch 16`: η", "about 0.95", "Figure 8",
        _of("deep 50% patch 16", "eta"), _at_least(0.95), "at least 0.95",
    ),
    Claim(
        "bytes of `patch 16` over those of the window's KV", "0.06", "Table 4",
        _share_of_kv("patch 16"), _at_most(0.065), "at most 0.065",
    ),
)  # fmt: skip
