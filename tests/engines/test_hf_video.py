"""Video chunks: frames in, tokens, positions and KV as the families' own models have them."""

from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import build
from checkpoints.mrope import WITH_VIDEO
from hf_reference import prompt_positions, relative
from mrope_reference import (
    check_chunk_by_chunk,
    check_one_forward,
    check_positions,
    our_tokens,
    own_positions,
    own_tokens,
    see,
)

from kamera.chunk import Chunk
from kamera.engines.contract import Prompt
from kamera.engines.hf import HFEngine
from kamera.engines.hf.families import FAMILIES as TABLE
from kamera.engines.hf.video_processor import VideoProcessor
from kamera.errors import ConfigError

RESTARTING = ("qwen2_vl", "qwen2_5_vl")
"""Families whose `get_rope_index` lets text start among the positions of a long video."""

STAMPED = ("qwen3_vl", "qwen3_vl_moe", "glm4v", "glm4v_moe")
"""Families that write each temporal patch as a run of its own."""


@pytest.fixture(scope="module", params=WITH_VIDEO)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folders(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Path]:
    root = tmp_path_factory.mktemp("videos")
    return {name: build(name, root / name) for name in WITH_VIDEO}


@pytest.fixture(scope="module")
def engines(folders: dict[str, Path]) -> dict[str, HFEngine]:
    return {name: HFEngine.from_pretrained(folder) for name, folder in folders.items()}


@pytest.fixture(scope="module")
def engine(engines: dict[str, HFEngine], family: str) -> HFEngine:
    return engines[family]


def frames(engine: HFEngine, picture: Any, count: int, first: int = 10) -> list[Any]:
    """Frames of 2 x 4 tokens, but for the Omni models, which make at least 128 tokens of each."""
    side = 2 * engine.processors["video"].patch_size
    return [picture(first + at, 4 * side, 2 * side) for at in range(count)]


def asked(engine: HFEngine, picture: Any, count: int, fps: float, first: int = 10) -> Prompt:
    """A video and an image, text around and between.

    No image for GLM-V, whose forward takes the video's placeholders, the image's own, for images then.
    """
    side = 2 * engine.processors["image"].patch_size
    shown = frames(engine, picture, count, first)
    parts: list[dict[str, Any]] = [{"type": "text", "text": "Look: "}]
    parts += [{"type": "video", "video": shown, "fps": fps}, {"type": "text", "text": " and "}]
    if engine.model.config.model_type not in ("glm4v", "glm4v_moe"):
        parts += [{"type": "image", "image": picture(1, 3 * side, 2 * side)}]
    parts += [{"type": "text", "text": "where is the ball?"}]
    return engine.prompt([{"role": "user", "content": parts}])


RATE = 4.0
"""Frames per second at which steps in time are one position apart: two positions a second."""


@pytest.fixture(scope="module")
def short(engine: HFEngine, picture: Any) -> Prompt:
    """Three temporal patches of five frames: no more positions than the grid's longer side."""
    return asked(engine, picture, 5, RATE)


@pytest.fixture(scope="module")
def long(engine: HFEngine, picture: Any) -> Prompt:
    """Six temporal patches, a second each: the t axis goes furthest."""
    return asked(engine, picture, 12, 2.0)


def video_of(prompt: Prompt) -> Chunk:
    return next(chunk for chunk in prompt.chunks if chunk.key.kind == "video")


def test_positions_of_a_short_video_are_the_models_own(engine: HFEngine, short: Prompt) -> None:
    check_positions(engine, short)


def test_text_behind_a_long_video_resumes_past_its_last_position(
    engine: HFEngine, long: Prompt, family: str
) -> None:
    """Pinned: where this version of Transformers restarts inside the video, and by how much."""
    mine, (own, _) = prompt_positions(long), own_positions(engine, long)
    first = long.chunks[0].num_tokens
    inside = slice(0, first + video_of(long).num_tokens - 1)
    assert mine[:, inside].equal(own[:, inside].long())
    behind = inside.stop
    assert mine[0, behind] == mine[:, inside].max() + 1
    gap = (mine - own.long())[:, behind:]
    if family not in RESTARTING:
        assert not gap.any()
        return
    steps = mine[0, first:behind].max() - mine[0, first]  # behind the wrapper token
    assert gap.unique().tolist() == [int(steps) - 4]  # the longer side of the grid is 4
    assert gap.min() > 0


def test_one_forward_gives_the_models_own_kv_bit_for_bit(engine: HFEngine, short: Prompt) -> None:
    check_one_forward(engine, short)


def test_a_long_video_is_the_models_own_at_our_positions(
    engine: HFEngine, folders: dict[str, Path], long: Prompt, family: str, picture: Any
) -> None:
    positions = prompt_positions(long)
    check_one_forward(engine, long, positions)
    check_chunk_by_chunk(engine, folders[family], lambda on: asked(on, picture, 12, 2.0), positions)


