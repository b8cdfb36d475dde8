"""Time to the first token in this process: a window prefilled, against one placed from patches formed before.

Rounds are interleaved, and a ratio is taken within a round. The vision embeddings of all images are there
already, but for what is said to run the tower.
"""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeVar

from kamera.arms import ArmRequest, Workbench
from kamera.channels import concat
from kamera.chunk import Chunk
from kamera.engines.contract import Prefilled
from kamera.patch import Patch, apply, form_patch

REPEATS = 3
Given = TypeVar("Given")


@dataclass(frozen=True)
class FirstToken:
    """Medians over the rounds, seconds.

    Attributes:
        num_tokens: of the window, the tail apart.
        prefill_s: one forward over window and tail.
        vision_s: the tower over every image.
        reuse_s: relocate, patch, compose, and the tail's forward.
        form_s: ahead of it: the conditioned forward, the deficits and their fit; canonicals are there.
        speedup: prefill over reuse, the median of the rounds' ratios.
    """

    num_tokens: int
    prefill_s: float
    vision_s: float
    reuse_s: float
    form_s: float
    speedup: float

    @property
    def break_even(self) -> float | None:
        """Reuses after which forming is repaid; None where a reuse isn't faster than a prefill."""
        saved = self.prefill_s - self.reuse_s
        return self.form_s / saved if saved > 0 else None


def first_token(bench: Workbench, request: ArmRequest, rank: int) -> FirstToken:
    """Of one window under patches of one rank."""
    chunks = request.cached
    vision = bench.vision(chunks)
    bench.blind(chunks)  # canonicals are compiled before
    patches, form_s = _clocked(lambda: form_all(bench, chunks, rank))
    rounds: dict[str, list[float]] = {"prefill": [], "vision": [], "reuse": []}
    arms: dict[str, Callable[[], object]] = {
        "prefill": lambda: bench.engine.prefill([*chunks, request.tail], vision, start=0),
        "vision": lambda: [bench.engine.see(chunk) for chunk in chunks if chunk.media],
        "reuse": lambda: reuse(bench, request, patches),
    }
    for number in range(REPEATS + 1):  # the first round warms up
        for name, arm in arms.items():
            _, seconds = _clocked(arm)
            if number:
                rounds[name].append(seconds)
    pairs = zip(rounds["prefill"], rounds["reuse"], strict=True)
    medians = {name: statistics.median(seconds) for name, seconds in rounds.items()}
    return FirstToken(
        sum(chunk.num_tokens for chunk in chunks),
        prefill_s=medians["prefill"],
        vision_s=medians["vision"],
        reuse_s=medians["reuse"],
        form_s=form_s,
        speedup=statistics.median(prefill / reuse for prefill, reuse in pairs),
    )


def _clocked(call: Callable[[], Given]) -> tuple[Given, float]:
    clock = time.perf_counter()
    given = call()
    return given, time.perf_counter() - clock


def form_all(bench: Workbench, chunks: Sequence[Chunk], rank: int) -> list[Patch | None]:
    """A patch for every chunk behind the leading one."""
    behind = [form_patch(bench.delta(chunks, i), "timed", rank) for i in range(1, len(chunks))]
    return [None, *behind]


def reuse(bench: Workbench, request: ArmRequest, patches: Sequence[Patch | None]) -> Prefilled:
    """Relocate, patch, compose, and prefill the tail: what is timed."""
    placed, start = [], 0
    for chunk, patch in zip(request.cached, patches, strict=True):
        positions = chunk.layout.at(start)
        placed.append(apply(bench.canonical(chunk), patch, positions, bench.engine.spec))
        start += chunk.extent
    return bench.finish(request, concat(placed))
