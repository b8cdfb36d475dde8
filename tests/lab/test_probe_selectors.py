"""Landmark keys and selectors' recall: what they count on made numbers, a random model and nano-gqa."""

from pathlib import Path

import pytest
import torch

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.probes.case import Case, cases_of
from kamera.lab.probes.cross_attention import cross_attention
from kamera.lab.probes.landmark_keys import probe_landmark_keys
from kamera.lab.probes.selector_recall import probe_selector_recall, recall, selectors
from kamera.lab.tasks import TASKS


@pytest.fixture
def case(engine, picture) -> Case:
    prefix, tail = engine.frame("what is it?")
    chunks = (prefix, *(engine.image_chunk(picture(seed)) for seed in (1, 2, 3)))
    return Case(Workbench(engine), chunks, 2, tail)


def test_recall_is_the_share_that_was_found() -> None:
    wanted = torch.tensor([True, True, False, False])
    assert recall(wanted, wanted) == 1.0
    assert recall(torch.tensor([False, True, True, False]), wanted) == 0.5
    assert recall(~wanted, wanted) == 0.0


def eager_weights(case: Case, folder: Path, dtype: str) -> list[torch.Tensor]:
    """Transformers' own attention weights of B on A, in one plain forward from pixels."""
    chunks = case.chunks[: case.target + 1]
    start, end = case.span
    starts = [sum(c.extent for c in chunks[:i]) for i in range(len(chunks))]
    positions = torch.cat([c.layout.at(s) for c, s in zip(chunks, starts, strict=True)])
    media = [c.media.inputs for c in chunks if c.media]
    model = HFEngine.from_pretrained(folder, dtype=dtype).model
    model.set_attn_implementation("eager")
    out = model(
        input_ids=torch.tensor([[i for chunk in chunks for i in chunk.key.token_ids]]),
        position_ids=positions.T[:, None],
        pixel_values=torch.cat([m["pixel_values"] for m in media]).to(model.dtype),
        image_grid_thw=torch.cat([m["image_grid_thw"] for m in media]),
        output_attentions=True,
    )
    return [weights[0, :, start:end, :start].double() for weights in out.attentions]


def test_cross_attention_is_what_transformers_gives(case, tiny) -> None:
    """Within twice the error of its float32 against its float64, the largest of the layer."""
    plain, exact = (eager_weights(case, tiny, dtype) for dtype in ("float32", "float64"))
    mine = cross_attention(case)
    assert len(mine) == 8
    for got, rounded, wanted in zip(mine, plain, exact, strict=True):
        assert got.shape == wanted.shape
        assert (got - wanted).abs().max() <= 2 * (rounded - wanted).abs().max()


def test_landmarks_are_counted_on_a_random_model(case) -> None:
    found = probe_landmark_keys([case])
    assert len(found.keys) == 8
    assert all(1 <= keys <= case.span[0] for keys in found.keys)
    assert found.median_share == pytest.approx(found.median / case.span[0], abs=0.5 / case.span[0])
    assert all(0 < mass < 1 for mass in found.mass)


def test_a_share_of_one_finds_all_and_position_is_the_first_tokens(case) -> None:
    every = probe_selector_recall([case], share=1.0)
    assert set(every.recall.values()) == {1.0}
    scores = selectors(case)
    assert set(every.recall) == set(scores)
    assert scores["position"].argmax() == 0
    assert all(len(s) == case.chunk.num_tokens for s in scores.values())


def test_on_nano_gqa_no_selector_finds_all() -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model()))
    items = TASKS["binding"].items(3)
    found = probe_selector_recall(cases_of(bench, items))
    assert found.n == 3
    assert 0.5 <= found.random < 0.52
    assert max(found.recall.values()) < 0.95
    landmarks = probe_landmark_keys(cases_of(bench, items))
    assert landmarks.n == 3
    assert landmarks.median_share < 0.5
