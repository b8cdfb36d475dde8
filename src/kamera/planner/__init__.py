"""The planner: (request, catalog) -> per chunk an operating point, its cost and a reason.

Pure data in, data out: no tensor, no clock, no store.

    points    OperatingPoint, the menu's names
    request   the chunks that are wanted, in order
    catalog   what is known of a chunk: canonical, conditioned KV, patches
    names     what KV is called by how it was made
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
)
from kamera.planner.names import Front, context_of, formed_name, served_name
from kamera.planner.plan import Choice, Plan, PlannedChunk, plan
from kamera.planner.points import OperatingPoint
from kamera.planner.request import Request, RequestedChunk

__all__ = [
    "Catalog",
    "Choice",
    "ChunkRecord",
    "ConditionedRecord",
    "Front",
    "OperatingPoint",
    "PatchKind",
    "PatchRecord",
    "Plan",
    "PlannedChunk",
    "Request",
    "RequestedChunk",
    "StaticCatalog",
    "context_of",
    "formed_name",
    "plan",
    "served_name",
]
