"""The disk store's folder is closed to others."""

import shutil
import stat
from pathlib import Path

import pytest
from store_folder import CAP, MakeEntry, hit

from kamera.errors import ConfigError
from kamera.store import (
    DiskStore,
)


def test_folder_and_files_are_closed_to_others(folder: Path, make_entry: MakeEntry) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
        files = [path for path in folder.rglob("*") if path.is_file()]
        assert len(files) > 3
        assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o600}


def test_a_loose_folder_is_closed_if_it_is_ours(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    DiskStore(folder, CAP).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    folder.chmod(0o750)
    DiskStore(folder, CAP).close()
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_loose_folder_of_somebody_elses_is_refused(folder: Path) -> None:
    folder.mkdir(mode=0o755)
    (folder / "thesis.txt").touch()
    with pytest.raises(ConfigError, match="isn't a Kamera store"):
        DiskStore(folder, CAP)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755


@pytest.mark.parametrize("inside", ["entries", "entries/2026"])
def test_a_loose_folder_with_entries_of_another_kind_is_refused(folder: Path, inside: str) -> None:
    (folder / inside).mkdir(parents=True)
    (folder / inside / "monday.txt").touch()
    folder.chmod(0o755)
    with pytest.raises(ConfigError, match="isn't a Kamera store"):
        DiskStore(folder, CAP)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o755
    assert [path.name for path in folder.iterdir()] == ["entries"]


def test_a_loose_copy_of_a_stores_entries_is_closed_and_served(
    folder: Path, make_entry: MakeEntry
) -> None:
    with DiskStore(folder, CAP) as store:
        store.put(make_entry())
    for path in folder.iterdir():
        if path.name != "entries":
            shutil.rmtree(path) if path.is_dir() else path.unlink()
    folder.chmod(0o755)
    with DiskStore(folder, CAP) as store:
        hit(store, make_entry().key)
    assert stat.S_IMODE(folder.stat().st_mode) == 0o700


def test_a_file_in_place_of_the_folder_is_refused(folder: Path) -> None:
    folder.touch()
    with pytest.raises(ConfigError, match="can't be used"):
        DiskStore(folder, CAP)
