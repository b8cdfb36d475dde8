"""An image file or PIL image -> the processor's outputs, with an identity over all that decides them."""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import numpy as np
import torch
from PIL import Image, UnidentifiedImageError

from kamera.chunk import Media
from kamera.engines.hf.modality import Modality
from kamera.errors import ConfigError
from kamera.identity import MediaIdentity

EXIF_ORIENTATION = 0x0112


def open_image(source: Any) -> Image.Image:
    """Load an image whole.

    Raises:
        ConfigError: no such file, not an image, or a corrupt or truncated one.
    """
    if isinstance(source, Image.Image):
        return source
    if not isinstance(source, str | Path):
        raise ConfigError(
            f"Not an image: expected a path or a PIL image, got {type(source).__qualname__}"
        )
    path = Path(source)
    try:
        with warnings.catch_warnings(), Image.open(path) as image:
            warnings.simplefilter("error", Image.DecompressionBombWarning)
            image.load()
            return image.copy() if image.getexif() == {} else _with_exif(image)
    except FileNotFoundError:
        raise ConfigError(f"No image at {path}: expected a PNG or JPEG file") from None
    except (UnidentifiedImageError, OSError, SyntaxError, ValueError) as error:
        raise ConfigError(
            f"Can't read image {path}: expected a whole PNG or JPEG file, got: {error}"
        ) from error
    except (Image.DecompressionBombWarning, Image.DecompressionBombError) as error:
        raise ConfigError(f"Image {path} is too large to be decoded safely: {error}") from error


def process(image: Image.Image, processor: Any, modality: Modality) -> tuple[Media, MediaIdentity]:
    """Upright, opaque RGB, then the checkpoint's own processor.

    EXIF orientation is applied. Transparency is laid on white, since dropping alpha would show whatever
    the file hides under it. Both are named in the identity.

    Raises:
        ConfigError: pixels that can't be decoded, or a size that the processor refuses.
    """
    try:
        upright, source = to_rgb(image)
        out = processor(images=[upright], return_tensors="pt", **modality.options)
    except (ValueError, TypeError, OSError, SyntaxError, ArithmeticError) as error:
        width, height = image.size
        raise ConfigError(
            f"Can't process an image of {width} x {height} pixels, mode {image.mode}: expected one that "
            f"the checkpoint's processor takes, got: {error}"
        ) from error
    inputs = {name: torch.as_tensor(out[name]) for name in (*modality.inputs, *modality.extras)}
    identity = MediaIdentity(inputs, processor_settings(processor), source)
    return Media(inputs, identity.digest), identity


def to_rgb(image: Image.Image) -> tuple[Image.Image, dict[str, Any]]:
    """Upright, opaque RGB, and what of the source was read, for the identity.

    Raises:
        ValueError, OSError, SyntaxError: pixels that can't be decoded, or of no known range.
    """
    if not min(image.size):
        raise ValueError("it has no pixel")
    orientation = int(image.getexif().get(EXIF_ORIENTATION, 1) or 1)
    upright, alpha = _opaque(_upright(image, orientation))
    return upright, {
        "mode": image.mode,
        "size": list(image.size),
        "exif_orientation": orientation if 1 <= orientation <= 8 else 1,
        "alpha": alpha,
        "palette": _palette(image),
    }


def processor_settings(processor: Any) -> dict[str, Any]:
    """The processor's own settings as plain data: what decides its outputs beside its code."""
    settings: dict[str, Any] = _plain(processor.to_dict())
    return settings


def _with_exif(image: Image.Image) -> Image.Image:
    copy = image.copy()
    copy.info["exif"] = image.getexif().tobytes()
    return copy


def _upright(image: Image.Image, orientation: int) -> Image.Image:
    turns = {
        2: Image.Transpose.FLIP_LEFT_RIGHT,
        3: Image.Transpose.ROTATE_180,
        4: Image.Transpose.FLIP_TOP_BOTTOM,
        5: Image.Transpose.TRANSPOSE,
        6: Image.Transpose.ROTATE_270,
        7: Image.Transpose.TRANSVERSE,
        8: Image.Transpose.ROTATE_90,
    }
    return image.transpose(turns[orientation]) if orientation in turns else image


def _opaque(image: Image.Image) -> tuple[Image.Image, str]:
    image = _eight_bit(image)
    if image.mode in ("RGBA", "RGBa", "LA", "PA") or "transparency" in image.info:
        layer = image.convert("RGBA")
        white = Image.new("RGBA", layer.size, (255, 255, 255, 255))
        return Image.alpha_composite(white, layer).convert("RGB"), "on white"
    return image.convert("RGB"), "none"


def _eight_bit(image: Image.Image) -> Image.Image:
    """Deep grey scaled down to 8 bits: Pillow's own conversion cuts it off at 255, so that most is white.

    Raises:
        ValueError: a mode whose values have no known range.
    """
    if image.mode.startswith("I;16"):
        return Image.fromarray((np.asarray(image) >> 8).astype(np.uint8))
    if image.mode == "F" or (image.mode == "I" and not _within_bytes(image)):
        raise ValueError(
            f"mode {image.mode} has no known range, and its values would be cut off at 0 and 255; convert "
            "it to L or RGB"
        )
    return image


def _within_bytes(image: Image.Image) -> bool:
    values = np.asarray(image)
    return bool(values.min() >= 0 and values.max() <= 255)


def _palette(image: Image.Image) -> bytes | None:
    if image.mode != "P" or image.palette is None:
        return None
    return bytes(image.getpalette() or b"")


def _plain(value: Any) -> Any:
    """Settings as plain data: the processor wraps some of them in classes of its own."""
    if value is None or isinstance(value, bool | float | str):
        return value
    if isinstance(value, int):
        return int(value)  # PIL's enums are ints too
    if isinstance(value, list | tuple):
        return [_plain(v) for v in value]
    if hasattr(value, "items"):
        return {str(k): _plain(v) for k, v in value.items()}
    if hasattr(value, "__dict__"):
        return {k: _plain(v) for k, v in vars(value).items() if v is not None}
    return str(value)
