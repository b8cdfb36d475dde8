"""Pixels and their identity: what is shown is what is named."""

import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch
from PIL import Image

from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError

ORIENTATIONS = {
    2: Image.Transpose.FLIP_LEFT_RIGHT,
    3: Image.Transpose.ROTATE_180,
    4: Image.Transpose.FLIP_TOP_BOTTOM,
    5: Image.Transpose.TRANSPOSE,
    6: Image.Transpose.ROTATE_90,
    7: Image.Transpose.TRANSVERSE,
    8: Image.Transpose.ROTATE_270,
}
"""How a camera that writes each tag had turned the upright picture (6: it must be turned back by 270)."""


def values(engine: HFEngine, image: Any) -> torch.Tensor:
    pixels = engine.image_chunk(image).media
    assert pixels is not None
    return pixels.inputs["pixel_values"]


def test_a_path_its_string_and_the_loaded_image_have_one_key(
    engine: HFEngine, picture: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    picture(0).save(path)
    keys = {engine.image_chunk(source).digest for source in (path, str(path), picture(0))}
    with Image.open(path) as opened:
        keys.add(engine.image_chunk(opened).digest)
    assert len(keys) == 1


def test_the_key_is_the_same_in_another_process(
    engine: HFEngine, tiny: Path, picture: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    picture(0).save(path)
    code = (
        "import sys\nfrom kamera.engines.hf import HFEngine\n"
        "engine = HFEngine.from_pretrained(sys.argv[1])\n"
        "print(engine.image_chunk(sys.argv[2], tenant='acme').digest, engine.frame('?')[0].digest)"
    )
    done = subprocess.run(
        [sys.executable, "-c", code, str(tiny), str(path)],
        capture_output=True,
        text=True,
        check=True,
    )
    prefix, _ = engine.frame("?")
    assert prefix is not None
    here = [engine.image_chunk(path, tenant="acme").digest, prefix.digest]
    assert done.stdout.split() == here


def test_one_pixel_by_one_level_is_another_image(engine: HFEngine, picture: Any) -> None:
    other = picture(0).copy()
    red, green, blue = other.getpixel((3, 5))
    other.putpixel((3, 5), (red ^ 128, green, blue))
    first, second = engine.image_chunk(picture(0)), engine.image_chunk(other)
    assert first.key.token_ids == second.key.token_ids  # only the content tells them apart
    assert first.digest != second.digest


def test_a_file_that_changed_in_place_is_another_image(
    engine: HFEngine, picture: Any, tmp_path: Path
) -> None:
    path = tmp_path / "a.png"
    picture(0).save(path)
    before = engine.image_chunk(path).digest
    picture(1).save(path)
    assert engine.image_chunk(path).digest != before


def test_tenants_do_not_share_chunks(engine: HFEngine, picture: Any) -> None:
    keys = {engine.image_chunk(picture(0), tenant=t).digest for t in (None, "", "a", "b")}
    texts = {engine.text_chunk("hello", tenant=t).digest for t in (None, "", "a", "b")}
    assert len(keys) == len(texts) == 4


def test_same_bytes_in_another_shape_are_another_image(engine: HFEngine) -> None:
    raw = np.random.default_rng(0).integers(0, 256, 30 * 100 * 3, dtype=np.uint8)
    wide = engine.image_chunk(Image.fromarray(raw.reshape(30, 100, 3)))
    tall = engine.image_chunk(Image.fromarray(raw.reshape(100, 30, 3)))
    assert wide.num_tokens == tall.num_tokens
    assert wide.digest != tall.digest
    assert not wide.layout.local.equal(tall.layout.local)


def test_uniform_30_by_100_is_not_100_by_30(engine: HFEngine) -> None:
    """Pixels that are all equal flatten to the same bytes: only the grid differs."""
    wide, tall = (engine.image_chunk(Image.new("RGB", s, "red")) for s in ((100, 30), (30, 100)))
    assert wide.media is not None
    assert tall.media is not None
    assert wide.media.inputs["pixel_values"].equal(tall.media.inputs["pixel_values"])
    assert wide.digest != tall.digest


@pytest.mark.parametrize("tag", ORIENTATIONS)
@pytest.mark.parametrize("source", ["path", "opened"])
def test_an_image_turned_by_exif_shows_the_upright_pixels(
    engine: HFEngine, picture: Any, tmp_path: Path, tag: int, source: str
) -> None:
    upright = picture(0, 112, 56)
    exif = Image.Exif()
    exif[0x0112] = tag
    path = tmp_path / "turned.png"
    upright.transpose(ORIENTATIONS[tag]).save(path, exif=exif)
    if source == "path":
        assert values(engine, path).equal(values(engine, upright))
    else:
        with Image.open(path) as opened:
            assert values(engine, opened).equal(values(engine, upright))


def test_an_exif_jpeg_equals_its_upright_decoding(
    engine: HFEngine, picture: Any, tmp_path: Path
) -> None:
    exif = Image.Exif()
    exif[0x0112] = 6
    plain, turned = tmp_path / "plain.jpg", tmp_path / "turned.jpg"
    picture(0, 112, 56).save(plain)
    picture(0, 112, 56).save(turned, exif=exif)
    with Image.open(plain) as stored:
        upright = stored.transpose(Image.Transpose.ROTATE_270)
    assert values(engine, turned).equal(values(engine, upright))
    assert engine.image_chunk(turned).digest != engine.image_chunk(plain).digest


def test_transparency_is_laid_on_white_and_hides_what_is_under_it(engine: HFEngine) -> None:
    white = values(engine, Image.new("RGB", (84, 56), "white"))
    secret = np.random.default_rng(0).integers(0, 256, (56, 84, 4), dtype=np.uint8)
    secret[..., 3] = 0
    grey = Image.fromarray(secret[..., 0]).convert("LA")
    grey.putalpha(0)
    palette = Image.new("P", (84, 56), 0)
    palette.putpalette([255, 0, 0] * 256)
    palette.info["transparency"] = 0
    for hidden in (Image.fromarray(secret), grey, palette, Image.fromarray(secret).convert("RGBa")):
        assert values(engine, hidden).equal(white), hidden.mode


def test_half_transparency_is_blended(engine: HFEngine) -> None:
    half = Image.new("RGBA", (84, 56), (0, 0, 0, 128))
    blended = Image.new("RGB", (84, 56), (127, 127, 127))
    assert values(engine, half).equal(values(engine, blended))


def test_an_opaque_alpha_channel_shows_the_same_pixels(engine: HFEngine, picture: Any) -> None:
    opaque = picture(0).convert("RGBA")
    assert values(engine, opaque).equal(values(engine, picture(0)))


def test_a_palette_decides_the_pixels_and_the_key(engine: HFEngine) -> None:
    red = Image.new("P", (84, 56), 1)
    blue = red.copy()
    red.putpalette([0, 0, 0, 255, 0, 0])
    blue.putpalette([0, 0, 0, 0, 0, 255])
    assert values(engine, red).equal(values(engine, Image.new("RGB", (84, 56), (255, 0, 0))))
    assert engine.image_chunk(red).digest != engine.image_chunk(blue).digest


@pytest.mark.parametrize("mode", ["1", "L", "P", "CMYK", "YCbCr", "LA", "PA", "RGBA", "RGBX", "I"])
def test_every_common_mode_is_served_as_rgb(engine: HFEngine, mode: str) -> None:
    chunk = engine.image_chunk(Image.new(mode, (84, 56)))
    assert chunk.num_tokens == 8


@pytest.mark.parametrize("size", [(1, 1), (1, 50), (50, 1), (3, 40), (40, 3), (3, 3), (1, 3)])
def test_tiny_images_keep_their_colour(engine: HFEngine, size: tuple[int, int]) -> None:
    """One or three pixels on a side look like a channel dimension to a careless processor."""
    colour = (200, 30, 90)
    expected = values(engine, Image.new("RGB", (84, 56), colour))[0]
    got = values(engine, Image.new("RGB", size, colour))
    assert got.equal(expected.expand_as(got))


@pytest.mark.parametrize("size", [(1, 500), (5000, 10), (0, 5), (5, 0)])
def test_a_size_that_the_processor_refuses_is_a_config_error(
    engine: HFEngine, size: tuple[int, int]
) -> None:
    with pytest.raises(ConfigError, match=f"{size[0]} x {size[1]}"):
        engine.image_chunk(Image.new("RGB", size))


def hostile(tmp_path: Path, name: str, content: bytes) -> Path:
    path = tmp_path / name
    path.write_bytes(content)
    return path


def test_files_that_are_no_images_are_config_errors(
    engine: HFEngine, picture: Any, tmp_path: Path
) -> None:
    for suffix in ("png", "jpg", "gif", "webp"):
        whole = tmp_path / f"whole.{suffix}"
        picture(0).save(whole)
        content = whole.read_bytes()
        bad = {
            f"empty.{suffix}": b"",
            f"text.{suffix}": b"not an image at all",
            f"header.{suffix}": content[:12],
            f"half.{suffix}": content[: len(content) // 2],
        }
        for name, data in bad.items():
            with pytest.raises(ConfigError, match=name):
                engine.image_chunk(hostile(tmp_path, name, data))


@pytest.mark.parametrize("cut", [20, 60, 200, -60])
def test_a_truncated_png_is_a_config_error(
    engine: HFEngine, picture: Any, tmp_path: Path, cut: int
) -> None:
    whole = tmp_path / "whole.png"
    picture(0).save(whole)
    with pytest.raises(ConfigError):
        engine.image_chunk(hostile(tmp_path, "cut.png", whole.read_bytes()[:cut]))


def test_a_truncated_image_that_the_caller_opened_is_a_config_error(
    engine: HFEngine, picture: Any, tmp_path: Path
) -> None:
    whole = tmp_path / "whole.png"
    picture(0).save(whole)
    cut = hostile(tmp_path, "cut.png", whole.read_bytes()[:200])
    with Image.open(cut) as opened, pytest.raises(ConfigError, match="84 x 56"):
        engine.image_chunk(opened)


@pytest.mark.parametrize("source", [None, b"bytes", 3, torch.zeros(3, 8, 8), "a\0b", "/", ""])
def test_what_is_neither_a_path_nor_an_image_is_a_config_error(
    engine: HFEngine, source: Any
) -> None:
    with pytest.raises(ConfigError):
        engine.image_chunk(source)


def test_a_missing_file_is_named(engine: HFEngine, tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"nowhere\.png"):
        engine.image_chunk(tmp_path / "nowhere.png")


def test_a_decompression_bomb_is_a_config_error(
    engine: HFEngine, picture: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "large.png"
    picture(0).save(path)
    for limit in (3000, 1000):  # above the limit it warns, above twice the limit it raises
        monkeypatch.setattr(Image, "MAX_IMAGE_PIXELS", limit)
        with pytest.raises(ConfigError, match="too large"):
            engine.image_chunk(path)


def test_deep_grey_is_scaled_and_not_cut_off(engine: HFEngine) -> None:
    """Pillow's own conversion of 16 bits to 8 turns all above 255 white."""
    deep = np.linspace(0, 65535, 84 * 56).reshape(56, 84).astype(np.uint16)
    shallow = Image.fromarray((deep >> 8).astype(np.uint8))
    assert values(engine, Image.fromarray(deep)).equal(values(engine, shallow))


@pytest.mark.parametrize("mode", ["I", "F"])
def test_a_mode_of_no_known_range_is_refused(engine: HFEngine, mode: str) -> None:
    with pytest.raises(ConfigError, match="no known range"):
        engine.image_chunk(Image.new(mode, (84, 56), 1000))
