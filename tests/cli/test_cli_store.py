"""`kamera store`: what it prints and does, and its exit codes."""

import json
from pathlib import Path
from typing import Any

import pytest
import torch
from typer.testing import CliRunner, Result

from kamera.cli.app import app
from kamera.store import DiskStore, Entry, EntryKey

MODEL = "a" * 64


def run(*args: str | Path) -> Result:
    return CliRunner().invoke(app, ["store", *map(str, args)], env={"COLUMNS": "160"})


def told(*args: str | Path) -> dict[str, Any]:
    result = run(*args, "--json")
    assert result.exit_code in (0, 1), result.output
    report: dict[str, Any] = json.loads(result.stdout)
    return report


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """Three canonicals and a patch; the first canonical was used last."""
    place = tmp_path / "store"
    with DiskStore(place, 1 << 20) as store:
        for kind, name in (("canonical", 1), ("canonical", 2), ("canonical", 3), ("patch", 4)):
            key = EntryKey(kind, f"{name:064x}")
            assert store.put(Entry(key, MODEL, None, {"k": torch.zeros(1000)}, {}))
        assert store.get(EntryKey("canonical", f"{1:064x}"), model=MODEL, tenant=None)
    return place


def path_of(folder: Path, name: int) -> Path:
    return folder / "entries" / "00" / f"canonical-{name:064x}.safetensors"


def test_ls_tells_kinds_sizes_and_what_was_used_last(folder: Path) -> None:
    report = told("ls", folder, "--limit", "2")
    num_bytes = path_of(folder, 1).stat().st_size
    assert report["entries"] == 4
    assert report["kinds"]["canonical"] == {"entries": 3, "bytes": 3 * num_bytes}
    assert report["bytes"] == 3 * num_bytes + report["kinds"]["patch"]["bytes"]
    last = [(entry["kind"], int(entry["digest"], 16)) for entry in report["last_used"]]
    assert last == [("canonical", 1), ("patch", 4)]
    shown = run("ls", folder)
    assert shown.exit_code == 0
    assert f"canonical-{1:064x}" in shown.stdout
    assert f"{3 * num_bytes:,}" in shown.stdout
    assert "put aside" not in shown.stdout


def test_verify_tells_what_is_damaged_and_changes_nothing(folder: Path) -> None:
    assert run("verify", folder).exit_code == 0
    path = path_of(folder, 2)
    data = bytearray(path.read_bytes())
    data[-1] ^= 1
    path.write_bytes(data)
    result = run("verify", folder)
    assert result.exit_code == 1
    assert f"{path.name}: corrupt" in result.stdout
    assert "4 entries checked, 1 of them not whole" in result.stdout
    report = told("verify", folder)
    assert [problem["name"] for problem in report["problems"]] == [path.name]
    assert path.exists()


def test_gc_lets_the_least_recently_used_leave(folder: Path) -> None:
    num_bytes = path_of(folder, 1).stat().st_size
    report = told("gc", folder, "--max-bytes", str(2 * num_bytes + 100))
    assert (report["evicted"], report["entries"]) == (2, 2)
    assert report["bytes"] <= 2 * num_bytes + 100
    assert path_of(folder, 1).exists()
    assert not path_of(folder, 2).exists()
    assert told("gc", folder)["evicted"] == 0


def test_gc_empties_the_quarantine_when_it_is_asked_to(folder: Path) -> None:
    path_of(folder, 2).write_bytes(b"bad")
    with DiskStore(folder, 1 << 20) as store:
        assert not store.get(EntryKey("canonical", f"{2:064x}"), model=MODEL, tenant=None)
    assert told("ls", folder)["quarantined"] == 1
    assert told("gc", folder)["quarantined_removed"] == 0
    assert "1 files that were put aside" in run("gc", folder, "--empty-quarantine").stdout
    assert told("ls", folder)["quarantined"] == 0


@pytest.mark.parametrize("command", ["ls", "verify", "gc"])
def test_a_folder_that_is_no_store_is_refused_and_left_alone(command: str, tmp_path: Path) -> None:
    result = run(command, tmp_path)
    assert result.exit_code == 2
    assert "isn't a Kamera store" in result.stderr
    assert list(tmp_path.iterdir()) == []
