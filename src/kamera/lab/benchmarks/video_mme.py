"""Video-MME: choices about videos of seconds to an hour (Fu et al., 2024)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kamera.lab.benchmarks.contract import LETTER, Benchmark, BenchmarkItem, letters
from kamera.lab.benchmarks.media import Film
from kamera.lab.benchmarks.rows import Row, matching, parquet_rows
from kamera.lab.benchmarks.scoring import choice_score


@dataclass(frozen=True)
class VideoMME(Benchmark):
    """`videomme/test-*.parquet` and `data/{videoID}.mp4`."""

    name: ClassVar[str] = "video-mme"
    metric: ClassVar[str] = "accuracy of the letter, without subtitles"

    folder: Path
    num_frames: int = 8

    def items(self) -> Iterator[BenchmarkItem]:
        """Row by row."""
        for row in parquet_rows(matching(self.folder, "videomme/test-*.parquet", "*.parquet")):
            yield self._item(row)

    def score(self, item: BenchmarkItem, response: str) -> float:
        """The right letter."""
        return choice_score(item, response)

    def _item(self, row: Row) -> BenchmarkItem:
        choices, video = row.texts("options"), row.text("videoID")
        if row.text("answer") not in letters(len(choices)):
            raise row.wrong("answer", f"one of {letters(len(choices))}", row.get("answer"))
        path = row.file(self.folder / "data", f"{video}.mp4")
        name = row.text("question_id") if "question_id" in row.data else f"{video} {row.place}"
        return BenchmarkItem(
            id=name,
            category=row.text("duration"),
            parts=(Film(path, self.num_frames),),
            question="\n".join([row.text("question"), *choices]),
            choices=tuple(without_letter(choice) for choice in choices),
            answers=(row.text("answer"),),
            instruction=LETTER,
        )


def without_letter(choice: str) -> str:
    """`A. a red cup` -> `a red cup`."""
    return choice[2:].strip() if choice[1:2] == "." else choice.strip()
