"""Load a checkpoint from a local folder: its model, tokenizer and media processors, by its family."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
import transformers
from safetensors import SafetensorError
from transformers import (
    AutoConfig,
    AutoFeatureExtractor,
    AutoImageProcessor,
    AutoTokenizer,
    ImageProcessingMixin,
)

from kamera.engines.hf.backbone import Backbone
from kamera.engines.hf.families import family_of
from kamera.engines.hf.family import Family
from kamera.engines.hf.kimi_images import Kimi_K25ImageProcessorPil
from kamera.engines.hf.modality import Modality
from kamera.engines.hf.video_processor import VideoProcessor, read_settings
from kamera.errors import ConfigError, KameraError, UnsupportedModelError
from kamera.support import read_config

_LOADING = (
    ValueError,
    OSError,
    KeyError,
    AttributeError,
    ImportError,
    RuntimeError,
    SafetensorError,
)
"""What Transformers raises for files that it can't load: an ImportError for a quantizer that isn't there."""


@dataclass(frozen=True)
class Checkpoint:
    """What a folder holds. `processors` by kind of media: the family's own."""

    backbone: Backbone
    tokenizer: Any
    processors: dict[str, Any]
    folder: Path


def load(folder: str | Path, *, dtype: str, device: str) -> Checkpoint:
    """Load a checkpoint.

    Raises:
        ConfigError: the folder isn't a checkpoint, or there is no such dtype or device.
        UnsupportedModelError: its model type, rotary scheme or layers can't be served.
    """
    path = Path(folder)
    if not (path / "config.json").is_file():
        raise ConfigError(
            f"No checkpoint in {path}: expected a folder with config.json, weights, tokenizer and "
            "image processor files"
        )
    named = getattr(torch, dtype, None)
    if dtype != "auto" and not (isinstance(named, torch.dtype) and named.is_floating_point):
        raise ConfigError(f"No dtype {dtype!r}: expected 'auto', 'float32' or 'bfloat16'")
    family = family_of(read_config(path))
    _check_readable(path)
    try:
        model = _model(path, family, dtype)
        tokenizer = _tokenizer(path)
        processors = {modality.kind: _processor(modality, path) for modality in family.modalities}
    except KameraError:
        raise
    except _LOADING as error:
        raise ConfigError(f"Can't load the checkpoint in {path}: {error}") from error
    try:
        model = model.to(device)
    except (RuntimeError, AssertionError) as error:
        raise ConfigError(
            f"Can't use the device {device!r}: {str(error).splitlines()[0]}"
        ) from error
    return Checkpoint(Backbone(model, family), tokenizer, processors, path)


def _model(path: Path, family: Family, dtype: str) -> Any:
    """The model with every tensor from the file: what is missing would be drawn at random."""
    if (path / "adapter_config.json").is_file():
        raise ConfigError(
            f"An adapter lies in {path}: expected a whole checkpoint; merge it into its model first"
        )
    model_class = getattr(transformers, family.model_class)
    model, info = model_class.from_pretrained(
        path, dtype=dtype, use_safetensors=True, output_loading_info=True
    )
    lost = sorted(map(str, (*info["missing_keys"], *info["mismatched_keys"])))
    if lost:
        raise ConfigError(
            f"The weights in {path} lack {len(lost)} tensors of {family.model_class}, or have them in "
            f"another shape, the first {lost[0]}: expected all of them; the checkpoint is damaged, or of "
            "another class"
        )
    return model


def _check_readable(path: Path) -> None:
    """Transformers' own reading of the config; what it says of a bad one is passed on."""
    try:
        AutoConfig.from_pretrained(path)
    except (ValueError, OSError, KeyError, TypeError, AttributeError) as error:
        raise UnsupportedModelError(
            f"Transformers can't read {path / 'config.json'}: expected a config of its own; it said: "
            f"{str(error).splitlines()[0]}"
        ) from error


def _tokenizer(path: Path) -> Any:
    """The tokenizer, with the template that the family's processor would take: it may have its own file."""
    tokenizer = AutoTokenizer.from_pretrained(path)
    of_processor = path / "chat_template.json"
    if of_processor.is_file():
        tokenizer.chat_template = json.loads(of_processor.read_text())["chat_template"]
    return tokenizer


def _processor(modality: Modality, path: Path) -> Any:
    return _LOADERS[modality.kind](path, modality)


def _image_processor(path: Path, modality: Modality) -> Any:
    settings, _ = ImageProcessingMixin.get_image_processor_dict(path)
    ours = _PIL_PROCESSORS.get(settings.get("image_processor_type", ""))
    if ours is not None:
        return ours.from_pretrained(path)
    return AutoImageProcessor.from_pretrained(path, backend="pil")


_PIL_PROCESSORS = {"Kimi_K25ImageProcessor": Kimi_K25ImageProcessorPil}
"""Classes that Transformers has for torchvision alone."""


def _video_processor(path: Path, modality: Any) -> VideoProcessor | None:
    settings = read_settings(path)
    return None if settings is None else modality.processor.with_settings(settings)


def _audio_processor(path: Path, modality: Modality) -> Any:
    return AutoFeatureExtractor.from_pretrained(path)


_LOADERS = {"image": _image_processor, "video": _video_processor, "audio": _audio_processor}
