"""Forming keeps out of the engine's steps, but never for long."""

import threading
import time

from connector_doubles import Engine, solo

from kamera.engines.vllm.quiet import Quiet


def waits(quiet: Quiet, since: float) -> threading.Thread:
    thread = threading.Thread(target=quiet.wait, args=(since,), daemon=True)
    thread.start()
    return thread


def test_nobody_waits_where_no_step_ever_ran() -> None:
    Quiet(pause_s=60.0, limit_s=60.0).wait(time.monotonic())


def test_a_step_holds_back_and_its_end_lets_go() -> None:
    quiet = Quiet(pause_s=0.001, limit_s=60.0)
    quiet.begin_step()
    thread = waits(quiet, time.monotonic())
    thread.join(0.05)
    assert thread.is_alive()
    quiet.end_step()
    thread.join(10)
    assert not thread.is_alive()


def test_the_pause_behind_a_step_is_kept() -> None:
    quiet = Quiet(pause_s=0.05, limit_s=60.0)
    quiet.begin_step()
    quiet.end_step()
    clock = time.monotonic()
    quiet.wait(clock)
    assert time.monotonic() - clock >= 0.04


def test_an_engine_that_never_rests_is_waited_for_up_to_the_limit_alone() -> None:
    quiet = Quiet(pause_s=60.0, limit_s=0.0)
    quiet.begin_step()
    quiet.wait(time.monotonic())
    waited_long = Quiet(pause_s=60.0, limit_s=5.0)
    waited_long.begin_step()
    waited_long.wait(time.monotonic() - 5.0)


def test_stop_lets_all_go_until_resume() -> None:
    quiet = Quiet(pause_s=60.0, limit_s=60.0)
    quiet.begin_step()
    thread = waits(quiet, time.monotonic())
    quiet.stop()
    thread.join(10)
    assert not thread.is_alive()
    quiet.wait(time.monotonic())
    quiet.resume()
    again = waits(quiet, time.monotonic())
    again.join(0.05)
    assert again.is_alive()
    quiet.stop()


def formed_in_a_step(fill: str) -> bool:
    """Whether the worker keeps a chunk while the engine's next step runs."""
    engine = Engine(fill=fill)
    engine.worker._quiet = Quiet(pause_s=60.0, limit_s=60.0)
    engine.step(solo("first", 1))
    engine.worker.begin_step()
    time.sleep(0.2)
    was_formed = len(engine.store.keys()) > 0
    engine.worker.settle()
    assert len(engine.store.keys()) > 0, "settling waits for nothing"
    return was_formed


def test_the_worker_forms_between_steps_unless_it_is_told_to_be_eager() -> None:
    assert not formed_in_a_step("idle")
    assert formed_in_a_step("eager")
