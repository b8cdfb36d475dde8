"""The planner: (request, catalog) -> per chunk an operating point, its cost and a reason.

Pure data in, data out: no tensor, no clock, no store.

    points    OperatingPoint, the menu's names
    catalog   what is known of a chunk: canonical, conditioned KV, patches
    lanes     one function a lane, tried in the menu's order
    plan      plan(request, catalog) -> Plan
"""

from kamera.planner.catalog import (
    Catalog,
    ChunkRecord,
    ConditionedRecord,
    PatchKind,
    PatchRecord,
    StaticCatalog,
    context_of,
    served_name,
)
from kamera.planner.plan import Choice, Plan, PlannedChunk, Request, RequestedChunk, plan
from kamera.planner.points import OperatingPoint

__all__ = [
    "Catalog",
    "Choice",
    "ChunkRecord",
    "ConditionedRecord",
    "OperatingPoint",
    "PatchKind",
    "PatchRecord",
    "Plan",
    "PlannedChunk",
    "Request",
    "RequestedChunk",
    "StaticCatalog",
    "context_of",
    "plan",
    "served_name",
]
