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
    assert "None of these is served" in result.stdout
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
    assert "removed of what was put aside: 1" in run("gc", folder, "--empty-quarantine").stdout
    assert told("ls", folder)["quarantined"] == 0


def make_newer(path: Path) -> None:
    path.write_bytes(path.read_bytes().replace(b'"format_version":"2"', b'"format_version":"9"'))


def test_entries_of_a_newer_format_are_told_and_stay_until_they_are_let_go(folder: Path) -> None:
    path = path_of(folder, 2)
    make_newer(path)
    shown = run("ls", folder).stdout
    assert f"canonical-{2:064x}  of a newer format version" in shown
    assert shown.count("newer") == 1
    newer = {int(e["digest"], 16): e["newer"] for e in told("ls", folder)["last_used"]}
    assert newer == {1: False, 2: True, 3: False, 4: False}

    result = run("verify", folder)
    assert result.exit_code == 0
    assert f"{path.name}: newer: the file is of format version 9" in result.stdout
    assert "3 entries checked, all whole" in result.stdout
    assert "1 entry more: of a newer format version" in result.stdout
    report = told("verify", folder)
    assert [problem["name"] for problem in report["newer"]] == [path.name]
    assert report["problems"] == []

    result = run("gc", folder, "--max-bytes", "1")
    assert "3 entries removed" in result.stdout
    assert "1 of a newer format version (--newer lets them leave)" in result.stdout
    assert path.exists()
    assert told("gc", folder, "--max-bytes", "1")["newer_spared"] == 1
    report = told("gc", folder, "--max-bytes", "1", "--newer")
    assert (report["evicted"], report["entries"], report["newer_spared"]) == (1, 0, 0)
    assert not path.exists()


def test_verify_changes_nothing_where_the_index_is_lost(folder: Path) -> None:
    """Making a new one would put the damaged file aside, and it would go unsaid."""
    for part in folder.glob("index.sqlite*"):
        part.unlink()
    path_of(folder, 2).write_bytes(b"bad")
    before = sorted(folder.rglob("*"))
    result = run("verify", folder)
    assert result.exit_code == 1
    assert f"{path_of(folder, 2).name}: truncated" in result.stdout
    assert "4 entries checked, 1 of them not whole" in result.stdout
    assert sorted(folder.rglob("*")) == before


def test_entries_whose_files_are_gone_are_told_and_forgotten(folder: Path) -> None:
    num_bytes = path_of(folder, 1).stat().st_size
    path_of(folder, 2).unlink()
    report = told("ls", folder)
    assert (report["entries"], report["missing"]) == (3, 1)
    assert report["kinds"]["canonical"] == {"entries": 2, "bytes": 2 * num_bytes}
    assert "1 entry more: listed, the file gone" in run("ls", folder).stdout
    result = run("gc", folder)
    assert "0 entries removed, 0 bytes freed; 3 entries" in result.stdout
    assert "1 entry forgotten" in result.stdout
    assert told("ls", folder)["missing"] == 0


def test_gc_says_what_is_pinned_when_it_frees_too_little(folder: Path) -> None:
    with (
        DiskStore(folder, 1 << 20) as store,
        store.pin(EntryKey("canonical", f"{3:064x}")),
    ):
        result = run("gc", folder, "--max-bytes", "1")
    assert "3 entries removed" in result.stdout
    assert "more than asked for stay: 1 entry pinned" in result.stdout
    assert path_of(folder, 3).exists()


def test_gc_removes_folders_from_the_quarantine_too(folder: Path) -> None:
    inside = folder / "quarantine" / "canonical.unreadable.1" / "inside"
    inside.mkdir(parents=True)
    (inside / "data").write_bytes(b"x")
    assert told("ls", folder)["quarantined"] == 1
    report = told("gc", folder, "--empty-quarantine")
    assert (report["quarantined_removed"], report["quarantined"]) == (1, 0)
    assert list((folder / "quarantine").iterdir()) == []


def test_ls_takes_no_negative_limit(folder: Path) -> None:
    assert run("ls", folder, "--limit", "-1").exit_code == 2
    assert told("ls", folder, "--limit", "0")["last_used"] == []


@pytest.mark.parametrize("command", ["ls", "verify", "gc"])
def test_a_folder_with_entries_of_another_kind_is_left_alone(command: str, tmp_path: Path) -> None:
    (tmp_path / "entries" / "2026").mkdir(parents=True)
    (tmp_path / "entries" / "2026" / "monday.txt").touch()
    tmp_path.chmod(0o755)
    before = sorted(tmp_path.rglob("*"))
    result = run(command, tmp_path)
    assert result.exit_code == 2
    assert "isn't a Kamera store" in result.stderr
    assert sorted(tmp_path.rglob("*")) == before
    assert tmp_path.stat().st_mode & 0o777 == 0o755


def test_a_file_in_a_stores_place_is_called_one(tmp_path: Path) -> None:
    (tmp_path / "notes").touch()
    assert "got a file" in run("ls", tmp_path / "notes").stderr
    assert "got no such folder" in run("ls", tmp_path / "nowhere").stderr


@pytest.mark.parametrize("command", ["ls", "verify", "gc"])
def test_a_name_that_can_be_no_folders_is_one_line(command: str) -> None:
    result = run(command, "x" * 300)
    assert result.exit_code == 2
    assert "File name too long" in result.stderr
    assert result.stderr.count("\n") == 1


@pytest.mark.parametrize("command", ["ls", "verify", "gc"])
def test_a_folder_that_is_no_store_is_refused_and_left_alone(command: str, tmp_path: Path) -> None:
    result = run(command, tmp_path)
    assert result.exit_code == 2
    assert "isn't a Kamera store" in result.stderr
    assert list(tmp_path.iterdir()) == []
