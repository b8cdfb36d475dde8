"""The tasks under every arm: accuracy, agreement and KL against re-prefill, η and flip-recover."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

from torch import Tensor

from kamera.arms import (
    ROWS,
    Arm,
    ArmRequest,
    Blind,
    Kamera,
    Patched,
    PrefixCache,
    Reprefill,
    Served,
    Workbench,
    compared_arms,
)
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab.metrics import agreement, eta, flip_recover, kl
from kamera.lab.metrics_paired import (
    accuracy_difference,
    eta_difference,
    eta_interval,
    flip_recover_interval,
    mean_interval,
)
from kamera.lab.tasks import Item, Task
from kamera.session import Session

RANKS = (1, 2, 4, 8, 16, None)
REFERENCE, BLIND = "re-prefill", "blind"

Progress = Callable[[str, int, int], None]
"""Called with what is running, how much of it is done, and how much there is."""


@dataclass
class Tally:
    """One arm's figures on one task, item by item."""

    answers: list[int] = field(default_factory=list)
    kls: list[float] = field(default_factory=list)
    correct: list[bool] = field(default_factory=list)
    num_prefilled: int = 0
    num_bytes: int = 0
    num_token_layers: int = 0

    def add(self, logits: Tensor, reference: Tensor, answer: int) -> None:
        """One item."""
        self.answers.append(int(logits.argmax()))
        self.kls.append(kl(logits, reference))
        self.correct.append(self.answers[-1] == answer)


def request_of(engine: HFEngine, item: Item) -> ArmRequest:
    """An item as the window and the question that an arm serves."""
    prefix, tail = engine.frame(item.question)
    return ArmRequest(prefix, tuple(engine.image_chunk(f.image) for f in item.frames), tail)


def answer_id(engine: HFEngine, item: Item) -> int:
    """The answer's token.

    Raises:
        ConfigError: the model's tokenizer makes several tokens of one of the item's choices.
    """
    for choice in (item.answer, *item.choices):
        ids = engine.text_chunk(choice).key.token_ids
        if len(ids) != 1:
            raise ConfigError(
                f"Can't score {item.question!r} by its next token: {type(engine.tokenizer).__name__} of "
                f"{engine.family.model_type} makes {len(ids)} tokens of the answer {choice!r}, expected 1. "
                "Measure another task, or a model whose tokenizer keeps it whole."
            )
    return engine.text_chunk(item.answer).key.token_ids[0]


def make_arms(session: Session, bench: Workbench) -> list[Arm]:
    """Every arm of this project, the reference first."""
    engine = session.engine
    patched = [Patched(bench, rank) for rank in RANKS]
    return [Reprefill(engine), PrefixCache(engine), Blind(bench), *patched, Kamera(session)]


def evaluate_task(
    session: Session, task: Task, num_items: int, *, seed: int = 0, progress: Progress | None = None
) -> dict[str, dict[str, Any]]:
    """Every arm on `num_items` test items: arm name -> figures."""
    engine = session.engine
    assert isinstance(engine, HFEngine)
    bench = Workbench(engine)
    arms = make_arms(session, bench)
    tallies = {arm.name: Tally() for arm in arms}
    for number, item in enumerate(task.items(num_items, split="test", seed=seed)):
        serve_item(arms, request_of(engine, item), answer_id(engine, item), tallies)
        bench.clear()
        if progress is not None:
            progress(task.name, number + 1, num_items)
    return {name: figures(tally, tallies) for name, tally in tallies.items()}


def second_sight(arm: Arm, request: ArmRequest) -> Served:
    """A request under an arm that has seen it once: what it prepares ahead is prepared."""
    arm.reset()
    arm.prepare(request)
    if isinstance(arm, Kamera | PrefixCache):  # the first sight, on which they learn
        arm.serve(request)
    if isinstance(arm, Kamera):  # the window is emptied, the store stays
        arm.reset()
    return arm.serve(request)


