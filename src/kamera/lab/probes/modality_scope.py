"""Where does the effect live? The gap and its repair by kind of context (paper section C.5, Figure 10)."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass

from kamera.lab.metrics import eta, flip_recover, kl
from kamera.lab.probes.case import Case
from kamera.patch import form_patch


@dataclass(frozen=True)
class Scope:
    """One kind of context: B under re-prefill, blind and with its patch.

    Attributes:
        kind: of chunk B: image, video, audio or text.
        accuracy: of re-prefill, blind and patch; None where no case has an answer of one token.
        blind_kl, patch_kl: mean KL to re-prefill, nats.
        eta: of the patch; None without a gap.
        flipped: share of the cases in which blind changes re-prefill's token.
        flip_recover: share of those that the patch restores; None where none flips.
        n: cases.
    """

    kind: str
    accuracy: dict[str, float] | None
    blind_kl: float
    patch_kl: float
    eta: float | None
    flipped: float
    flip_recover: float | None
    n: int


def probe_modality_scope(
    scopes: Mapping[str, Iterable[Case]], *, rank: int = 16
) -> dict[str, Scope]:
    """Name of a kind of context -> its figures, with patches of `rank`."""
    return {name: measure_scope(cases, rank) for name, cases in scopes.items()}


@dataclass
class ScopeItems:
    """One kind of context, case by case.

    Attributes:
        tokens: `re-prefill`, `blind`, `patch` -> the token that each case gives.
        kls: `blind`, `patch` -> KL to re-prefill, nats.
        answers: the right token; None where the answer isn't one.
        kinds: of chunk B.
    """

    tokens: dict[str, list[int]]
    kls: dict[str, list[float]]
    answers: list[int | None]
    kinds: set[str]


def measure_items(cases: Iterable[Case], rank: int) -> ScopeItems:
    """Each case under re-prefill, blind and its patch."""
    found = ScopeItems(
        {"re-prefill": [], "blind": [], "patch": []}, {"blind": [], "patch": []}, [], set()
    )
    for case in cases:
        reference = case.reference()
        logits = {
            "re-prefill": reference,
            "blind": case.with_patch(None),
            "patch": case.with_patch(form_patch(case.delta(), "scope", rank)),
        }
        for name, row in logits.items():
            found.tokens[name].append(int(row.argmax()))
        for name, values in found.kls.items():
            values.append(kl(logits[name], reference))
        found.answers.append(case.answer)
        found.kinds.add(case.chunk.key.kind)
    return found


def measure_scope(cases: Iterable[Case], rank: int) -> Scope:
    """One kind of context."""
    found = measure_items(cases, rank)
    tokens, kls, n = found.tokens, found.kls, len(found.answers)
    recovered, num_flips = flip_recover(tokens["patch"], tokens["blind"], tokens["re-prefill"])
    return Scope(
        " and ".join(sorted(found.kinds)),
        _accuracies(tokens, found.answers),
        sum(kls["blind"]) / n,
        sum(kls["patch"]) / n,
        eta(kls["patch"], kls["blind"]),
        num_flips / n,
        recovered,
        n,
    )


def _accuracies(
    tokens: Mapping[str, list[int]], answers: list[int | None]
) -> dict[str, float] | None:
    known = [i for i, answer in enumerate(answers) if answer is not None]
    if not known:
        return None
    return {
        name: sum(found[i] == answers[i] for i in known) / len(known)
        for name, found in tokens.items()
    }
