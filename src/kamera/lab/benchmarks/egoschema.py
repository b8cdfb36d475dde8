"""EgoSchema: what a person does in three minutes of egocentric video (Mangalam et al., 2023)."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import ClassVar

from kamera.errors import ConfigError
from kamera.lab.benchmarks.contract import LETTER, Benchmark, BenchmarkItem, letters, with_choices
from kamera.lab.benchmarks.media import Film
from kamera.lab.benchmarks.rows import Row, matching, parquet_rows
from kamera.lab.benchmarks.scoring import choice_score
from kamera.lab.benchmarks.video_mme import without_letter


@dataclass(frozen=True)
class EgoSchema(Benchmark):
    """`Subset/test-*.parquet` (the 500 questions whose answers are public) and `videos/{video_idx}.mp4`."""

    name: ClassVar[str] = "egoschema"
    metric: ClassVar[str] = "accuracy of the choice"

    folder: Path
    num_frames: int = 8

    def items(self) -> Iterator[BenchmarkItem]:
        """Row by row."""
        for row in parquet_rows(matching(self.folder, "Subset/test-*.parquet")):
            yield self._item(row)

    def score(self, item: BenchmarkItem, response: str) -> float:
        """The right choice."""
        return choice_score(item, response)

    def _item(self, row: Row) -> BenchmarkItem:
        choices = tuple(without_letter(choice) for choice in row.texts("option"))
        if row.get("answer") is None:
            raise ConfigError(
                f"{row.place}: no answer: expected the rows of `Subset`, which have one"
            )
        answer = row.text("answer")
        if answer not in map(str, range(len(choices))):
            raise row.wrong("answer", f"a choice's index below {len(choices)}", answer)
        video = row.text("video_idx")
        upper = self.folder / "videos" / f"{video}.MP4"
        name = upper.name if upper.exists() else f"{video}.mp4"
        return BenchmarkItem(
            id=row.text("question_idx") if "question_idx" in row.data else video,
            category="all",
            parts=(Film(row.file(self.folder / "videos", name), self.num_frames),),
            question=with_choices(row.text("question"), choices),
            choices=choices,
            answers=(letters(len(choices))[int(answer)],),
            instruction=LETTER,
        )
