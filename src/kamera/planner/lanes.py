"""The lanes, one function each: given a chunk, its antecedents and its record, a choice or None.

`MENU` is the order in which they are tried: cheapest and most faithful first, and the last always
answers. A new lane is a function here and a row there.
"""

from collections.abc import Callable
from dataclasses import dataclass
from typing import NamedTuple

from kamera.planner.catalog import ChunkRecord, PatchRecord
from kamera.planner.names import context_of
from kamera.planner.points import OperatingPoint


@dataclass(slots=True)
class Situation:
    """One chunk of the request: its size, the antecedents it will stand behind, what is held of it."""

    num_tokens: int
    antecedents: tuple[str, ...]
    record: ChunkRecord
    pinned: bool = False
    """Whether the first antecedent is the pinned prefix, which never leaves."""
    context: str = ""
    """Names how what stands in front was made; empty when it is all exact."""
    behind: str = ""
    """`context_of` the antecedents themselves; empty to have it computed."""
    keep_survivors: bool = True
    """Whether a chunk may keep what it absorbed of antecedents that left."""


class Choice(NamedTuple):
    """How to serve one chunk, and why."""

    point: OperatingPoint
    reason: str
    num_prefilled: int = 0
    """Tokens that a forward runs over."""
    patch: PatchRecord | None = None
    slot: str | None = None
    """Where the conditioned KV to relocate is held."""
    how: tuple[str, ...] = ()
    """What the chunk's KV is made of, when it isn't what re-prefill would cache; empty when it is."""
    name: str = ""
    """The name that its KV has already, when it is held as it was made."""


Lane = Callable[[Situation], Choice | None]


def made_of(patch: PatchRecord, behind: str = "") -> tuple[str, ...]:
    """What KV that a patch serves is made of: `Choice.how`. `behind`: `context_of` its antecedents, if known.

    A served patch stands for the KV that it was formed from, as an exact patch does for exact KV.
    """
    if patch.kind == "served":
        return ("formed", patch.context)
    return (patch.kind, str(patch.rank), behind or context_of(patch.antecedents))


def leading(situation: Situation) -> Choice | None:
    """The conditioned KV on exactly these antecedents is in the window, or there is no antecedent."""
    if not situation.antecedents and situation.record.canonical:
        return Choice(OperatingPoint.LEADING, "leads the window: canonical, deficit 0")
    for held in situation.record.conditioned:
        if held.antecedents == situation.antecedents:
            # What was formed behind approximate KV is held like any other; a patch keeps its lane.
            point = OperatingPoint.LEADING if held.point is OperatingPoint.FORM else held.point
            reason = "held on the same antecedents: relocate"
            return Choice(point, reason, slot=held.slot, name=held.name)
    return None


def exact(situation: Situation) -> Choice | None:
    """A patch formed on the same antecedents, in the same order."""
    if not situation.record.canonical:
        return None
    for patch in situation.record.patches:
        if patch.kind == "exact" and patch.antecedents == situation.antecedents:
            reason = f"patch of {patch.shown} formed on the same antecedents"
            how = made_of(patch, situation.behind)
            return Choice(OperatingPoint.EXACT, reason, patch=patch, how=how)
    return None


def orbit(situation: Situation) -> Choice | None:
    """One patch for every ordering of the same set."""
    if not situation.record.canonical:
        return None
    for patch in situation.record.patches:
        if patch.kind == "orbit" and sorted(patch.antecedents) == sorted(situation.antecedents):
            reason = f"same {len(patch.antecedents)} antecedents in another order: orbit patch"
            return Choice(OperatingPoint.ORBIT, reason, patch=patch, how=made_of(patch))
    return None


def survivor(situation: Situation) -> Choice | None:
    """The head of what it was conditioned on has left; the rest stands in the same order."""
    if not situation.keep_survivors:
        return None
    here = situation.antecedents
    for held in situation.record.conditioned:
        if _head_left(held.antecedents, here, situation.pinned):
            left = len(held.antecedents) - len(here)
            reason = f"{left} leading antecedent{'s' * (left > 1)} left: relocate, no patch"
            how = ("survivor", held.name, context_of(held.antecedents))
            return Choice(OperatingPoint.SURVIVOR, reason, slot=held.slot, how=how)
    return None


def served(situation: Situation) -> Choice | None:
    """A patch formed on the same antecedents when approximate KV stood in front, made as it is now."""
    if not (situation.record.canonical and situation.context):
        return None
    for patch in situation.record.patches:
        same = patch.antecedents == situation.antecedents and patch.context == situation.context
        if patch.kind == "served" and same:
            reason = f"patch of {patch.shown} formed behind this same approximate window"
            return Choice(OperatingPoint.SERVED, reason, patch=patch, how=made_of(patch))
    return None


def recall(situation: Situation) -> Choice | None:
    """The chunk was evicted and is back behind antecedents that no patch of it names."""
    if not (situation.record.evicted and situation.record.canonical):
        return None
    reason = f"evicted and back; {_why_no_patch(situation)}: fresh patch, no vision"
    how = ("formed", situation.context) if situation.context else ()
    return Choice(OperatingPoint.RECALL, reason, num_prefilled=situation.num_tokens, how=how)


def form(situation: Situation) -> Choice:
    """Nothing that is held fits: prefill once and keep the patch. Always right."""
    record = situation.record
    seen = record.canonical or record.patches or record.conditioned
    why = f"miss: {_why_no_patch(situation)}" if seen else "miss: never seen"
    how = ("formed", situation.context) if situation.context else ()
    return Choice(OperatingPoint.FORM, why, num_prefilled=situation.num_tokens, how=how)


MENU: tuple[Lane, ...] = (leading, exact, orbit, survivor, served, recall, form)


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
