"""Several models, one process each: sections grow model by model, and a failure stays where it is."""

from pathlib import Path
from typing import Any

import pytest
from lab_work_double import measured_by_name

import kamera
from kamera.errors import ConfigError
from kamera.lab.reproductions.judge import failures
from kamera.lab.runs.lab import run_lab
from kamera.lab.runs.settings import Settings

NAMES = ["binding", "probes"]


@pytest.mark.parametrize("num_jobs", [1, 2])
def test_sections_hold_every_model_in_the_given_order(num_jobs: int) -> None:
    saved: list[tuple[str, int]] = []
    told: list[tuple[str, int, int]] = []
    sections = run_lab(
        NAMES,
        [Path("b"), Path("fails"), Path("a")],
        Settings(3, seed=5),
        command="kamera lab {name}",
        num_jobs=num_jobs,
        save=lambda name, section: saved.append((name, len(section["models"]))),
        progress=lambda *at: told.append(at),
        work=measured_by_name,
    )
    for name in NAMES:
        section = sections[name]
        assert list(section["models"]) == ["b", "fails", "a"]
        assert section["models"]["a"] == {"items": 3, "run": name}
        assert (section["command"], section["seed"]) == (f"kamera lab {name}", 5)
        assert [number for saved_name, number in saved if saved_name == name] == [1, 2, 3]
    assert failures(sections["binding"]) == {}
    assert failures(sections["probes"]) == {"fails": "no reason"}
    assert sorted(told) == sorted(
        (f"{name}, {model}", number + 1, 2)
        for model in ("a", "b", "fails")
        for number, name in enumerate(NAMES)
    )


def test_a_process_that_dies_takes_only_what_it_had_not_done() -> None:
    sections = run_lab(
        NAMES,
        [Path("dies"), Path("a")],
        Settings(1),
        command="",
        num_jobs=2,
        work=measured_by_name,
    )
    assert sections["binding"]["models"]["dies"] == {"items": 1, "run": "binding"}
    assert failures(sections["probes"]) == {"dies": "its process ended with exit code 3"}
    assert sections["probes"]["models"]["a"] == {"items": 1, "run": "probes"}


def test_one_run_that_fails_on_its_only_model_raises_and_saves_nothing() -> None:
    saved: list[str] = []

    def failing(*given: Any) -> Any:
        yield "binding", {"failed": "text alone"}

    with pytest.raises(ConfigError, match="a: text alone"):
        run_lab(
            ["binding"],
            [Path("a")],
            Settings(1),
            command="",
            save=lambda name, section: saved.append(name),
            work=failing,
        )
    assert saved == []


def test_what_cannot_be_run_is_refused() -> None:
    model = kamera.packaged_model()
    with pytest.raises(ConfigError, match="number of items"):
        run_lab(["binding"], [model], Settings(0), command="")
    with pytest.raises(ConfigError, match="different names"):
        run_lab(["binding"], [model, model], Settings(1), command="")
    with pytest.raises(ConfigError, match="different names"):
        run_lab(["binding"], [], Settings(1), command="")
