"""The lanes, one function each: given a chunk, its antecedents and its record, a choice or None.

`MENU` is the order in which they are tried: cheapest and most faithful first, and the last always
answers. A new lane is a function here and a row there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kamera.planner.catalog import ChunkRecord, PatchRecord
from kamera.planner.names import context_of, served_name
from kamera.planner.points import OperatingPoint
from kamera.planner.request import Request, RequestedChunk


@dataclass(slots=True)
class Situation:
    """One chunk of the request: the antecedents it will stand behind, what is held of it."""

    request: Request
    chunk: RequestedChunk
    antecedents: tuple[str, ...]
    record: ChunkRecord
    context: str = ""
    """Names how what stands in front was made; empty when it is all exact."""
    formed: str = ""
    """The name of KV that is prefilled here. Of no use to `HELD`."""
    served: PatchRecord | None = None
    """The patch that was formed in this context, if one is listed. Of no use to `HELD`."""


class Choice(NamedTuple):
    """How to serve one chunk, and why."""

    point: OperatingPoint
    reason: str
    name: str
    """Names the KV that it gives: the chunk's digest when that is what re-prefill caches."""
    num_prefilled: int = 0
    """Tokens that a forward runs over."""
    patch: PatchRecord | None = None
    slot: str | None = None
    """Where the conditioned KV to relocate is held."""


Lane = Callable[[Situation], Choice | None]


def leading(situation: Situation) -> Choice | None:
    """The conditioned KV on exactly these antecedents is in the window, or there is no antecedent."""
    chunk = situation.chunk.chunk
    if not situation.antecedents and situation.record.canonical:
        return Choice(OperatingPoint.LEADING, "leads the window: canonical, deficit 0", chunk)
    for held in situation.record.conditioned:
        if held.antecedents == situation.antecedents:
            # What was formed behind approximate KV is held like any other; a patch keeps its lane.
            point = OperatingPoint.LEADING if held.point is OperatingPoint.FORM else held.point
            reason = "held on the same antecedents: relocate"
            return Choice(point, reason, held.name or chunk, slot=held.slot)
    return None


def exact(situation: Situation) -> Choice | None:
    """A patch formed on the same antecedents, in the same order."""
    if not situation.record.canonical:
        return None
    for patch in situation.record.patches:
        if patch.kind == "exact" and patch.antecedents == situation.antecedents:
            reason = f"patch of {patch.shown} formed on the same antecedents"
            return Choice(OperatingPoint.EXACT, reason, patch.name, patch=patch)
    return None


def orbit(situation: Situation) -> Choice | None:
    """One patch for every ordering of the same set."""
    if not situation.record.canonical:
        return None
    for patch in situation.record.patches:
        if patch.kind == "orbit" and sorted(patch.antecedents) == sorted(situation.antecedents):
            reason = f"same {len(patch.antecedents)} antecedents in another order: orbit patch"
            return Choice(OperatingPoint.ORBIT, reason, patch.name, patch=patch)
    return None


def survivor(situation: Situation) -> Choice | None:
    """The head of what it was conditioned on has left; the rest stands in the same order."""
    if not situation.request.keep_survivors:
        return None
    here = situation.antecedents
    for held in situation.record.conditioned:
        if _head_left(held.antecedents, here, situation.request.pinned):
            left = len(held.antecedents) - len(here)
            reason = f"{left} leading antecedent{'s' * (left > 1)} left: relocate, no patch"
            how = ("survivor", held.name, context_of(held.antecedents))
            name = served_name(situation.chunk.chunk, *how)
            return Choice(OperatingPoint.SURVIVOR, reason, name, slot=held.slot)
    return None


def served(situation: Situation) -> Choice | None:
    """A patch formed on the same antecedents when approximate KV stood in front, made as it is now."""
    patch = situation.served
    if patch is None:
        return None
    reason = f"patch of {patch.shown} formed behind this same approximate window"
    return Choice(OperatingPoint.SERVED, reason, situation.formed, patch=patch)


def recall(situation: Situation) -> Choice | None:
    """The chunk was evicted and is back behind antecedents that no patch of it names."""
    if not (situation.record.evicted and situation.record.canonical):
        return None
    reason = f"evicted and back; {_why_no_patch(situation)}: fresh patch, no vision"
    num_tokens = situation.chunk.num_tokens
    return Choice(OperatingPoint.RECALL, reason, situation.formed, num_tokens)


def form(situation: Situation) -> Choice:
    """Nothing that is held fits: prefill once and keep the patch. Always right."""
    record = situation.record
    seen = record.canonical or record.patches or record.conditioned
    why = f"miss: {_why_no_patch(situation)}" if seen else "miss: never seen"
    return Choice(OperatingPoint.FORM, why, situation.formed, situation.chunk.num_tokens)


HELD: tuple[Lane, ...] = (leading, exact, orbit, survivor)
"""Those that serve what is held behind these very antecedents, whatever the context."""
BEHIND: tuple[Lane, ...] = (served, recall, form)
"""The others: all give KV as it is prefilled behind the context, and so of one name."""
MENU = HELD + BEHIND


def _head_left(formed: tuple[str, ...], here: tuple[str, ...], pinned: bool) -> bool:
    """Whether `here` is what remains of `formed` when its head leaves, behind a pinned prefix or not."""
    if not here or len(formed) <= len(here):
        return False
    behind_prefix = pinned and formed[0] == here[0]
    return _is_suffix(here, formed) or (behind_prefix and _is_suffix(here[1:], formed[1:]))


def _is_suffix(short: tuple[str, ...], long: tuple[str, ...]) -> bool:
    return not short or long[-len(short) :] == short


def _why_no_patch(situation: Situation) -> str:
    """Where the nearest patch's antecedents part from the request's, counted from the front."""
    formed = [patch.antecedents for patch in situation.record.patches]
    formed += [held.antecedents for held in situation.record.conditioned]
    if not formed:
        return "no patch was formed"
    shared = max(_shared_head(antecedents, situation.antecedents) for antecedents in formed)
    return f"antecedent changed at chunk {shared}"


def _shared_head(a: tuple[str, ...], b: tuple[str, ...]) -> int:
    for i, (x, y) in enumerate(zip(a, b, strict=False)):
        if x != y:
            return i
    return min(len(a), len(b))
