"""A report's commit is that of this project's checkout, and of no other."""

import subprocess
from pathlib import Path

import pytest

from kamera.lab.runs.commit import Commit, source_commit


def git(folder: Path, *args: str) -> str:
    names = ["-c", "user.name=a", "-c", "user.email=a@example.org", "-c", "commit.gpgsign=false"]
    done = subprocess.run(
        ["git", "-C", str(folder), *names, *args], check=True, capture_output=True, text=True
    )
    return done.stdout.strip()


@pytest.fixture
def checkout(tmp_path: Path) -> Path:
    for place in ("src/kamera", "elsewhere"):
        (tmp_path / place).mkdir(parents=True)
        (tmp_path / place / "a.py").write_text("a = 1\n")
    git(tmp_path, "init", "-q")
    git(tmp_path, "add", ".")
    git(tmp_path, "commit", "-q", "-m", "one")
    return tmp_path


def test_a_clean_checkout_has_its_commit(checkout: Path) -> None:
    head = git(checkout, "rev-parse", "HEAD")
    assert source_commit(checkout / "src" / "kamera") == Commit(head, False)


def test_a_change_of_the_package_is_said_and_one_elsewhere_is_not(checkout: Path) -> None:
    (checkout / "elsewhere" / "a.py").write_text("a = 2\n")
    assert source_commit(checkout / "src" / "kamera").changed is False
    (checkout / "src" / "kamera" / "a.py").write_text("a = 2\n")
    assert source_commit(checkout / "src" / "kamera").changed is True


def test_a_package_elsewhere_in_a_checkout_is_not_of_its_commit(checkout: Path) -> None:
    assert source_commit(checkout / "elsewhere") == Commit(None, None)


def test_outside_of_git_there_is_none(tmp_path: Path) -> None:
    assert source_commit(tmp_path / "nowhere") == Commit(None, None)
