"""Every arm that works on a workbench, in the settings that are compared, and each one's end point."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal

from kamera.arms.a_stream import AStream
from kamera.arms.antecedent_operator import AntecedentOperator
from kamera.arms.blind import Blind
from kamera.arms.budget import Count, SameBytes, Share
from kamera.arms.cacheblend import CacheBlend
from kamera.arms.contract import Arm
from kamera.arms.cross_mass import CrossMass
from kamera.arms.deep_patched import DeepPatched
from kamera.arms.epic import Epic
from kamera.arms.key_similarity import KeySimilarity
from kamera.arms.layer_reprefill import LayerReprefill
from kamera.arms.leverage import Leverage
from kamera.arms.low_rank_keys import LowRankKeys
from kamera.arms.mpic import Mpic
from kamera.arms.orbit import Orbit
from kamera.arms.patched import Patched
from kamera.arms.prefix_cache import PrefixCache
from kamera.arms.query_oracle import QueryOracle
from kamera.arms.reprefill import Reprefill
from kamera.arms.shallow_seed import ShallowSeed
from kamera.arms.shared_basis import SharedBasis
from kamera.arms.sink import Sink
from kamera.arms.top_deficit import TopDeficit
from kamera.arms.vlcache import VLCache
from kamera.arms.workbench import Workbench

End = Literal["re-prefill", "blind"] | None
ALL = Share(1.0)
RANK = 16
"""Of the feature arms that are compared at one rank."""
MATCHED = (1, 4, RANK)
"""Ranks whose bytes token arms are given."""
MANY = 10**6
"""More tokens or layers than any window or model has."""


@dataclass(frozen=True)
class Row:
    """One kind of arm.

    Attributes:
        name: its label, the first word or words of its arms' names.
        kind: what it gives back: `reference` (nothing is approximated), `token`, `layer`, `feature`, or
            `estimator` for what the paper ruled out.
        make: the arms as compared.
        at_end: the arm with its budget at the end.
        end: what it then equals, to rounding; None where that takes more than a budget (`at_end` says what).
    """

    name: str
    kind: Literal["reference", "token", "layer", "feature", "estimator"]
    make: Callable[[Workbench], Sequence[Arm]]
    at_end: Callable[[Workbench], Arm]
    end: End = "re-prefill"


ROWS: tuple[Row, ...] = (
    Row("re-prefill", "reference", lambda b: [Reprefill(b.engine)], lambda b: Reprefill(b.engine)),
    Row(
        "prefix cache",
        "reference",
        lambda b: [PrefixCache(b.engine)],
        lambda b: PrefixCache(b.engine),
    ),
    Row("blind", "reference", lambda b: [Blind(b)], Blind, "blind"),
    Row(
        "patch",
        "feature",
        lambda b: [Patched(b, rank) for rank in (1, 2, 4, 8, RANK, None)],
        lambda b: Patched(b, None),
    ),
    Row("deep", "feature", lambda b: [DeepPatched(b, RANK)], lambda b: DeepPatched(b, None, 1.0)),
    Row(
        "shared basis", "feature", lambda b: [SharedBasis(b, RANK)], lambda b: SharedBasis(b, None)
    ),
    Row("orbit", "feature", lambda b: [Orbit(b, RANK)], lambda b: Orbit(b, None, hold_out=False)),
    Row("sink", "estimator", lambda b: [Sink(b)], lambda b: Sink(b, MANY)),
    Row(
        "low-rank K",
        "feature",
        lambda b: [LowRankKeys(b, RANK)],
        lambda b: LowRankKeys(b, None),
        "blind",
    ),
    Row(
        "cacheblend",
        "token",
        lambda b: [CacheBlend(b, 0.15)],
        lambda b: CacheBlend(b, 1.0),
    ),
    Row(
        "epic",
        "token",
        lambda b: [
            Epic(b, budget) for budget in (Count(8), Count(16), Count(32), *map(SameBytes, MATCHED))
        ],
        lambda b: Epic(b, ALL),
    ),
    Row(
        "mpic", "token", lambda b: [Mpic(b, Count(k)) for k in (8, 16, 32)], lambda b: Mpic(b, ALL)
    ),
    Row(
        "vlcache",
        "token",
        lambda b: [VLCache(b, 0.10), VLCache(b, 0.10, by_layer=True)],
        lambda b: VLCache(b, 1.0, by_layer=True),
    ),
    Row(
        "oracle top",
        "token",
        lambda b: [
            TopDeficit(b, budget) for budget in (Share(0.15), Share(0.5), *map(SameBytes, MATCHED))
        ],
        lambda b: TopDeficit(b, ALL),
    ),
    Row(
        "quest oracle",
        "token",
        lambda b: [QueryOracle(b, budget) for budget in (Share(0.15), *map(SameBytes, MATCHED))],
        lambda b: QueryOracle(b, ALL),
    ),
    Row("cross-mass", "token", lambda b: [CrossMass(b, Share(0.25))], lambda b: CrossMass(b, ALL)),
    Row("leverage", "token", lambda b: [Leverage(b, Count(64))], lambda b: Leverage(b, ALL)),
    Row("layers", "layer", lambda b: [LayerReprefill(b, 3)], lambda b: LayerReprefill(b, 0)),
    Row(
        "antecedent operator",
        "estimator",
        lambda b: [AntecedentOperator(b)],
        lambda b: AntecedentOperator(b, ridge=0.0, pool=MANY),  # and the chunk itself in the pool
        None,
    ),
    Row(
        "key similarity",
        "estimator",
        lambda b: [KeySimilarity(b, Share(0.25))],
        lambda b: KeySimilarity(b, ALL),
    ),
    Row("A-stream", "estimator", lambda b: [AStream(b)], lambda b: AStream(b, MANY)),
    Row("shallow seed", "estimator", lambda b: [ShallowSeed(b, 3)], lambda b: ShallowSeed(b, MANY)),
)


def compared_arms(bench: Workbench) -> list[Arm]:
    """All of them, the reference first."""
    return [arm for row in ROWS for arm in row.make(bench)]
