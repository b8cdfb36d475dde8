"""The compiled kernel on many threads: torch's OpenMP team, or our own where that can't be called."""

import ctypes
import os
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest
import torch
from placements import ROPES, bits, chunk, dense, pages, patch, positions

from kamera.kernels import Placement, kernel

pytest.importorskip("numba", reason="needs the extra fast")

from kamera.kernels import compiled, loops, team


def placement(num_tokens, rope="head of 80", rank=5, dtype=torch.bfloat16):
    kv = chunk(num_tokens, ROPES[rope], dtype)
    where = positions(num_tokens, ROPES[rope])
    return Placement(kv, patch(kv, rank), where, ROPES[rope])


def written(one, dtype=torch.bfloat16):
    out = dense(one, dtype)
    kernel("numba").write(one, out)
    return out


@pytest.fixture(params=["team", "own"])
def threads(request, monkeypatch):
    """Set the number of threads; says how many took part in each call: as many as there can be."""
    if request.param == "own":
        monkeypatch.setattr(compiled, "parallel_address", lambda: 0)
    elif not team.parallel_address():
        pytest.skip("torch uses another runtime here")
    took_part = []
    write = loops.write

    def set_number(number):
        there = min(number, 1 + (os.cpu_count() or 1)) if request.param == "own" else 1
        all_in, come = threading.Event(), []

        def counted(*arguments):
            come.append(1)
            if len(come) >= there:
                all_in.set()
            all_in.wait(10)
            write(*arguments)
            counters = arguments[-2][0]
            took_part.append(ctypes.c_int64.from_address(counters + 8).value)

        monkeypatch.setattr(compiled, "_threads", lambda _: number)
        monkeypatch.setattr(compiled.loops, "write", counted)
        return took_part, there if request.param == "own" else number

    return set_number


@pytest.mark.parametrize("number", [2, 3, 16])
@pytest.mark.parametrize("num_tokens", [1, 3, 37, 130])
def test_many_threads_give_the_bits_of_one(threads, number, num_tokens):
    one = placement(num_tokens)
    alone = written(one)
    took_part, expected = threads(number)
    together = written(one)
    assert expected <= max(took_part) <= number
    for name in alone:
        assert torch.equal(bits(alone[name]), bits(together[name]))


def test_pages_are_written_by_many_threads(threads):
    one = placement(61)
    alone, together = (pages(one, "slots, heads", torch.bfloat16) for _ in range(2))
    kernel("numba").write(one, alone)
    threads(3)
    kernel("numba").write(one, together)
    for name in alone:
        for a, b in zip(alone[name].layers, together[name].layers, strict=True):
            assert torch.equal(bits(a), bits(b))


def test_torchs_own_team_is_found_where_it_runs():
    """Else the kernel would fall back to slower threads in silence."""
    torch.ones(1 << 20).add_(1)
    maps = Path("/proc/self/maps")
    if not maps.exists() or "libgomp" not in maps.read_text():
        pytest.skip("torch uses another runtime here")
    assert team.parallel_address()


def test_two_callers_at_once_do_not_meet(threads):
    threads(2)
    wanted = {n: written(placement(n)) for n in (33, 64)}
    failed = []

    def again(n):
        for _ in range(20):
            out = written(placement(n))
            if any(not torch.equal(bits(out[name]), bits(wanted[n][name])) for name in out):
                failed.append(n)

    callers = [threading.Thread(target=again, args=(n,)) for n in wanted]
    for caller in callers:
        caller.start()
    for caller in callers:
        caller.join()
    assert not failed


@pytest.fixture
def slow_share(monkeypatch):
    """A share of 0.2 s in each of two workers, which the main thread sees begin; says how many ended."""
    inside, done = threading.Barrier(3), []

    def slow(*_):
        inside.wait(10)
        if threading.current_thread() is not threading.main_thread():
            time.sleep(0.2)
            done.append(1)

    monkeypatch.setattr(compiled, "_threads", lambda _: 3)
    monkeypatch.setattr(compiled, "parallel_address", lambda: 0)
    monkeypatch.setattr(compiled.loops, "write", slow)
    return done


def test_an_interrupt_waits_for_the_threads_that_still_write(slow_share):
    """It comes while the caller waits for them: they must not outlive the call."""
    timer = threading.Timer(0.1, signal.raise_signal, [signal.SIGINT])
    timer.start()
    with pytest.raises(KeyboardInterrupt):
        written(placement(48))
    assert len(slow_share) == 2
    timer.join()


def test_an_error_in_a_thread_is_the_callers(monkeypatch):
    inside = threading.Barrier(2)

    def failing(*_):
        inside.wait(10)
        if threading.current_thread() is not threading.main_thread():
            raise MemoryError("no room")

    monkeypatch.setattr(compiled, "_threads", lambda _: 2)
    monkeypatch.setattr(compiled, "parallel_address", lambda: 0)
    monkeypatch.setattr(compiled.loops, "write", failing)
    with pytest.raises(MemoryError, match="no room"):
        written(placement(48))


def test_a_thread_that_comes_late_finds_the_work_over():
    """Busy threads don't hold a caller up, and touch nothing of it afterwards."""
    called = []
    one = team._Round(lambda: called.append(1))
    one.join()
    one.end()
    one.join()
    assert called == [1]


def test_no_thread_to_be_had_leaves_the_caller_to_do_it_alone(monkeypatch):
    one = placement(48)
    wanted = written(one)

    def none_more(*_):
        raise RuntimeError("can't start new thread")

    team._workers.cache_clear()

    monkeypatch.setattr(compiled, "_threads", lambda _: 3)
    monkeypatch.setattr(compiled, "parallel_address", lambda: 0)
    monkeypatch.setattr(threading.Thread, "start", none_more)
    got = written(one)
    team._workers.cache_clear()
    assert all(torch.equal(bits(got[name]), bits(wanted[name])) for name in wanted)


FORK = """
import os, torch
from placements import ROPES, chunk, dense, patch, positions
from kamera.kernels import Placement, compiled, kernel, team
compiled._threads = lambda _: 2
kv = chunk(64, ROPES["head of 80"], torch.bfloat16)
one = Placement(kv, patch(kv, 5), positions(64, ROPES["head of 80"]), ROPES["head of 80"])
def written():
    out = dense(one)
    kernel("numba").write(one, out)
    return out
before = written()
child = os.fork()
if not child:
    out = written()
    same = all(torch.equal(out[name], before[name]) for name in out)
    os._exit(0 if same and team.parallel_address() == 0 else 1)
print(os.waitpid(child, 0)[1])
"""


def test_a_fork_has_no_team_and_does_not_wait_for_one():
    """The parent's threads aren't there: a call of its team would never come back."""
    done = subprocess.run(
        [sys.executable, "-c", FORK],
        env={**os.environ, "PYTHONPATH": os.path.dirname(__file__)},
        capture_output=True, text=True, check=False, timeout=120,
    )  # fmt: skip
    assert done.stdout.strip() == "0", done.stderr
