"""The disk store's folder is closed to others."""

import stat
from pathlib import Path

import pytest
from store_folder import CAP, MakeEntry

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


def test_a_file_in_place_of_the_folder_is_refused(folder: Path) -> None:
    folder.touch()
    with pytest.raises(ConfigError, match="can't be used"):
        DiskStore(folder, CAP)
