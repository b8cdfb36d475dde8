"""`Settings`: what is the same for every model of a run."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path


@dataclass(frozen=True)
class Settings:
    """What is the same for every model.

    Attributes:
        num_items: of a task's test split; probes take a quarter of them.
        seed: which are drawn.
        dtype, device: as `HFEngine.from_pretrained`.
        threads: of torch, in each process.
        text_model: a language model's checkpoint folder, for the control without media.
    """

    num_items: int
    seed: int = 0
    dtype: str = "auto"
    device: str = "cpu"
    threads: int = 1
    text_model: Path | None = None
