"""A clip of sound -> the audio tower's inputs, with an identity over all that decides them."""

from __future__ import annotations

import wave
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt
import torch
from jaxtyping import Float32

from kamera.chunk import Media
from kamera.engines.hf.images import processor_settings
from kamera.engines.hf.modality import Modality
from kamera.errors import ConfigError
from kamera.identity import MediaIdentity

Samples = Float32[npt.NDArray[np.float32], " samples"]

LOUDEST = 2.0
"""Samples of [-1, 1] that a resampler let overshoot stay well below; integers taken for floats lie above."""


@dataclass(frozen=True, eq=False)
class Audio:
    """A clip as a caller names it.

    Attributes:
        source: a path to a WAV file, or mono samples in [-1, 1], a float32 array.
        sampling_rate: of the samples, in Hz; a file names its own.
    """

    source: Any
    sampling_rate: Any = None


def process_audio(audio: Audio, processor: Any, modality: Modality) -> tuple[Media, MediaIdentity]:
    """The log-mel features of the clip alone, without the padding that the tower would drop.

    Raises:
        ConfigError: a clip that can't be read, at another rate than the model's, silent of samples, or longer
            than the extractor takes.
    """
    samples, rate = read_samples(audio)
    if rate != processor.sampling_rate:
        raise ConfigError(
            f"Audio at {rate} Hz: expected the model's {processor.sampling_rate} Hz. Resample it first."
        )
    if modality.options.get("padding") == "max_length" and len(samples) > processor.n_samples:
        raise ConfigError(
            f"Audio of {len(samples) / rate:.1f} s: expected at most {processor.n_samples / rate:.0f} s, "
            "where the extractor would cut it off. Split it."
        )
    try:
        out = processor(
            [samples],
            sampling_rate=rate,
            return_attention_mask=True,
            return_tensors="pt",
            **modality.options,
        )
    except (ValueError, RuntimeError) as error:  # too short to be padded, most likely
        raise ConfigError(
            f"Can't process audio of {len(samples)} samples: expected some hundredths of a second that "
            f"the checkpoint's extractor takes, got: {str(error).splitlines()[0]}"
        ) from error
    length = int(out["attention_mask"].sum())
    inputs = {
        "input_features": out["input_features"][:, :, :length].contiguous(),
        "feature_attention_mask": torch.ones(1, length, dtype=torch.int64),
    }
    source = {"sampling_rate": rate, "num_samples": len(samples)}
    identity = MediaIdentity(inputs, processor_settings(processor), source)
    return Media(inputs, identity.digest), identity


def read_samples(audio: Audio) -> tuple[Samples, int]:
    """Mono samples and their rate in Hz.

    Raises:
        ConfigError: neither a WAV file of one 16-bit channel nor an array of float32 with its rate.
    """
    source = audio.source
    if isinstance(source, str | Path):
        return _read_wave(Path(source), audio.sampling_rate)
    if not isinstance(source, np.ndarray) or source.dtype != np.float32 or source.ndim != 1:
        got = (
            f"{source.dtype} of shape {list(source.shape)}"
            if isinstance(source, np.ndarray)
            else type(source).__qualname__
        )
        raise ConfigError(
            f"Not audio: expected a path to a WAV file or mono samples as a float32 array, got {got}"
        )
    if type(audio.sampling_rate) is not int:
        raise ConfigError(
            f"Samples without their rate: expected sampling_rate in Hz, got {audio.sampling_rate!r}"
        )
    if not len(source) or not np.isfinite(source).all():
        raise ConfigError("Invalid samples: expected at least one, all finite")
    loudest = float(np.abs(source).max())
    if loudest > LOUDEST:
        raise ConfigError(
            f"Samples up to {loudest:.4g}: expected them in [-1, 1]; divide 16-bit integers by 32768"
        )
    return source, audio.sampling_rate


def _read_wave(path: Path, expected: Any) -> tuple[Samples, int]:
    try:
        with wave.open(str(path), "rb") as file:
            channels, width = file.getnchannels(), file.getsampwidth()
            rate, count = file.getframerate(), file.getnframes()
            content = file.readframes(count)
    except FileNotFoundError:
        raise ConfigError(f"No audio at {path}: expected a WAV file") from None
    except (wave.Error, OSError, EOFError, ValueError) as error:
        raise ConfigError(
            f"Can't read audio {path}: expected a WAV file of 16-bit PCM, got: {error}"
        ) from error
    if (channels, width) != (1, 2):
        raise ConfigError(
            f"Audio {path} has {channels} channels of {8 * width} bits: expected one of 16 bits"
        )
    if not count or len(content) != 2 * count:
        raise ConfigError(
            f"Audio {path} is empty or cut off: expected {count} samples, got {len(content) // 2}"
        )
    if expected not in (None, rate):
        raise ConfigError(f"Audio {path} is at {rate} Hz: expected {expected} Hz, as named")
    # 16-bit samples to [-1, 1), as audio libraries read them
    return (np.frombuffer(content, dtype="<i2") / np.float32(32768)).astype(np.float32), rate
