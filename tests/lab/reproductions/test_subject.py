"""A subject measures once what several reproductions ask for; what can't be scored is refused."""

from collections.abc import Sequence
from dataclasses import replace

import pytest

from kamera.arms import Arm, Blind, Reprefill, Workbench
from kamera.errors import ConfigError
from kamera.lab.evaluation import Tally, answer_id
from kamera.lab.reproductions.figures import accuracy_gap_of, agreement_of, bytes_share_of
from kamera.lab.reproductions.subject import Subject
from kamera.lab.tasks import TASKS


def two_arms(bench: Workbench) -> Sequence[Arm]:
    return [Reprefill(bench.engine), Blind(bench)]


def test_the_same_arms_are_measured_once(subject: Subject) -> None:
    found = subject.some_tallies("readout", two_arms, 1)
    assert list(found) == ["re-prefill", "blind"]
    assert len(found["blind"].kls) == 1
    assert subject.some_tallies("readout", two_arms, 1) is found
    assert len(subject.some_tallies("readout", two_arms)["blind"].kls) == 2


def test_an_answer_of_several_tokens_is_refused_by_name(subject: Subject) -> None:
    item = TASKS["needle"].items(1)[0]
    assert (
        answer_id(subject.engine, item) == subject.engine.text_chunk(item.answer).key.token_ids[0]
    )
    wordy = replace(item, choices=(*item.choices, "a very long answer"))
    with pytest.raises(ConfigError, match=r"star.*a very long answer.*expected 1"):
        answer_id(subject.engine, wordy)


def test_paired_figures_by_hand() -> None:
    whole = Tally([1, 2, 3, 4], [0.0] * 4, [True, True, True, False], num_bytes=200)
    arm = Tally([1, 2, 9, 9], [0.1] * 4, [True, True, False, False], num_bytes=50)
    tallies = {"re-prefill": whole, "arm": arm}
    assert accuracy_gap_of(whole, arm)["value"] == 0.25
    assert agreement_of(tallies, "arm")["value"] == 0.5
    assert bytes_share_of(tallies, "arm") == {"value": 0.25, "low": None, "high": None, "n": 4}
