"""Rules that turn a response into a score: letters, words in common, edit distance."""

from __future__ import annotations

import re
import string
from collections import Counter
from collections.abc import Sequence

from kamera.lab.benchmarks.contract import BenchmarkItem

NUMBERS = (
    *("zero", "one", "two", "three", "four", "five", "six", "seven", "eight", "nine"),
    *("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen", "sixteen"),
    *("seventeen", "eighteen", "nineteen"),
)
DIGITS = {word: str(at) for at, word in enumerate(NUMBERS)}
ARTICLES = re.compile(r"\b(a|an|the)\b")
LETTER_FIRST = re.compile(r"^\W*([A-Z])(?:\W*$|[.):,\n])")
LETTER_NAMED = re.compile(r"(?i:\banswer(?: is)?)\s*:?\W*([A-Z])(?![A-Za-z'])")


def chosen_letter(response: str, item: BenchmarkItem) -> str | None:
    """The choice that a response names: `B`, `(B)`, `B. text`, `the answer is B`, or the choice's own words.

    None when it names none.
    """
    text = response.strip()
    words = plain_words(text)
    same = [
        letter
        for letter, choice in zip(item.letters, item.choices, strict=True)
        if words and plain_words(choice) == words
    ]
    if len(same) == 1:
        return same[0]
    if len(text) == 1:
        text = text.upper()
    for pattern in (LETTER_NAMED, LETTER_FIRST):
        found = pattern.search(text)
        if found and found[1] in item.letters:
            return found[1]
    return None


def choice_score(item: BenchmarkItem, response: str) -> float:
    """1 for the right letter; a response that names no choice is wrong."""
    return float(chosen_letter(response, item) in item.answers)


def plain_words(text: str) -> list[str]:
    """Lower case, without punctuation and articles, split at spaces."""
    bare = text.lower().translate(str.maketrans("", "", string.punctuation))
    return ARTICLES.sub(" ", bare).split()


def word_f1(response: Sequence[str], answer: Sequence[str]) -> float:
    """Harmonic mean of precision and recall of the words in common; 1 for two empty ones."""
    if not response and not answer:
        return 1.0
    common = (Counter(response) & Counter(answer)).total()
    return 2.0 * common / (len(response) + len(answer))


def edit_distance(one: str, two: str) -> int:
    """Characters to insert, delete or replace (Levenshtein)."""
    row = list(range(len(two) + 1))
    for at, left in enumerate(one, 1):
        before, row[0] = row[0], at
        for to, right in enumerate(two, 1):
            before, row[to] = row[to], min(row[to] + 1, row[to - 1] + 1, before + (left != right))
    return row[-1]


def anls(response: str, answer: str, threshold: float = 0.5) -> float:
    """1 - edit distance / length of the longer; 0 at or below the threshold."""
    longer = max(len(response), len(answer))
    similar = 1.0 - edit_distance(response, answer) / longer if longer else 1.0
    return similar if similar > threshold else 0.0