def serve_item(
    arms: Sequence[Arm], request: ArmRequest, answer: int, tallies: dict[str, Tally]
) -> None:
    """One item under every arm, each at its second sight: what it prepares ahead is prepared."""
    reference: Tensor | None = None
    for arm in arms:
        served = second_sight(arm, request)
        reference = served.logits if reference is None else reference
        tallies[arm.name].add(served.logits, reference, answer)
        tallies[arm.name].num_prefilled += served.num_prefilled
        tallies[arm.name].num_bytes += served.num_bytes
        tallies[arm.name].num_token_layers += served.num_token_layers


def figures(tally: Tally, tallies: dict[str, Tally]) -> dict[str, Any]:
    """The report's keys for one arm."""
    reference, blind = tallies[REFERENCE], tallies[BLIND]
    recovered, num_flips = flip_recover(tally.answers, blind.answers, reference.answers)
    return {
        "accuracy": sum(tally.correct) / len(tally.correct),
        "agreement": agreement(tally.answers, reference.answers),
        "kl": sum(tally.kls) / len(tally.kls),
        "kl_max": max(tally.kls),
        "eta": eta(tally.kls, blind.kls),
        "flip_recover": recovered,
        "num_flips": num_flips,
        "n": len(tally.kls),
        "num_prefilled": tally.num_prefilled,
        "num_bytes": tally.num_bytes,
        "num_token_layers": tally.num_token_layers,
    }


def compare_arms(
    engine: HFEngine,
    task: Task,
    num_items: int,
    *,
    make: Callable[[Workbench], Sequence[Arm]] = compared_arms,
    num_learned: int = 8,
    seed: int = 0,
    progress: Progress | None = None,
) -> dict[str, Tally]:
    """Arms on `num_items` test items, item by item; those that learn do so on train items."""
    bench = Workbench(engine)
    arms = make(bench)
    learned = task.items(num_learned, split="train", seed=seed)
    for arm in arms:
        arm.learn([request_of(engine, item) for item in learned])
    bench.clear()
    tallies = {arm.name: Tally() for arm in arms}
    for number, item in enumerate(task.items(num_items, split="test", seed=seed)):
        serve_item(arms, request_of(engine, item), answer_id(engine, item), tallies)
        bench.clear()
        if progress is not None:
            progress(task.name, number + 1, num_items)
    return tallies


def with_intervals(tallies: dict[str, Tally]) -> dict[str, dict[str, Any]]:
    """Arm name -> its figures, each with its interval."""
    reference, blind = tallies[REFERENCE], tallies[BLIND]
    report = {}
    for name, tally in tallies.items():
        same = [float(a == b) for a, b in zip(tally.answers, reference.answers, strict=True)]
        intervals = {
            "accuracy": mean_interval([float(right) for right in tally.correct]),
            "agreement": mean_interval(same),
            "kl": mean_interval(tally.kls),
            "eta": eta_interval(tally.kls, blind.kls),
            "flip_recover": flip_recover_interval(tally.answers, blind.answers, reference.answers),
        }
        plain = figures(tally, tallies)
        shown = {key: found and found.json() for key, found in intervals.items()}
        report[name] = {**plain, "intervals": shown}
    return report


def against(tallies: dict[str, Tally], arm: str, other: str) -> dict[str, Any]:
    """One arm minus another on the same items: η and accuracy, with intervals and p-values."""
    one, two = tallies[arm], tallies[other]
    by_eta = eta_difference(one.kls, two.kls, tallies[BLIND].kls)
    return {
        "arm": arm,
        "other": other,
        "eta": by_eta and by_eta.json(),
        "accuracy": accuracy_difference(one.correct, two.correct).json(),
        "bytes_ratio": one.num_bytes / two.num_bytes if two.num_bytes else None,
    }


def best_token_arm(tallies: dict[str, Tally], arm: str) -> str | None:
    """The token arm of highest η that keeps no more bytes than `arm`, oracles among them; None without one.

    Chosen by its η on the tested items themselves, which favors the token arms.
    """
    labels = tuple(row.name for row in ROWS if row.kind == "token")
    rivals = [
        name
        for name, tally in tallies.items()
        if name.startswith(labels) and tally.num_bytes <= tallies[arm].num_bytes
    ]
    return min(rivals, key=lambda name: sum(tallies[name].kls), default=None)
