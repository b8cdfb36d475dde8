"""Audio chunks of the Omni thinkers: sound in, tokens, positions and KV as the models have them."""

import wave
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from checkpoints import build
from checkpoints.mrope import DEEPSTACK, WITH_AUDIO
from hf_reference import relative
from mrope_reference import (
    check_chunk_by_chunk,
    check_one_forward,
    check_positions,
    our_tokens,
    own_forward,
    own_tokens,
)

from kamera.engines.contract import Prompt
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError

RATE = 16000


@pytest.fixture(scope="module", params=WITH_AUDIO)
def family(request: pytest.FixtureRequest) -> str:
    return str(request.param)


@pytest.fixture(scope="module")
def folder(family: str, tmp_path_factory: pytest.TempPathFactory) -> Path:
    return build(family, tmp_path_factory.mktemp(family) / "checkpoint")


@pytest.fixture(scope="module")
def engine(folder: Path) -> HFEngine:
    return HFEngine.from_pretrained(folder)


def clip(seconds: float, seed: int = 0) -> np.ndarray:
    """A few tones that come and go, other ones by the seed."""
    rng = np.random.default_rng(seed)
    time = np.arange(round(seconds * RATE)) / RATE
    pitches, paces = rng.uniform(100, 7000, 4), rng.uniform(1, 9, 4)
    tones = np.sin(2 * np.pi * pitches[:, None] * time) * np.cos(2 * np.pi * paces[:, None] * time)
    return (tones.sum(0) * 0.2).astype(np.float32)


def write_wave(path: Path, samples: np.ndarray, rate: int = RATE, channels: int = 1) -> Path:
    with wave.open(str(path), "wb") as file:
        file.setnchannels(channels)
        file.setsampwidth(2)
        file.setframerate(rate)
        file.writeframes((samples * 32767).astype("<i2").tobytes())
    return path


def asked(engine: HFEngine, picture: Any, *kinds: str, first: int = 0) -> Prompt:
    """The media in the order named, text around and between."""
    parts: list[dict[str, Any]] = [{"type": "text", "text": "Hear: "}]
    for at, kind in enumerate(kinds):
        seed = first + at
        parts.append(
            {
                "image": {"type": "image", "image": picture(seed, 160, 96)},
                "video": {"type": "video", "video": [picture(seed, 96, 64)] * 2, "fps": 2.0},
                "audio": {
                    "type": "audio",
                    "audio": clip(1.37 + 0.7 * at, seed),
                    "sampling_rate": RATE,
                },
            }[kind]
        )
        parts.append({"type": "text", "text": f" then {at} "})
    return engine.prompt([{"role": "user", "content": parts}])


@pytest.fixture(scope="module", params=["audio", "audio image audio", "video audio image"])
def prompt(request: pytest.FixtureRequest, engine: HFEngine, picture: Any) -> Prompt:
    return asked(engine, picture, *request.param.split())


def test_positions_are_the_models_own(engine: HFEngine, prompt: Prompt) -> None:
    check_positions(engine, prompt)


def test_one_forward_gives_the_models_own_kv_bit_for_bit(engine: HFEngine, prompt: Prompt) -> None:
    """Two clips are one padded batch to the model's forward, and a call each to the engine."""
    check_one_forward(engine, prompt)


def test_chunk_by_chunk_is_as_close_to_the_truth_as_one_forward(
    engine: HFEngine, folder: Path, picture: Any
) -> None:
    check_chunk_by_chunk(engine, folder, lambda on: asked(on, picture, "image", "audio", "audio"))


def test_another_clip_is_seen_at_once(engine: HFEngine, picture: Any) -> None:
    right, _ = own_forward(engine, asked(engine, picture, "audio"))
    wrong, _ = own_forward(engine, asked(engine, picture, "audio", first=5))
    assert relative(wrong, right) > 0.05


def test_decoding_behind_audio_is_the_models_generate(engine: HFEngine, picture: Any) -> None:
    made = asked(engine, picture, "image", "audio")
    wanted = own_tokens(engine, made, 6)
    assert our_tokens(engine, made, 6) == wanted
    assert len(wanted) > 1


@pytest.mark.parametrize("num_samples", [480, 800, 1600, 15999, 16000, 16160, 33333, 63999])
def test_as_many_tokens_as_the_tower_makes(engine: HFEngine, num_samples: int) -> None:
    chunk = engine.audio_chunk(clip(num_samples / RATE), sampling_rate=RATE)
    assert len(engine.see(chunk)) == chunk.num_tokens - 2
    assert chunk.extent == chunk.num_tokens
    assert (chunk.layout.local[:, 0] == chunk.layout.local[:, 2]).all()


