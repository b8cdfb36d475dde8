"""The tables of docs/vllm.md are those of docs/vllm.json."""

import importlib.util
import json
from pathlib import Path
from types import ModuleType

ROOT = Path(__file__).parents[2]


def vllm_table() -> ModuleType:
    spec = importlib.util.spec_from_file_location("vllm_table", ROOT / "docs" / "vllm_table.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def test_the_page_shows_the_figures_that_were_kept() -> None:
    figures = json.loads((ROOT / "docs" / "vllm.json").read_text(encoding="utf-8"))
    text = (ROOT / "docs" / "vllm.md").read_text(encoding="utf-8")
    assert vllm_table().page(text, figures) == text
    assert "| `nano-gqa` |" in text


def test_the_table_of_times_says_what_the_patches_kept() -> None:
    """A run of before there were profiles doesn't say it: it had the default of that time."""
    figures = json.loads((ROOT / "docs" / "vllm.json").read_text(encoding="utf-8"))
    [(model, ttft)] = figures["ttft"].items()
    for patch, words in (("bytes 6%, int8", "bytes 6%, int8"), (None, "rank 16, float32, the")):
        got = {key: value for key, value in ttft.items() if key != "patch"}
        got |= {"patch": patch} if patch else {}
        text = vllm_table().section({**figures, "ttft": {model: got}})
        assert f"Kamera's patches: {words}" in text


def test_nothing_that_was_measured_is_wrong() -> None:
    figures = json.loads((ROOT / "docs" / "vllm.json").read_text(encoding="utf-8"))
    loads = [*figures["pressure"].values(), *figures["replay"].values()]
    assert [got["wrong_answers"] for got in loads] == [0] * len(loads)
    assert all(got["vision_tower_runs"] == 0 for got in figures["restart"].values())
