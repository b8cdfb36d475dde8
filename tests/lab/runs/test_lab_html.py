"""The HTML page: alone, escaped, what does not hold first; drawn from the JSON."""

import re
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import pytest
from lab_doubles import figure, one_run, section

from kamera.errors import ConfigError
from kamera.lab.reproductions.judge import count, judge
from kamera.lab.runs.html import page_of, write_page
from kamera.lab.runs.report import write_section

RUNS = {"one": one_run()}
HOSTILE = "<script>alert('x')</script> & \"$q$\""


class Tags(HTMLParser):
    """Every tag with its attributes, and the text."""

    def __init__(self, page: str) -> None:
        super().__init__()
        self.seen: list[tuple[str, dict[str, str | None]]] = []
        self.texts: list[str] = []
        self.feed(page)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.seen.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        self.texts.append(data)


def test_the_page_needs_nothing_else() -> None:
    page = page_of({"version": 1, "one": section()}, RUNS)
    assert "://" not in page
    assert "@import" not in page
    tags = Tags(page).seen
    assert "svg" in {tag for tag, _ in tags}
    assert not {"script", "link", "img", "iframe", "object"} & {tag for tag, _ in tags}
    references = [a[key] for _, a in tags for key in ("href", "src", "xlink:href") if key in a]
    assert references
    assert all(reference is not None and reference[0] == "#" for reference in references)
    ids = {attributes.get("id") for _, attributes in tags}
    assert {str(reference)[1:] for reference in references} <= ids


def test_it_says_first_of_how_many_items_and_what_was_not_run() -> None:
    page = page_of({"one": section()}, RUNS | {"two": one_run("two")})
    first = page[: page.index("<h2")]
    assert "<b>4 items</b>" in first
    assert (
        "&ldquo;above 0.40&rdquo;" in first
    )  # 0.025 ** (1 / 4): a share's exact interval, all 4 alike
    assert "Not in this report: two." in first
    assert "Not in this report" not in page_of({"one": section()}, RUNS)


def test_every_claim_has_its_figure_its_interval_and_its_verdict_in_words() -> None:
    page = page_of({"one": section()}, RUNS)
    assert '<td class="figure good">0.950 [0.900, 1.000]<span class="word">holds</span>' in page
    assert '<td class="figure bad">0.500 [0.400, 0.600]<span class="word">does not hold' in page
    assert '<td class="figure none">–<span class="word">not measured</span>' in page
    assert '<td class="figure shown">3.000<span class="word">shown</span>' in page
    for text in ("0.98 (Table 9)", "at least 0.9", "What the *paper* did with <code>code</code>"):
        assert text in page
    for text in ("kamera lab one --items 4 --seed 0", "0" * 40, "torch 2", "float32"):
        assert text in page


def test_what_does_not_hold_comes_first_with_its_reason() -> None:
    page = page_of({"one": section()}, RUNS)
    _, _, of_run = page.partition('<h2 id="one">')
    first = of_run.index("What does not hold on ours")
    assert "on nano_b" in of_run[first : of_run.index("<table>")]
    assert "ours is small." in of_run[first : of_run.index("<table>")]


def test_the_index_counts_a_claim_on_a_model_as_one() -> None:
    counts = count(judge(RUNS["one"], section()))
    assert counts == {"does not hold": 1, "holds": 2, "not measured": 2, "shown": 1}
    page = page_of({"one": section()}, RUNS)
    assert "<b>1 does not hold, 2 holds, 1 shown, 2 not measured</b>" in page


def test_what_others_wrote_is_escaped() -> None:
    models = {HOSTILE: {"figures": {"eta": figure(0.5)}}, "b": {"failed": HOSTILE}}
    changed = {**section(**models), "command": HOSTILE}
    page = page_of({"one": changed}, {"one": one_run(title=HOSTILE, paper=HOSTILE)})
    tags = Tags(page)
    assert "script" not in {tag for tag, _ in tags.seen}
    assert sum("alert('x')" in text for text in tags.texts) >= 6
    assert any(f"b was not measured: {HOSTILE}" in text for text in tags.texts)


def test_a_picture_that_cannot_be_drawn_leaves_the_figures(capsys: Any) -> None:
    def broken(models: Any) -> Any:
        raise KeyError("blind")

    page = page_of({"one": section()}, {"one": one_run(charts=broken)})
    assert "The picture can't be drawn: KeyError(&#x27;blind&#x27;)" in page
    assert "0.950 [0.900, 1.000]" in page
    assert "KeyError" in capsys.readouterr().err


def test_a_run_without_any_figure_has_no_picture() -> None:
    nothing = section(nano_a={"failed": "a"}, nano_b={"failed": "b"})
    page = page_of({"one": nothing}, RUNS)
    assert "<svg" not in page
    assert "nano_a was not measured: a" in page
    assert re.search(r"2 failed", page)


def test_a_page_is_drawn_from_the_file_alone(tmp_path: Path) -> None:
    write_section(tmp_path / "lab.json", "one", section())
    write_section(tmp_path / "lab.json", "of another version", {})
    write_page(tmp_path / "lab.json", tmp_path / "new" / "lab.html", RUNS)
    page = (tmp_path / "new" / "lab.html").read_text(encoding="utf-8")
    assert "0.950 [0.900, 1.000]" in page


def test_without_a_report_there_is_no_page(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match="there is no such file"):
        write_page(tmp_path / "lab.json", tmp_path / "lab.html", RUNS)
    write_section(tmp_path / "lab.json", "one", section())
    with pytest.raises(ConfigError, match="Can't write"):
        write_page(tmp_path / "lab.json", tmp_path / "lab.json" / "lab.html", RUNS)
