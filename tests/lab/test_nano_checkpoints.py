"""The packaged checkpoints of other families bind as nano-gqa does: few items, room for chance."""

import pytest

import kamera
from kamera.arms import Blind, Reprefill, Workbench
from kamera.lab.evaluation import Tally, answer_id, figures, request_of, serve_item
from kamera.lab.tasks import TASKS
from kamera.session import Session

NUM_ITEMS = 24
OTHERS = [name for name in kamera.packaged_models() if name != "nano-gqa"]


@pytest.mark.parametrize("task", ["binding", "shell_game"])
@pytest.mark.parametrize("name", OTHERS)
def test_blind_reuse_loses_what_a_frame_had_bound(name, task) -> None:
    with Session.open(kamera.packaged_model(name)) as session:
        bench = Workbench(session.engine)
        arms = [Reprefill(session.engine), Blind(bench)]
        tallies = {arm.name: Tally() for arm in arms}
        for item in TASKS[task].items(NUM_ITEMS, split="test", seed=5):
            request = request_of(session.engine, item)
            serve_item(arms, request, answer_id(session.engine, item), tallies)
            bench.clear()
    full, blind = (figures(tallies[arm.name], tallies) for arm in arms)
    assert full["accuracy"] >= 0.8
    assert blind["accuracy"] <= 0.6 * full["accuracy"]
