"""docs/vllm.md names every setting, counter and policy, and invents none."""

import ast
import dataclasses
import re
from pathlib import Path
from typing import Any

import pytest
from fill_doubles import Recorder, companion

import kamera
from kamera.engines.vllm.fill import ENDPOINT_PLUGIN, MIDDLEWARE
from kamera.engines.vllm.settings import FILLS, ConnectorSettings
from kamera.errors import ConfigError

PAGE = (Path(__file__).parents[2] / "docs" / "vllm.md").read_text(encoding="utf-8")
STATS = Path(kamera.__file__).parent / "engines" / "vllm" / "stats.py"


def rows(heading: str) -> dict[str, str]:
    """First cell -> the row, of the tables under a heading."""
    (section,) = re.findall(rf"^#+ {re.escape(heading)}$(.*?)(?=^#+ |\Z)", PAGE, re.M | re.S)
    lines = [line for line in section.splitlines() if line.startswith("| `")]
    return {line.split("|")[1].strip(): line for line in lines}


def names(row: str) -> set[str]:
    return set(re.findall(r"`([^`]+)`", row))


@pytest.mark.parametrize("field", dataclasses.fields(ConnectorSettings), ids=lambda f: f.name)
def test_every_setting_has_a_row_with_its_default(field: Any) -> None:
    assert f"| `{field.default}` |" in rows("Options")[f"`{field.name}`"]


def test_the_options_table_invents_none() -> None:
    known = {f"`{field.name}`" for field in dataclasses.fields(ConnectorSettings)}
    assert set(rows("Options")) == known


def test_every_policy_has_a_row() -> None:
    assert set(rows("Fill policies")) - {"`fill`"} == {f"`{policy}`" for policy in FILLS}


def test_every_counter_of_the_connector_has_a_row_and_its_label() -> None:
    # vLLM isn't there to import the module with.
    tables = {
        node.targets[0].id: ast.literal_eval(node.value)
        for node in ast.parse(STATS.read_text(encoding="utf-8")).body
        if isinstance(node, ast.Assign) and isinstance(node.targets[0], ast.Name)
    }
    shown = {
        name: row for name, row in rows("How to see it").items() if name.startswith("`kamera:")
    }
    assert set(shown) == {f"`kamera:{name}`" for name in (*tables["LABELLED"], *tables["PLAIN"])}
    for name, (label, _) in tables["LABELLED"].items():
        assert f"| `{label}` |" in shown[f"`kamera:{name}`"]


def test_every_field_of_the_companions_answer_has_a_row() -> None:
    told = companion(Recorder()).to_json()
    cells = [cell for cell in rows("How to see it") if not cell.startswith("`kamera:")]
    assert {name for cell in cells for name in names(cell)} == set(told)


def test_the_names_that_vllm_is_given_are_the_codes() -> None:
    assert f"--middleware {MIDDLEWARE}" in PAGE
    assert f"VLLM_PLUGINS=kamera,{ENDPOINT_PLUGIN} vllm serve" in PAGE


def test_a_name_that_is_not_in_the_table_is_refused() -> None:
    with pytest.raises(ConfigError, match="Unknown setting 'ranks'"):
        ConnectorSettings.of({"ranks": 3})
