"""Small folders of the shapes that the benchmarks are published in, written by the tests themselves."""

import io
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image

RED, GREEN, BLUE = (200, 20, 20), (20, 160, 20), (20, 20, 200)
Color = tuple[int, int, int]


def picture(color: Color) -> Image.Image:
    return Image.new("RGB", (56, 56), color)


def png(image: Image.Image) -> dict[str, Any]:
    """As parquet files hold an image."""
    buffer = io.BytesIO()
    image.save(buffer, "PNG")
    return {"bytes": buffer.getvalue(), "path": "image.png"}


def save_picture(path: Path, color: Color) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    picture(color).save(path)


def write_lines(path: Path, rows: Sequence[Any]) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")


def write_json(path: Path, value: Any) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_text(json.dumps(value), encoding="utf-8")


def write_parquet(path: Path, rows: Sequence[Mapping[str, Any]]) -> None:
    pyarrow = pytest.importorskip("pyarrow", reason="pyarrow (extra lab) isn't installed")
    parquet = pytest.importorskip("pyarrow.parquet", reason="pyarrow (extra lab) isn't installed")
    path.parent.mkdir(parents=True, exist_ok=True)
    parquet.write_table(pyarrow.Table.from_pylist([dict(row) for row in rows]), path)


def write_film(path: Path, colors: Sequence[Color], *, fps: int = 4) -> None:
    pytest.importorskip("av", reason="PyAV (extra lab) isn't installed")
    iio = pytest.importorskip("imageio.v3", reason="imageio (extra lab) isn't installed")
    path.parent.mkdir(parents=True, exist_ok=True)
    frames = np.stack([np.array(picture(color)) for color in colors])
    iio.imwrite(path, frames, plugin="pyav", codec="libx264", fps=fps)


def color_of(image: Image.Image) -> str:
    """Which channel is the strongest: lossy codecs keep that."""
    means = np.array(image.convert("RGB")).reshape(-1, 3).mean(0)
    return ("red", "green", "blue")[int(means.argmax())]
