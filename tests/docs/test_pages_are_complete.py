"""Every error, miss, setting, lane, task, module and command has its place in the pages."""

import dataclasses
import importlib.util
import inspect
from pathlib import Path
from typing import Any

import pytest

import kamera
from kamera import errors
from kamera.planner import OperatingPoint
from kamera.session import SessionSettings
from kamera.store import MissReason, PutReason, open_store

ROOT = Path(__file__).parents[2]
DOCS = ROOT / "docs"
ERRORS = [
    name
    for name, value in vars(errors).items()
    if isinstance(value, type) and issubclass(value, errors.KameraError)
]


def read(page: str) -> str:
    return (DOCS / page).read_text(encoding="utf-8")


def rows(page: str) -> dict[str, str]:
    """First cell, its backticks off -> the whole row, of every table of a page."""
    lines = [line for line in read(page).splitlines() if line.startswith("| `")]
    return {line.split("`")[1]: line for line in lines}


@pytest.mark.parametrize("name", ERRORS)
def test_every_error_has_a_row(name: str) -> None:
    assert name in rows("errors.md")


def test_the_error_tree_is_the_code_s() -> None:
    def children(error: type) -> list[type]:
        return [c for c in error.__subclasses__() if c.__module__ == errors.__name__]

    def branch(error: type, depth: int) -> list[tuple[str, int]]:
        below = [line for child in children(error) for line in branch(child, depth + 1)]
        mixed_in = [b.__name__ for b in error.__bases__ if not issubclass(b, errors.KameraError)]
        shown = f" ({', '.join(mixed_in)})" if depth and mixed_in else ""
        return [(error.__name__ + shown, depth), *below]

    drawn = [
        (line.lstrip(" │├└─"), (len(line) - len(line.lstrip(" │├└─"))) // 4 - 1)
        for line in read("errors.md").splitlines()
        if line.startswith("    ")
    ]
    assert sorted(drawn) == sorted(branch(errors.KameraError, 0))


@pytest.mark.parametrize("reason", [*MissReason, *PutReason])
def test_every_miss_and_put_reason_has_a_row(reason: MissReason | PutReason) -> None:
    assert reason.value in rows("errors.md")


def test_the_errors_page_invents_none() -> None:
    known = {*ERRORS, *(r.value for r in MissReason), *(r.value for r in PutReason)}
    assert set(rows("errors.md")) == known


@pytest.mark.parametrize("field", dataclasses.fields(SessionSettings), ids=lambda f: f.name)
def test_every_setting_has_a_row_with_its_default(field: Any) -> None:
    assert f"| `{field.default}` |" in rows("settings.md")[field.name]


def test_every_argument_of_opening_has_a_row() -> None:
    opened = inspect.signature(kamera.Session.open).parameters
    stores = inspect.signature(open_store).parameters
    missing = {*opened, *stores} - {"model", "settings"} - set(rows("settings.md"))
    assert missing == set()


def test_the_settings_page_invents_none() -> None:
    fields = {field.name for field in dataclasses.fields(SessionSettings)}
    opened = set(inspect.signature(kamera.Session.open).parameters)
    known = fields | opened | set(inspect.signature(open_store).parameters)
    assert set(rows("settings.md")) <= known


def test_the_planner_page_has_exactly_the_lanes() -> None:
    assert set(rows("planner.md")) == {point.value for point in OperatingPoint}


def test_the_planner_page_has_the_order_in_which_lanes_are_tried() -> None:
    from kamera.planner.lanes import MENU

    assert list(rows("planner.md")) == [lane.__name__ for lane in MENU]


def test_the_architecture_page_has_exactly_the_modules() -> None:
    source = Path(kamera.__file__).parent
    packages = {path.parent.name for path in source.glob("*/__init__.py")}
    modules = {path.stem for path in source.glob("*.py")} - {"__init__"}
    assert set(rows("architecture.md")) == packages | modules


def test_the_architecture_page_lists_the_modules_from_the_top_layer_down() -> None:
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    rank = {name: i for i, row in enumerate(layers) for name in row.split(" | ")}
    order = [rank[name] for name in rows("architecture.md")]
    assert order == sorted(order)


def test_the_nano_page_has_exactly_the_tasks() -> None:
    from kamera.lab.tasks import TASKS

    assert set(rows("nano-gqa.md")) == set(TASKS)


def test_the_nano_page_has_the_size_of_the_model(tiny: Path) -> None:
    from safetensors import safe_open

    with safe_open(tiny / "model.safetensors", "pt") as weights:
        shapes = [weights.get_slice(name).get_shape() for name in weights.keys()]  # noqa: SIM118
    size = 0
    for shape in shapes:
        count = 1
        for length in shape:
            count *= length
        size += count
    assert f"{size:,} parameters" in read("nano-gqa.md")


def test_the_page_that_the_engines_page_points_to_has_every_model_type() -> None:
    from kamera.engines.hf.families import FAMILIES

    assert "(support.md)" in read("engines.md")
    assert all(f"`{model_type}`" in read("support.md") for model_type in FAMILIES)


def test_the_engines_page_has_the_tested_versions() -> None:
    from kamera.engines.hf.version import BELOW, LOWEST

    tested = [f"{LOWEST[0]}.{minor}" for minor in range(LOWEST[1], BELOW[1])]
    assert f"| versions | Transformers {' and '.join(tested)}," in read("engines.md")


def test_the_command_line_page_is_the_commands_own_help() -> None:
    spec = importlib.util.spec_from_file_location("cli_reference", DOCS / "cli_reference.py")
    assert spec is not None
    assert spec.loader is not None
    reference = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(reference)
    assert read("cli.md") == reference.page(), "run: nox -s cli_page"


def test_the_changelog_has_the_version() -> None:
    text = (ROOT / "CHANGELOG.md").read_text(encoding="utf-8")
    assert f"## [{kamera.__version__}]" in text


def test_the_package_has_one_version() -> None:
    import tomllib

    settings = tomllib.loads((ROOT / "pyproject.toml").read_text(encoding="utf-8"))
    assert settings["project"]["version"] == kamera.__version__
