"""One window by every arm, through the one contract."""

from __future__ import annotations

import time
from collections.abc import Sequence

from kamera.arms import Arm, ArmRequest, Blind, Kamera, PrefixCache, Reprefill, Workbench
from kamera.engines.contract import Engine
from kamera.errors import KameraError
from kamera.lab.metrics import kl
from kamera.lab.replay.report import ArmStep, Preparation
from kamera.session import Session, SessionSettings
from kamera.store import MemoryStore

WARM_UP_BYTES = 1 << 30


def make_arms(session: Session) -> tuple[Arm, ...]:
    """The arms in the order in which they are served: the reference first. They share the engine."""
    engine = session.engine
    return (Reprefill(engine), PrefixCache(engine), Blind(Workbench(engine)), Kamera(session))


def warm_up(engine: Engine, request: ArmRequest, rank: int | None) -> None:
    """Serve the largest window with arms that are thrown away, formed and held, so that none pays for it.

    The measured arms, and the store, see none of it.
    """
    session = Session(engine, MemoryStore(WARM_UP_BYTES), SessionSettings(rank=rank))
    with session:
        arms = make_arms(session)
        for _ in range(2):
            for arm in arms:
                arm.serve(request)


def serve(arms: Sequence[Arm], request: ArmRequest) -> dict[str, ArmStep]:
    """Every arm's answer to one window, judged by the first arm's."""
    done: dict[str, ArmStep] = {}
    reference = None
    for arm in arms:
        served = arm.serve(request)
        if not bool(served.logits.isfinite().all()):
            raise KameraError(
                f"The arm {arm.name!r} gave logits that aren't finite: expected numbers. "
                "Check the checkpoint's weights and its dtype"
            )
        reference = served.logits if reference is None else reference
        answer = int(served.logits.argmax())
        done[arm.name] = ArmStep(
            served.num_prefilled,
            served.num_formed,
            served.num_vision_runs,
            served.ttft_s,
            kl(served.logits, reference),
            answer,
            answer == int(reference.argmax()),
            served.lanes,
        )
    return done


def prepare(session: Session, window: ArmRequest) -> Preparation:
    """Form the orbit patches of the window that the session holds, off the path, and count them.

    Every ordering is one forward over the whole window.
    """
    clock = time.perf_counter()
    num_orderings = session.prepare_reorders()
    form_s = time.perf_counter() - clock
    num_tokens = sum(chunk.num_tokens for chunk in window.cached)
    return Preparation(num_orderings, num_orderings * num_tokens, form_s)
