"""The README's code is the example's, it runs, and its commands exist."""

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")
EXAMPLES = sorted((ROOT / "examples").glob("*.py"))


def code_of(example: Path) -> str:
    """The file without its docstring."""
    return example.read_text(encoding="utf-8").split('"""\n', 1)[1].lstrip("\n")


def test_the_readme_shows_the_quickstart_word_for_word() -> None:
    shown = re.findall(r"^```python\n(.*?)^```", README, re.MULTILINE | re.DOTALL)
    assert shown == [code_of(ROOT / "examples" / "quickstart.py")]


@pytest.mark.parametrize("example", EXAMPLES, ids=lambda path: path.stem)
def test_the_example_runs(
    example: Path,
    tiny: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    monkeypatch.setattr("kamera.packaged_model", lambda: tiny)
    monkeypatch.chdir(tmp_path)
    code = compile(example.read_text(encoding="utf-8"), str(example), "exec")
    exec(code, {"__name__": "__main__"})
    printed = capsys.readouterr().out
    assert "view4 at" in printed
    assert "recall (evicted and back" in printed
    assert "orbit (same 3 antecedents in another order" in printed
    assert "(0 tokens of the window prefilled)" in printed


def test_the_readme_names_targets_and_commands_that_exist() -> None:
    makefile = (ROOT / "Makefile").read_text(encoding="utf-8")
    targets = re.search(r"^\.PHONY: (.+)$", makefile, re.MULTILINE)
    assert targets is not None
    contributing = (ROOT / "CONTRIBUTING.md").read_text(encoding="utf-8")
    wanted = re.findall(r"^make (\w+)", README + contributing, re.MULTILINE)
    assert wanted
    assert set(wanted) <= set(targets.group(1).split())
    from kamera.cli.app import app

    commands = {command.callback.__name__ for command in app.registered_commands}
    named = set(re.findall(r"kamera (demo|replay|serve|store|doctor|simulate)\b", README))
    assert named <= commands
