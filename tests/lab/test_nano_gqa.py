"""The packaged checkpoint does what the demo says of it: on few items, with room for chance."""

from collections.abc import Iterator

import pytest

import kamera
from kamera.lab.evaluation import evaluate_task
from kamera.lab.probes.windows import probe_orbit, probe_recall, probe_survivor
from kamera.lab.tasks import TASKS
from kamera.session import Session

NUM_ITEMS = 20


@pytest.fixture(scope="module")
def session() -> Iterator[Session]:
    with kamera.Session.open(kamera.packaged_model()) as opened:
        yield opened


@pytest.mark.parametrize("name", TASKS)
def test_blind_reuse_loses_what_was_bound_and_the_patch_gives_it_back(session, name) -> None:
    task = TASKS[name]
    arms = evaluate_task(session, task, NUM_ITEMS, seed=5)
    full, blind = arms["re-prefill"], arms["blind"]
    assert full["accuracy"] >= 0.85
    if task.binds:
        assert blind["accuracy"] <= 0.6 * full["accuracy"]
        assert arms["patch 16"]["flip_recover"] == 1.0
    else:
        assert blind["accuracy"] >= full["accuracy"] - 0.1
    for arm in ("patch 16", "kamera"):
        assert arms[arm]["agreement"] == 1.0
        assert arms[arm]["eta"] >= 0.97
        assert arms[arm]["num_prefilled"] == 0
    assert arms["patch full"]["kl_max"] <= 1e-6
    assert arms["patch 16"]["kl"] < arms["patch 4"]["kl"] < arms["patch 1"]["kl"]


def test_window_operations_have_the_papers_signs(session) -> None:
    orbit = probe_orbit(session.engine, 4)
    assert orbit["eta_exact"] >= orbit["eta_orbit"] >= 0.9
    survivor = probe_survivor(session.engine, 4)
    assert survivor["kl_keep"] < 0.1 * survivor["kl_blind"]
    told = survivor["told_by_departed"]
    assert told["kl_keep"] > told["kl_blind"], "what left is still known: the lane's known weakness"
    recall = probe_recall(session.engine, 4)
    assert recall["eta_fresh"][-1] >= 0.97 > 0.5 > recall["eta_stale"][-1]