def test_decoding_behind_a_video_is_the_models_generate(engine: HFEngine, short: Prompt) -> None:
    wanted = own_tokens(engine, short, 6)
    assert our_tokens(engine, short, 6) == wanted
    assert len(wanted) > 1


def test_a_video_moves_as_one(engine: HFEngine, long: Prompt) -> None:
    chunk, vision = video_of(long), see(engine, long)
    there = engine.prefill([chunk], vision, start=41).kv
    solo = engine.prefill([chunk], vision, start=0).kv.to_canonical(chunk.layout.at(0), engine.spec)
    moved = solo.at(chunk.layout.at(41), engine.spec)
    assert moved.tensors["v"].equal(solo.tensors["v"])
    assert relative(moved.tensors["k"][0], there.tensors["k"][0]) <= 5e-7
    assert relative(moved.tensors["k"][2], there.tensors["k"][2]) <= 1e-5 * (1 + 41 / 16)


def test_order_and_number_of_frames_reach_the_model(
    engine: HFEngine, picture: Any, family: str
) -> None:
    shown = frames(engine, picture, 4)
    forward = engine.video_chunk(shown, fps=2.0)
    backward = engine.video_chunk(shown[::-1], fps=2.0)
    assert forward.digest != backward.digest
    assert forward.key.token_ids == backward.key.token_ids
    assert not engine.see(forward).equal(engine.see(backward))
    odd = engine.video_chunk(shown[:3], fps=2.0)
    doubled = engine.video_chunk([*shown[:3], shown[2]], fps=2.0)
    assert odd.num_tokens == doubled.num_tokens == forward.num_tokens
    assert engine.see(odd).equal(engine.see(doubled))  # the last frame is repeated
    assert odd.digest != doubled.digest


def test_the_rate_is_part_of_the_key(engine: HFEngine, picture: Any) -> None:
    shown = frames(engine, picture, 4)
    keys = {engine.video_chunk(shown, fps=fps).digest for fps in (1, 2.0, 2)}
    assert len(keys) == 2


@pytest.mark.parametrize("name", ["qwen3_vl", "glm4v"])
def test_seconds_are_written_as_text(engines: dict[str, HFEngine], picture: Any, name: str) -> None:
    engine = engines[name]
    chunk = engine.video_chunk(frames(engine, picture, 5), fps=1.25)
    text = engine.tokenizer.decode(chunk.key.token_ids)
    if name == "glm4v":
        pieces = [f"<|begin_of_image|>{'<|image|>' * 8}<|end_of_image|>{at}" for at in (0, 1, 3)]
        assert text == f"<|begin_of_video|>{''.join(pieces)}<|end_of_video|>"
    else:
        run = f"<|vision_start|>{'<|video_pad|>' * 8}<|vision_end|>"
        pieces = [f"<{at} seconds>{run}" for at in ("0.4", "2.0", "3.2")]
        assert text == f"<|vision_start|>{''.join(pieces)}<|vision_end|>"


@pytest.mark.parametrize("fps", [0.3, 0.7, 1.0, 1.7, 2.0, 3.0, 7.0, 12.5, 24.0, 29.97, 60.0])
@pytest.mark.parametrize("name", ["qwen2_5_vl", "qwen2_5_omni"])
def test_time_is_cut_off_to_whole_positions_as_the_model_does(
    engines: dict[str, HFEngine], name: str, fps: float
) -> None:
    """Odd rates round: the same float32 operations in the same order."""
    engine, num_steps = engines[name], 40
    modality, config = engine.family.modality("video"), engine.model.config
    seconds = torch.tensor([2 / fps])
    grid = torch.tensor([[num_steps, 2, 2]])
    start, pad, end = engine.tokenizer.convert_tokens_to_ids(
        ["<|vision_bos|>", "<|VIDEO|>", "<|vision_eos|>"]
        if name == "qwen2_5_omni"
        else ["<|vision_start|>", "<|video_pad|>", "<|vision_end|>"]
    )
    ids = torch.tensor([[start, *[pad] * num_steps, end]])
    if name == "qwen2_5_omni":
        own, _ = engine.model.model.get_rope_index(
            ids, None, grid, torch.ones_like(ids), False, None, seconds
        )
    else:
        own, _ = engine.model.model.get_rope_index(
            ids,
            (ids == pad).int() * 2,
            video_grid_thw=grid,
            second_per_grid_ts=seconds,
            attention_mask=torch.ones_like(ids),
        )
    assert modality.steps(num_steps, seconds[0], config) == (own[0, 0, 1:-1] - 1).tolist()


@pytest.mark.parametrize("fps", [3.0, 24.0, 0.7])
def test_qwen3_omni_refuses_fractions_of_a_position(
    engines: dict[str, HFEngine], picture: Any, fps: float
) -> None:
    """Its model places such a video, and the text behind it, between whole positions."""
    engine = engines["qwen3_omni_moe"]
    with pytest.raises(ConfigError, match="fractions of a position"):
        engine.video_chunk(frames(engine, picture, 4), fps=fps)


