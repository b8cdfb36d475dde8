"""The README's figures are those of docs/demo.json, which `nox -s demo_table` takes from a demo's report."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def demo_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("demo_table", ROOT / "docs" / "demo_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_readme_shows_the_figures_that_were_kept() -> None:
    figures = json.loads((ROOT / "docs" / "demo.json").read_text(encoding="utf-8"))
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    assert demo_table().readme(text, figures) == text
    assert "| `binding` |" in text
