"""docs/support.md shows what the rows decide, each model type once."""

import importlib.util
import json
import re
from pathlib import Path
from types import ModuleType

import kamera
from kamera.support import FAMILIES, SERVED, examine

ROOT = Path(__file__).parents[2]
TEXT = (ROOT / "docs" / "support.md").read_text(encoding="utf-8")


def support_matrix() -> ModuleType:
    path = ROOT / "docs" / "support_matrix.py"
    spec = importlib.util.spec_from_file_location("support_matrix", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def tables() -> dict[str, list[str]]:
    """Heading -> the model types in the first cells of its rows."""
    found: dict[str, list[str]] = {}
    for part in re.split(r"^### ", TEXT, flags=re.MULTILINE)[1:]:
        title, _, body = part.partition("\n")
        cells = [line.split("|")[1] for line in body.splitlines() if line.startswith("| `")]
        found[title] = [name for cell in cells for name in re.findall(r"`([^`]+)`", cell)]
    return found


def test_the_page_is_what_the_rows_decide() -> None:
    assert support_matrix().page(TEXT) == TEXT, "run: nox -s support_matrix"


def test_every_model_type_stands_in_one_table() -> None:
    listed = [name for names in tables().values() for name in names]
    assert sorted(listed) == sorted(FAMILIES)


def test_the_supported_are_the_served_ones() -> None:
    assert tables()["Supported"] == list(SERVED)


def test_what_cannot_be_served_is_so_by_its_own_config() -> None:
    for kind in tables()["Can't be served"]:
        reasons = examine({"model_type": kind, **FAMILIES[kind].sample}).reasons
        assert "cannot" in [reason.kind for reason in reasons]


def test_every_row_says_what_it_was_tested_on() -> None:
    rows = [line for line in TEXT.splitlines() if line.startswith("| `")][: len(SERVED)]
    for row, family in zip(rows, SERVED.values(), strict=True):
        assert f"| {family.tested}" in row


def test_every_packaged_model_stands_in_its_family_s_row() -> None:
    for name in kamera.packaged_models():
        kind = json.loads((kamera.packaged_model(name) / "config.json").read_text())["model_type"]
        (row,) = [line for line in TEXT.splitlines() if line.startswith(f"| `{kind}` |")]
        assert f"the trained {name}" in row
