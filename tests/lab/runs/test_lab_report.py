"""The report file: a section for each run, read back as it was written."""

from pathlib import Path

import pytest

from kamera.errors import ConfigError
from kamera.lab.runs import read_report, write_section
from kamera.lab.runs.report import VERSION


def test_a_run_s_section_leaves_the_others(tmp_path: Path) -> None:
    path = tmp_path / "new" / "lab.json"
    write_section(path, "one", {"kl": [0.1, 1e-17], "name": "a [b] {c}", "rows": [{"x": None}]})
    write_section(path, "two", {"kl": []})
    write_section(path, "two", {"kl": [3]})
    assert read_report(path) == {
        "version": VERSION,
        "one": {"kl": [0.1, 1e-17], "name": "a [b] {c}", "rows": [{"x": None}]},
        "two": {"kl": [3]},
    }


def test_a_series_is_one_line(tmp_path: Path) -> None:
    path = tmp_path / "lab.json"
    write_section(path, "one", {"kl": [0.25, 0.5, 0.75]})
    assert '"kl": [ 0.25, 0.5, 0.75 ]\n' in path.read_text(encoding="utf-8")


@pytest.mark.parametrize("text", ["not json", "[1]", "{}", '{"version": 999}'])
def test_another_file_is_refused_and_left(tmp_path: Path, text: str) -> None:
    path = tmp_path / "lab.json"
    path.write_text(text)
    with pytest.raises(ConfigError, match=r"expected a report of the lab"):
        write_section(path, "one", {})
    assert path.read_text() == text


def test_a_folder_in_the_report_s_place_is_an_error(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"Can't read"):
        read_report(tmp_path)
