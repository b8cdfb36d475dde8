"""Signals of content change: motion on made pictures, ranks, and nano-gqa's shell game."""

import numpy as np
import pytest
from PIL import Image

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab.probes.case import case_of
from kamera.lab.probes.content_change import grid_of, probe_content_change, signals, spearman
from kamera.lab.probes.motion import block_motion
from kamera.lab.tasks import TASKS, Item
from kamera.lab.tasks.frames import Frame


def scene(shift: int) -> Image.Image:
    """A noise block of 28 x 28 pixels on a gray ground, `shift` pixels from the second cell's left edge."""
    pixels = np.full((56, 112), 128, dtype=np.uint8)
    block = np.random.default_rng(0).integers(0, 256, (28, 28), dtype=np.uint8)
    pixels[:28, 28 + shift : 56 + shift] = block
    return Image.fromarray(pixels).convert("RGB")


def test_a_moved_block_is_found_where_it_was() -> None:
    moved = block_motion(scene(8), scene(0), (2, 4))
    assert moved.moved_px[1] == 8.0
    assert moved.residual[1] == 0.0
    assert moved.still[1] > 0.1
    assert moved.source[1] == 1
    assert moved.moved_px[4:].tolist() == [0.0] * 4
    assert moved.cosine[4:] == pytest.approx(1.0)


def test_nothing_moves_between_equal_frames() -> None:
    moved = block_motion(scene(0), scene(0), (2, 4))
    assert moved.moved_px.max() == moved.residual.max() == moved.still.max() == 0.0
    assert moved.source.tolist() == list(range(8))


def test_frames_of_two_sizes_are_refused() -> None:
    with pytest.raises(ConfigError, match="one size"):
        block_motion(scene(0), scene(0).resize((56, 56)), (2, 4))


def test_the_grid_comes_from_the_images_shape() -> None:
    assert grid_of(scene(0), 8) == (2, 4)
    with pytest.raises(ConfigError, match="rows"):
        grid_of(scene(0), 9)


def test_ranks_are_correlated_and_a_flat_signal_has_none() -> None:
    rising = np.array([1.0, 2.0, 3.0, 4.0])
    assert spearman(rising, rising**3) == pytest.approx(1.0)
    assert spearman(rising, -rising) == pytest.approx(-1.0)
    assert spearman(rising, np.ones(4)) is None


def test_the_same_picture_twice_has_no_change_on_a_random_model(engine, picture) -> None:
    frame = Frame(picture(1), "item")
    item = Item((frame, frame), "what is it?", "red", ("red",), target=1)
    case = case_of(Workbench(engine), item)
    assert all(float(np.abs(signal).max()) < 1e-12 for signal in signals(case, item).values())
    with pytest.raises(ConfigError, match="behind another"):
        signals(case, Item((frame, frame), "what is it?", "red", ("red",), target=0))


def test_on_nano_gqa_every_signal_is_ranked() -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model()))
    found = probe_content_change(bench, TASKS["shell_game"].items(4))
    assert found.num_tokens == 4 * 16
    for name, rho in found.spearman.items():
        assert rho is not None, name
        assert abs(rho) < 0.95, "no cheap signal tells the deficit"
    still = found.num_items.pop("motion")
    assert 1 <= still <= 4, "the cups stand still in some frames"
    assert set(found.num_items.values()) == {4}
