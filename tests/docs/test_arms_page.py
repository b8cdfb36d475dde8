"""docs/arms.md has a row for every arm, and none for one that isn't there."""

from pathlib import Path

from kamera.arms import ROWS

PAGE = Path(__file__).parents[2] / "docs" / "arms.md"


def test_every_arm_has_a_row() -> None:
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    named = [line.split("`")[1] for line in lines if line.startswith("| `")]
    assert sorted(named) == sorted([*(row.name for row in ROWS), "kamera"])
