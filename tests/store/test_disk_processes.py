"""Several stores and processes on one folder."""

import subprocess
import sys
from pathlib import Path

import torch
from store_folder import CAP, LARGE, MODEL, MakeEntry, hit, miss, program, run_script

from kamera.store import (
    DiskStore,
    MissReason,
)


def test_another_stores_pin_holds_until_it_closes(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as one, DiskStore(folder, CAP) as two:
        first = make_entry(0, LARGE)
        one.put(first)
        with two.pin(first.key) as present:
            assert present
            for name in range(1, 6):
                assert one.put(make_entry(name, LARGE))
            assert not one.delete(first.key)
            hit(one, first.key)
        for name in range(1, 6):
            assert one.put(make_entry(name, LARGE))
        assert miss(one, first.key) is MissReason.EVICTED
        assert miss(two, first.key) is MissReason.EVICTED


def test_a_second_process_writes_and_the_first_reads(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        run_script("assert store.put(make(1)); store.close()", folder)
        assert torch.equal(hit(store, make_entry(1).key).tensors["k"], make_entry(1).tensors["k"])
        assert store.keys() == [make_entry(1).key]


def test_the_pin_of_a_process_that_died_holds_nobody_up(
    folder: Path, make_entry: MakeEntry
) -> None:
    body = "store.put(make(0, 25000)); pin = store.pin(make(0).key); pin.__enter__(); os._exit(9)"
    run_script(body, folder, code=9)
    with DiskStore(folder, CAP) as store:
        assert store.stats().num_pinned == 1
        for name in range(1, 5):
            assert store.put(make_entry(name, LARGE))
        assert miss(store, make_entry(0).key) is MissReason.EVICTED
        assert store.stats().num_pinned == 0


def test_two_processes_may_write_one_folder_at_once(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        script = "for i in range(30): assert store.put(make(i % 5, 25000))\nstore.close()"
        command = [sys.executable, "-c", program(script), str(folder)]
        with subprocess.Popen(command, stderr=subprocess.PIPE, text=True) as other:
            while other.poll() is None:
                for name in range(5):
                    store.put(make_entry(name, LARGE))
                    store.get(make_entry(name).key, model=MODEL, tenant="acme")
            assert other.stderr is not None
            assert other.returncode == 0, other.stderr.read()
        store.check_integrity()
        assert store.verify().ok
        assert store.stats().num_bytes <= CAP
        misses = store.stats().misses
        assert misses[MissReason.CORRUPT] == misses[MissReason.TRUNCATED] == 0
