"""Rules that turn a response into a score, against slower ones that say the same."""

from functools import cache

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from kamera.lab.benchmarks import BENCHMARKS, BenchmarkItem
from kamera.lab.benchmarks.scoring import anls, chosen_letter, edit_distance, word_f1

WORDS = st.lists(st.sampled_from(["red", "blue", "team"]), max_size=5)
SHORT = st.text("abc", max_size=6)


def item(*choices: str) -> BenchmarkItem:
    return BenchmarkItem("1", "all", (), "Which?", choices, ("A",), "")


def slow_distance(one: str, two: str) -> int:
    @cache
    def between(i: int, j: int) -> int:
        if not i or not j:
            return i + j
        swap = between(i - 1, j - 1) + (one[i - 1] != two[j - 1])
        return min(swap, between(i - 1, j) + 1, between(i, j - 1) + 1)

    return between(len(one), len(two))


@given(SHORT, SHORT)
@settings(max_examples=50)
def test_edit_distance_is_the_fewest_edits(one: str, two: str) -> None:
    assert edit_distance(one, two) == slow_distance(one, two)


def test_anls_is_zero_at_the_threshold() -> None:
    assert anls("abcd", "abcx") == 0.75
    assert anls("ab", "ax") == 0.0
    assert anls("", "") == 1.0


@given(WORDS, WORDS)
@settings(max_examples=50)
def test_f1_is_the_harmonic_mean_of_precision_and_recall(one: list[str], two: list[str]) -> None:
    common = sum(min(one.count(word), two.count(word)) for word in set(one))
    if not common:
        assert word_f1(one, two) == float(one == two)
        return
    precision, recall = common / len(one), common / len(two)
    assert word_f1(one, two) == pytest.approx(2 * precision * recall / (precision + recall))


@pytest.mark.parametrize(
    ("response", "letter"),
    [
        ("B", "B"),
        (" b ", "B"),
        ("B.", "B"),
        ("(B)", "B"),
        ("B) a dog", "B"),
        ("B: because", "B"),
        ("B\nI think", "B"),
        ("The answer is (B).", "B"),
        ("Answer: B because", "B"),
        ("A dog", "B"),
        ("a dog.", "B"),
        ("A", "A"),
        ("C", None),
        ("A horse", None),
        ("Because", None),
        ("", None),
        ("I don't know", None),
    ],
)
def test_a_letter_or_the_choice_itself_is_read(response: str, letter: str | None) -> None:
    assert chosen_letter(response, item("a cat", "a dog")) == letter


def test_an_empty_response_is_no_choice() -> None:
    assert chosen_letter("", item("...", "a dog")) is None


def test_every_benchmark_is_registered_under_its_name() -> None:
    assert len(BENCHMARKS) == 8
    assert all(benchmark.name == name for name, benchmark in BENCHMARKS.items())
    assert all(benchmark.metric for benchmark in BENCHMARKS.values())
