"""Every arm at its budget's end, on six families and two trained checkpoints: what it says it ends at."""

import pytest
from family_window import FamilyWindow

from kamera.arms import ROWS, AntecedentOperator, ArmRequest, Row
from kamera.lab.conformance.measure import logits_error

AT_END = [row for row in ROWS if row.end is not None]


@pytest.mark.parametrize("row", AT_END, ids=lambda row: row.name)
def test_an_arm_at_its_end_is_what_it_says(family: FamilyWindow, row: Row) -> None:
    arm = row.at_end(family.bench)
    arm.learn([family.other])
    arm.prepare(family.request)
    got = arm.serve(family.request).logits
    wanted = family.truth if row.end == "re-prefill" else family.blind
    assert logits_error(got, wanted) <= family.bound


def test_blind_is_far_from_re_prefill(family: FamilyWindow) -> None:
    """Else the end points would show nothing."""
    assert logits_error(family.blind, family.truth) > 100 * family.bound


def test_rows_without_an_end_are_named() -> None:
    assert [row.name for row in ROWS if row.end is None] == ["antecedent operator"]


def test_an_operator_learned_on_the_chunk_itself_gives_its_deficit(family: FamilyWindow) -> None:
    """With no more tokens than features, and these independent; else a linear map can't."""
    prefix, tail = family.request.prefix, family.request.tail
    request = ArmRequest(prefix, family.request.chunks[:1], tail)
    arm = AntecedentOperator(family.bench, ridge=0.0)
    arm.learn([request])
    got = arm.serve(request).logits
    truth = family.bench.full([*request.cached, tail]).logits
    blind = family.bench.finish(request, family.bench.blind(request.cached)).logits
    assert logits_error(got, truth) <= family.bound < logits_error(blind, truth)
