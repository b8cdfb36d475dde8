"""The compiled kernel on many threads: torch's OpenMP team, or our own where that can't be called."""

import ctypes
import os
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
    """Set the number of threads; says how many took part in each call."""
    if request.param == "own":
        monkeypatch.setattr(compiled, "fork_address", lambda: 0)
    elif not team.fork_address():
        pytest.skip("torch uses another runtime here")
    took_part = []
    write = loops.write

    def counted(*arguments):
        write(*arguments)
        counters = arguments[-2][0]
        took_part.append(ctypes.c_int64.from_address(counters + 8).value)

    def set_number(number):
        monkeypatch.setattr(compiled, "_threads", lambda _: number)
        monkeypatch.setattr(compiled.loops, "write", counted)
        return took_part

    return set_number


@pytest.mark.parametrize("number", [2, 3, 16])
@pytest.mark.parametrize("num_tokens", [1, 3, 37, 130])
def test_many_threads_give_the_bits_of_one(threads, number, num_tokens):
    one = placement(num_tokens)
    alone = written(one)
    took_part = threads(number)
    together = written(one)
    assert max(took_part) == number
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
    assert team.fork_address()


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


def test_an_interrupt_waits_for_the_threads_that_still_write(monkeypatch):
    done = []

    def slow(*_):
        if threading.current_thread() is threading.main_thread():
            raise KeyboardInterrupt
        time.sleep(0.1)
        done.append(1)

    monkeypatch.setattr(compiled, "_threads", lambda _: 3)
    monkeypatch.setattr(compiled, "fork_address", lambda: 0)
    monkeypatch.setattr(compiled.loops, "write", slow)
    with pytest.raises(KeyboardInterrupt):
        written(placement(48))
    assert len(done) == 2


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
    os._exit(0 if same and team.fork_address() == 0 else 1)
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