def test_paths_and_images_have_one_key(
    engines: dict[str, HFEngine], picture: Any, tmp_path: Path
) -> None:
    engine = engines["qwen2_vl"]
    shown = frames(engine, picture, 4)
    paths = [tmp_path / f"{at}.png" for at in range(4)]
    for image, path in zip(shown, paths, strict=True):
        image.save(path)
    keys = {engine.video_chunk(source, fps=2.0).digest for source in (shown, tuple(shown), paths)}
    assert len(keys) == 1
    assert engine.video_chunk(shown, fps=2.0, tenant="a").digest not in keys


@pytest.mark.parametrize("fps", [0, -1.0, float("nan"), float("inf"), None, "2", True])
def test_a_rate_that_is_none_is_refused(
    engines: dict[str, HFEngine], picture: Any, fps: Any
) -> None:
    engine = engines["qwen2_vl"]
    with pytest.raises(ConfigError, match="fps"):
        engine.video_chunk(frames(engine, picture, 2), fps=fps)


@pytest.mark.parametrize("source", [[], "clip.mp4", None, 3, Path("clip.mp4"), {}])
def test_what_is_no_list_of_frames_is_refused(engines: dict[str, HFEngine], source: Any) -> None:
    with pytest.raises(ConfigError, match="list of frames"):
        engines["qwen2_vl"].video_chunk(source, fps=2.0)


def test_frames_of_two_sizes_are_refused(engines: dict[str, HFEngine], picture: Any) -> None:
    with pytest.raises(ConfigError, match="2 sizes"):
        engines["qwen2_vl"].video_chunk([picture(0, 84, 56), picture(1, 56, 84)], fps=2.0)


def test_one_frame_is_too_few_where_the_family_says_so(
    engines: dict[str, HFEngine], picture: Any
) -> None:
    for name, engine in engines.items():
        shown = frames(engine, picture, 1)
        if name in STAMPED:
            with pytest.raises(ConfigError, match="at least 2"):
                engine.video_chunk(shown, fps=2.0)
        else:
            assert engine.video_chunk(shown, fps=2.0).num_tokens > 8


@pytest.mark.parametrize("key", ["use_audio_in_video", "load_audio_from_video"])
def test_sound_inside_a_video_is_refused(
    engines: dict[str, HFEngine], picture: Any, key: str
) -> None:
    engine = engines["qwen2_5_omni"]
    part = {"type": "video", "video": frames(engine, picture, 2), "fps": 2.0, key: True}
    with pytest.raises(ConfigError, match="Audio inside a video"):
        engine.prompt([{"role": "user", "content": [part, {"type": "text", "text": "?"}]}])


def test_a_video_part_names_its_rate(engines: dict[str, HFEngine], picture: Any) -> None:
    engine = engines["qwen2_vl"]
    part = {"type": "video", "video": frames(engine, picture, 2)}
    with pytest.raises(ConfigError, match="fps"):
        engine.prompt([{"role": "user", "content": [part, {"type": "text", "text": "?"}]}])


def processor(name: str) -> VideoProcessor:
    modality: Any = TABLE[name].modality("video")
    found: VideoProcessor = modality.processor
    return found


def test_settings_files_change_what_the_family_says() -> None:
    old = processor("qwen2_vl").with_settings({"min_pixels": 3136, "max_pixels": 9999})
    assert (old.shortest_edge, old.longest_edge) == (3136, 9999)
    new = processor("qwen3_vl").with_settings(
        {
            "min_pixels": 3136,
            "size": {"shortest_edge": 5, "longest_edge": 6},
            "image_std": [1, 2, 3],
        }
    )
    assert (new.shortest_edge, new.longest_edge, new.std) == (5, 6, (1.0, 2.0, 3.0))
    omni = processor("qwen2_5_omni").with_settings({"min_pixels": 3136, "max_pixels": 9999})
    assert (omni.shortest_edge, omni.longest_edge) == (128 * 28 * 28, 768 * 28 * 28)


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"resample": 1}, "Resampling"),
        ({"size": {"height": 3, "width": 3}}, "shortest_edge"),
        ({"video_processor_type": "Qwen3VLVideoProcessor"}, "aren't served"),
    ],
)
def test_settings_that_are_not_served_are_refused(settings: dict[str, Any], reason: str) -> None:
    with pytest.raises(ValueError, match=reason):
        processor("qwen2_vl").with_settings(settings)


def test_a_checkpoint_without_settings_for_videos_serves_its_images(
    folders: dict[str, Path], picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kamera.engines.hf.loading.read_settings", lambda folder: None)
    engine = HFEngine.from_pretrained(folders["qwen2_vl"])
    assert engine.image_chunk(picture(0)).num_tokens > 2
    with pytest.raises(ConfigError, match="No video processor"):
        engine.video_chunk([picture(0)] * 2, fps=2.0)