def test_deepstack_has_nothing_for_sound(engine: HFEngine, family: str) -> None:
    chunk = engine.audio_chunk(clip(0.5), sampling_rate=RATE)
    hidden, embeddings = engine.backbone.text_config.hidden_size, engine.see(chunk)
    assert embeddings.shape[1] == hidden * (4 if family in DEEPSTACK else 1)
    assert (embeddings[:, :hidden] != 0).float().mean() > 0.9  # but for the mark that routers read
    assert not embeddings[:, hidden:].any()


def test_a_file_and_its_samples_are_one_clip(engine: HFEngine, tmp_path: Path) -> None:
    path = write_wave(tmp_path / "a.wav", clip(0.5))
    with wave.open(str(path)) as file:
        stored = np.frombuffer(file.readframes(file.getnframes()), "<i2")
    samples = (stored / 32768).astype(np.float32)
    keys = {
        engine.audio_chunk(path).digest,
        engine.audio_chunk(str(path), sampling_rate=RATE).digest,
        engine.audio_chunk(samples, sampling_rate=RATE).digest,
    }
    assert len(keys) == 1
    assert engine.audio_chunk(samples[:-1], sampling_rate=RATE).digest not in keys
    assert engine.audio_chunk(path, tenant="a").digest not in keys


def test_another_rate_is_refused(engine: HFEngine, tmp_path: Path) -> None:
    path = write_wave(tmp_path / "a.wav", clip(0.5), rate=44100)
    for source, rate in ((path, None), (clip(0.5), 8000)):
        with pytest.raises(ConfigError, match="Resample"):
            engine.audio_chunk(source, sampling_rate=rate)
    with pytest.raises(ConfigError, match="as named"):
        engine.audio_chunk(path, sampling_rate=RATE)


def test_samples_must_name_their_rate(engine: HFEngine) -> None:
    for rate in (None, 16000.0, "16000", True):
        with pytest.raises(ConfigError, match="rate"):
            engine.audio_chunk(clip(0.5), sampling_rate=rate)


@pytest.mark.parametrize(
    "source",
    [
        None,
        b"RIFF",
        [0.1, 0.2],
        np.zeros(800),
        np.zeros((2, 800), np.float32),
        np.zeros(0, np.float32),
        np.full(800, np.nan, np.float32),
        np.zeros(800, np.int16),
    ],
    ids=lambda source: f"{type(source).__name__}-{getattr(source, 'dtype', '')}",
)
def test_what_is_no_clip_is_refused(engine: HFEngine, source: Any) -> None:
    with pytest.raises(ConfigError):
        engine.audio_chunk(source, sampling_rate=RATE)


def test_files_that_are_no_audio_are_refused(engine: HFEngine, tmp_path: Path) -> None:
    whole = write_wave(tmp_path / "whole.wav", clip(0.5)).read_bytes()
    bad = {
        "empty.wav": b"",
        "text.wav": b"not audio",
        "cut.wav": whole[:-1000],
        "head.wav": whole[:20],
    }
    for name, content in bad.items():
        (tmp_path / name).write_bytes(content)
        with pytest.raises(ConfigError, match=name):
            engine.audio_chunk(tmp_path / name)
    stereo = write_wave(tmp_path / "stereo.wav", clip(0.5), channels=2)
    with pytest.raises(ConfigError, match="2 channels"):
        engine.audio_chunk(stereo)
    with pytest.raises(ConfigError, match=r"nowhere\.wav"):
        engine.audio_chunk(tmp_path / "nowhere.wav")


def test_a_short_clip_is_exact_or_refused(engine: HFEngine) -> None:
    served = []
    for count in (1, 100, 159, 160, 320, 480, 640):
        try:
            chunk = engine.audio_chunk(clip(count / RATE), sampling_rate=RATE)
        except ConfigError:
            continue
        assert len(engine.see(chunk)) == chunk.num_tokens - 2 >= 1
        served.append(count)
    assert served[-2:] == [480, 640]
    assert 1 not in served


def test_a_clip_that_the_extractor_would_cut_off_is_refused(engine: HFEngine, family: str) -> None:
    long = clip(4.2)  # the checkpoint's extractor is of 4 s
    if family == "qwen2_5_omni":
        with pytest.raises(ConfigError, match="at most 4 s"):
            engine.audio_chunk(long, sampling_rate=RATE)
    else:
        chunk = engine.audio_chunk(long, sampling_rate=RATE)
        assert len(engine.see(chunk)) == chunk.num_tokens - 2


def test_audio_is_refused_where_the_model_has_no_ear(tiny: Path) -> None:
    engine = HFEngine.from_pretrained(tiny)
    with pytest.raises(ConfigError, match="takes no audio"):
        engine.audio_chunk(clip(0.5), sampling_rate=RATE)
