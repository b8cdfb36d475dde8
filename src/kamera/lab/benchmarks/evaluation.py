"""A benchmark under arms: its own score, and how close each arm is to re-prefill."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from itertools import islice
from typing import Any

from torch import Tensor

from kamera.arms import (
    Arm,
    ArmRequest,
    Blind,
    Patched,
    PrefixCache,
    Reprefill,
    Served,
    Workbench,
)
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab.benchmarks.contract import Benchmark, BenchmarkItem, Scored
from kamera.lab.benchmarks.window import Shown, followed_by, letter_ids, request_of
from kamera.lab.evaluation import second_sight
from kamera.lab.metrics import agreement, eta, flip_recover, kl
from kamera.lab.metrics_paired import mean_interval

REFERENCE, BLIND = "re-prefill", "blind"
MAX_NEW_TOKENS = 16

Progress = Callable[[str, int, int], None]
"""Called with the benchmark's name, the items done, and the items asked for."""


@dataclass
class BenchmarkTally:
    """One arm on one benchmark, item by item."""

    scored: list[Scored] = field(default_factory=list)
    kls: list[float] = field(default_factory=list)
    num_prefilled: int = 0
    num_bytes: int = 0
    num_token_layers: int = 0

    def add(self, scored: Scored, served: Served, reference: Tensor) -> None:
        """One item: its response, and the serve that gave the response's first token."""
        self.scored.append(scored)
        self.kls.append(kl(served.logits, reference))
        self.num_prefilled += served.num_prefilled
        self.num_bytes += served.num_bytes
        self.num_token_layers += served.num_token_layers


@dataclass(frozen=True)
class Limits:
    """How much is run.

    Attributes:
        num_items: items that are answered.
        max_new_tokens: of an open answer. A choice takes one.
        max_tokens: windows of more tokens are left out, and counted; None for no limit.
        num_learned: the benchmark's first items, which teach the arms that learn and aren't answered.
    """

    num_items: int
    max_new_tokens: int = MAX_NEW_TOKENS
    max_tokens: int | None = None
    num_learned: int = 0

    def __post_init__(self) -> None:
        least = {"num_items": self.num_items, "max_new_tokens": self.max_new_tokens}
        if self.max_tokens is not None:
            least["max_tokens"] = self.max_tokens
        for name, value in least.items():
            if value < 1:
                raise ConfigError(f"Invalid {name}: expected at least 1, got {value}")
        if self.num_learned < 0:
            raise ConfigError(f"Invalid num_learned: expected at least 0, got {self.num_learned}")

    def allow(self, request: ArmRequest) -> bool:
        """Whether the window and its tail are short enough."""
        num_tokens = sum(chunk.num_tokens for chunk in (*request.cached, request.tail))
        return self.max_tokens is None or num_tokens <= self.max_tokens


def plain_arms(bench: Workbench) -> list[Arm]:
    """Arms that learn nothing from other windows."""
    patched = [Patched(bench, rank) for rank in (4, 16)]
    return [Reprefill(bench.engine), PrefixCache(bench.engine), Blind(bench), *patched]


def evaluate_benchmark(
    engine: HFEngine,
    benchmark: Benchmark,
    limits: Limits,
    *,
    make: Callable[[Workbench], Sequence[Arm]] = plain_arms,
    shown: Shown | None = None,
    progress: Progress | None = None,
) -> dict[str, Any]:
    """Items of a benchmark under every arm that `make` gives, re-prefill first.

    A choice is answered with the letter whose token the model finds likeliest. An open question is
    decoded greedily; for every token the arm is asked again, the tokens so far behind the tail, so that
    an arm is only what its contract says. Each arm serves at its second sight.

    Raises:
        ConfigError: the folder, a row or a medium can't be read; no item within the limits; `make`
            doesn't start with re-prefill.
    """
    bench, shown = Workbench(engine), shown or Shown()
    arms = make(bench)
    if not arms or arms[0].name != REFERENCE:
        raise ConfigError(f"Expected {REFERENCE} as the first arm, got {[a.name for a in arms]}")
    tallies = {arm.name: BenchmarkTally() for arm in arms}
    items = benchmark.items()
    _learn(engine, arms, list(islice(items, limits.num_learned)), shown, limits)
    bench.clear()
    num_left_out = 0
    for number, item in enumerate(islice(items, limits.num_items), 1):
        request = request_of(engine, item, shown)
        if limits.allow(request):
            _serve_item(engine, benchmark, item, request, arms, tallies, limits.max_new_tokens)
        else:
            num_left_out += 1
        bench.clear()
        if progress is not None:
            progress(benchmark.name, number, limits.num_items)
    if not tallies[REFERENCE].scored:
        raise ConfigError(
            f"No item of {benchmark.name} in {benchmark.folder} was run: {limits.num_learned} were to be "
            f"learned from, {num_left_out} have more than {limits.max_tokens} tokens; expected more items"
        )
    return {
        "benchmark": benchmark.name,
        "metric": benchmark.metric,
        "n": len(tallies[REFERENCE].scored),
        "num_left_out": num_left_out,
        "arms": {name: _figures(benchmark, tally, tallies) for name, tally in tallies.items()},
        "items": _responses(tallies),
    }


