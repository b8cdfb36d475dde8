"""Arms: ways to fill the window, compared under one contract. One file each; docs/arms.md has a row for each.

reprefill     everything from the pixels: the reference
prefix_cache  what every engine ships: the longest identical prefix is kept
blind         canonicals relocated, no patch
patched       canonicals relocated, each with its rank-m patch
deep_patched, shared_basis, orbit                         the patch's cheaper forms
cacheblend, epic, mpic, vlcache                           tokens recomputed in context, as published
top_deficit, query_oracle, cross_mass, leverage           tokens recomputed in context, other selectors
layer_reprefill                                           deep layers recomputed in context
sink, low_rank_keys, antecedent_operator, key_similarity, a_stream, shallow_seed    what the paper ruled out
kamera        a session: the planner's lanes

contract      what an arm is; registry: all of them; workbench: forwards that several share
token_arm, placed_arm, laid_out, budget, regression       what arms of one kind share
"""

from kamera.arms.a_stream import AStream
from kamera.arms.antecedent_operator import AntecedentOperator
from kamera.arms.blind import Blind
from kamera.arms.budget import Budget, Count, SameBytes, Share
from kamera.arms.cacheblend import CacheBlend
from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.arms.cross_mass import CrossMass
from kamera.arms.deep_patched import DeepPatched
from kamera.arms.epic import Epic
from kamera.arms.kamera import Kamera
from kamera.arms.key_similarity import KeySimilarity
from kamera.arms.layer_reprefill import LayerReprefill
from kamera.arms.leverage import Leverage
from kamera.arms.low_rank_keys import LowRankKeys
from kamera.arms.mpic import Mpic
from kamera.arms.orbit import Orbit
from kamera.arms.patched import Patched
from kamera.arms.prefix_cache import PrefixCache
from kamera.arms.query_oracle import QueryOracle
from kamera.arms.registry import ROWS, Row, compared_arms
from kamera.arms.reprefill import Reprefill
from kamera.arms.shallow_seed import ShallowSeed
from kamera.arms.shared_basis import SharedBasis
from kamera.arms.sink import Sink
from kamera.arms.top_deficit import TopDeficit
from kamera.arms.vlcache import VLCache
from kamera.arms.workbench import Workbench

__all__ = [
    "ROWS",
    "AStream",
    "AntecedentOperator",
    "Arm",
    "ArmRequest",
    "Blind",
    "Budget",
    "CacheBlend",
    "Count",
    "CrossMass",
    "DeepPatched",
    "Epic",
    "Kamera",
    "KeySimilarity",
    "LayerReprefill",
    "Leverage",
    "LowRankKeys",
    "Mpic",
    "Orbit",
    "Patched",
    "PrefixCache",
    "QueryOracle",
    "Reprefill",
    "Row",
    "SameBytes",
    "Served",
    "ShallowSeed",
    "Share",
    "SharedBasis",
    "Sink",
    "TopDeficit",
    "VLCache",
    "Workbench",
    "compared_arms",
]