def _learn(
    engine: HFEngine, arms: Sequence[Arm], items: list[BenchmarkItem], shown: Shown, limits: Limits
) -> None:
    """Teach the arms on windows that aren't answered, when there are any."""
    found = [request_of(engine, item, shown) for item in items]
    requests = [request for request in found if limits.allow(request)]
    if requests:
        for arm in arms:
            arm.learn(requests)


def _serve_item(
    engine: HFEngine,
    benchmark: Benchmark,
    item: BenchmarkItem,
    request: ArmRequest,
    arms: Sequence[Arm],
    tallies: dict[str, BenchmarkTally],
    max_new_tokens: int,
) -> None:
    reference: Tensor | None = None
    for arm in arms:
        served = second_sight(arm, request)
        reference = served.logits if reference is None else reference
        if item.choices:
            likeliest = served.logits[letter_ids(engine, item)].argmax()
            response = item.letters[int(likeliest)]
        else:
            response = _decode(engine, arm, request, served.logits, max_new_tokens)
        scored = Scored(item, response, benchmark.score(item, response))
        tallies[arm.name].add(scored, served, reference)


def _decode(
    engine: HFEngine, arm: Arm, request: ArmRequest, logits: Tensor, max_new_tokens: int
) -> str:
    """Greedily, from the first token's logits on."""
    stops = _stop_ids(engine)
    tokens = [int(logits.argmax())]
    while tokens[-1] not in stops and len(tokens) < max_new_tokens:
        tokens.append(int(arm.serve(followed_by(engine, request, tokens)).logits.argmax()))
    text: str = engine.tokenizer.decode(tokens, skip_special_tokens=True)
    return text.strip()


def _stop_ids(engine: HFEngine) -> set[int]:
    ends = engine.model.generation_config.eos_token_id
    ids = ends if isinstance(ends, list) else [ends]
    return {int(i) for i in (*ids, engine.tokenizer.eos_token_id) if i is not None}


def _figures(
    benchmark: Benchmark, tally: BenchmarkTally, tallies: dict[str, BenchmarkTally]
) -> dict[str, Any]:
    """One arm's figures; those against blind reuse are None when it isn't among the arms."""
    reference, blind = tallies[REFERENCE], tallies.get(BLIND)
    numbers: dict[str, int] = {}
    answers, wanted = _numbered(tally, numbers), _numbered(reference, numbers)
    by_category: dict[str, list[Scored]] = defaultdict(list)
    for one in tally.scored:
        by_category[one.item.category].append(one)
    recovered, num_flips = (
        flip_recover(answers, _numbered(blind, numbers), wanted) if blind else (None, 0)
    )
    return {
        **benchmark.summary(tally.scored),
        "score_interval": mean_interval([one.score for one in tally.scored]).json(),
        "by_category": {
            name: {**benchmark.summary(some), "n": len(some)} for name, some in by_category.items()
        },
        "agreement": agreement(answers, wanted),
        "kl": sum(tally.kls) / len(tally.kls),
        "kl_max": max(tally.kls),
        "eta": eta(tally.kls, blind.kls) if blind else None,
        "flip_recover": recovered,
        "num_flips": num_flips,
        "num_prefilled": tally.num_prefilled,
        "num_bytes": tally.num_bytes,
        "num_token_layers": tally.num_token_layers,
    }


def _numbered(tally: BenchmarkTally, numbers: dict[str, int]) -> list[int]:
    """Each response as a number, the same for the same text."""
    return [numbers.setdefault(one.response, len(numbers)) for one in tally.scored]


def _responses(tallies: dict[str, BenchmarkTally]) -> list[dict[str, Any]]:
    return [
        {
            "id": one.item.id,
            "category": one.item.category,
            "answers": list(one.item.answers),
            "responses": {name: tally.scored[at].response for name, tally in tallies.items()},
        }
        for at, one in enumerate(tallies[REFERENCE].scored)
    ]
