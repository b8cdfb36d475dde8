"""The pixels of a video as the Qwen-VL and GLM-V towers take them, without torchvision.

Transformers' own video processors need torchvision. This is their arithmetic in plain torch, operation for
operation, so that the values are the same bits; their settings are read from the checkpoint's own files.
Frames aren't sampled here: which frames of a video are shown, and at which rate, is the caller's choice.
"""

from __future__ import annotations

import dataclasses
import json
import math
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Literal

import torch
from jaxtyping import Float32, Int64, UInt8
from torch import Tensor

_BUDGETS: dict[str, Literal["frame", "clip"]] = {
    "Qwen2VLVideoProcessor": "frame",
    "Qwen3VLVideoProcessor": "clip",
    "Glm4vVideoProcessor": "clip",
}
"""Transformers' classes whose arithmetic this is, by what they count the pixels of."""

_RESAMPLING = {2: "bilinear", 3: "bicubic"}
"""PIL's numbers, as settings files have them."""


@dataclass(frozen=True)
class VideoProcessor:
    """A family's settings; the defaults that differ between families are given by their tables.

    Attributes:
        shortest_edge: least pixels, of a frame or of the whole clip (`budget`).
        longest_edge: most pixels.
        budget: what the two bounds count: one `frame` (Qwen2-VL, Qwen2.5-VL) or the `clip` (Qwen3-VL, GLM-V).
        mean, std: of the normalization, by channel.
        takes_pixel_bounds: whether `min_pixels` and `max_pixels` of old settings files set the bounds.
        always: bounds that the family's processor sets whatever the files say (the Omni models).
    """

    shortest_edge: int
    longest_edge: int
    budget: Literal["frame", "clip"]
    patch_size: int
    mean: tuple[float, ...]
    std: tuple[float, ...]
    temporal_patch_size: int = 2
    merge_size: int = 2
    resample: int = 3
    rescale_factor: float = 1 / 255
    do_resize: bool = True
    do_rescale: bool = True
    do_normalize: bool = True
    cap_pixels_per_frame: bool = False
    max_video_tokens: int = 768
    takes_pixel_bounds: bool = False
    always: tuple[int, int] | None = None

    def with_settings(self, settings: Mapping[str, Any]) -> VideoProcessor:
        """These defaults, changed by a settings file.

        Raises:
            ValueError: another class of processor, a resampling filter that isn't served, or a size without
                both bounds.
        """
        found = {name: settings[name] for name in _PLAIN if settings.get(name) is not None}
        named = settings.get("video_processor_type")
        if named is not None and _BUDGETS.get(named) != self.budget:
            own = [name for name, budget in _BUDGETS.items() if budget == self.budget]
            raise ValueError(f"Videos of {named!r} aren't served in this family: expected {own}")
        for ours, theirs in (("mean", "image_mean"), ("std", "image_std")):
            if settings.get(theirs) is not None:
                found[ours] = tuple(float(value) for value in settings[theirs])
        size = dict(settings.get("size") or {})
        if self.takes_pixel_bounds:
            for edge, bound in (("shortest_edge", "min_pixels"), ("longest_edge", "max_pixels")):
                if settings.get(bound) is not None:
                    size[edge] = settings[bound]
        if self.always is not None:
            size = dict(zip(("shortest_edge", "longest_edge"), self.always, strict=True))
        if size and not {"shortest_edge", "longest_edge"} <= set(size):
            raise ValueError(
                f"A video's size needs shortest_edge and longest_edge, in pixels; got {size}"
            )
        found |= {edge: int(size[edge]) for edge in ("shortest_edge", "longest_edge") if size}
        made = dataclasses.replace(self, **found)
        if made.resample not in _RESAMPLING:
            raise ValueError(
                f"Resampling filter {made.resample} isn't served for videos: expected one of "
                f"{sorted(_RESAMPLING)} ({', '.join(_RESAMPLING.values())})"
            )
        return made

    def to_dict(self) -> dict[str, Any]:
        """All settings as plain data: what decides the pixels beside this code."""
        return dataclasses.asdict(self)

    def __call__(
        self, frames: UInt8[Tensor, "N 3 height width"]
    ) -> tuple[Float32[Tensor, "patches values"], Int64[Tensor, "1 3"]]:
        """Resize, normalize and cut into patches; the last frame is repeated to whole temporal patches.

        Returns:
            The patches in the tower's order, and the grid of them: T, rows, columns.

        Raises:
            ValueError: frames too few or of a shape that the family refuses.
        """
        if self.do_resize:
            height, width = self.resized(len(frames), *frames.shape[-2:])
            frames = self._resize(frames, height, width)
        return self._patchify(self._normalize(frames))

    def resized(self, num_frames: int, height: int, width: int) -> tuple[int, int]:
        """Height and width of each frame, in pixels.

        Raises:
            ValueError: too few frames, or a side more than 200 times the other.
        """
        factor = self.patch_size * self.merge_size
        if self.budget == "frame":
            return fit_pixels(height, width, factor, self.shortest_edge, self._most(num_frames), 1)
        if num_frames < self.temporal_patch_size:
            raise ValueError(
                f"a video of {num_frames} frames: expected at least {self.temporal_patch_size}"
            )
        if min(height, width) < factor:
            scale = max(factor / height, factor / width)
            height, width = int(height * scale), int(width * scale)
        most = self._most(num_frames)
        return fit_pixels(
            height, width, factor, self.shortest_edge, most, num_frames, self.temporal_patch_size
        )

    def _most(self, num_frames: int) -> int:
        """Most pixels: the longest edge, or less where the settings cap a frame's share of the budget."""
        if not self.cap_pixels_per_frame:
            return self.longest_edge
        area = (self.patch_size * self.merge_size) ** 2
        if self.budget == "frame":
            total = int(self.max_video_tokens * area * 0.9)
            share = total * self.temporal_patch_size // num_frames
            return max(min(self.longest_edge, share), int(self.shortest_edge * 1.05))
        share = min(self.max_video_tokens * area, self.longest_edge // num_frames)
        return max(share, int(self.shortest_edge * 1.05)) * num_frames

    def _resize(self, frames: Tensor, height: int, width: int) -> Tensor:
        if tuple(frames.shape[-2:]) == (height, width):
            return frames
        return torch.nn.functional.interpolate(
            frames, size=(height, width), mode=_RESAMPLING[self.resample], antialias=True
        )

    def _normalize(self, frames: Tensor) -> Tensor:
        if not self.do_normalize:
            return frames * self.rescale_factor if self.do_rescale else frames.float()
        mean, std = torch.tensor(self.mean), torch.tensor(self.std)
        if self.do_rescale:  # one step instead of two, as the processors do it
            mean, std = mean * (1.0 / self.rescale_factor), std * (1.0 / self.rescale_factor)
        return frames.float().sub_(mean[:, None, None]).div_(std[:, None, None])

    def _patchify(self, frames: Tensor) -> tuple[Tensor, Tensor]:
        missing = -len(frames) % self.temporal_patch_size
        frames = torch.cat([frames, frames[-1:].expand(missing, -1, -1, -1)])
        size, merge = self.patch_size, self.merge_size
        steps = len(frames) // self.temporal_patch_size
        rows, columns = frames.shape[-2] // size, frames.shape[-1] // size
        cut = frames.reshape(
            steps, self.temporal_patch_size, frames.shape[1],
            rows // merge, merge, size, columns // merge, merge, size,
        )  # fmt: skip
        patches = cut.permute(0, 3, 6, 4, 7, 2, 1, 5, 8).reshape(steps * rows * columns, -1)
        return patches.contiguous(), torch.tensor([[steps, rows, columns]])


_PLAIN = (
    "patch_size",
    "temporal_patch_size",
    "merge_size",
    "resample",
    "rescale_factor",
    "do_resize",
    "do_rescale",
    "do_normalize",
    "cap_pixels_per_frame",
    "max_video_tokens",
)


def fit_pixels(
    height: int,
    width: int,
    factor: int,
    least: int,
    most: int,
    num_frames: int,
    temporal_factor: int = 1,
) -> tuple[int, int]:
    """Sides as multiples of `factor`, their product over all frames within bounds, the shape kept.

    Raises:
        ValueError: a side more than 200 times the other.
    """
    if max(height, width) > 200 * min(height, width):
        raise ValueError(f"frames of {width} x {height}: expected sides at most 200 times apart")
    rows, columns = round(height / factor) * factor, round(width / factor) * factor
    steps = round(num_frames / temporal_factor) * temporal_factor
    if steps * rows * columns > most:
        shrink = math.sqrt(num_frames * height * width / most)
        rows = max(factor, math.floor(height / shrink / factor) * factor)
        columns = max(factor, math.floor(width / shrink / factor) * factor)
    elif steps * rows * columns < least:
        grow = math.sqrt(least / (num_frames * height * width))
        rows = math.ceil(height * grow / factor) * factor
        columns = math.ceil(width * grow / factor) * factor
    return rows, columns


def read_settings(folder: Path) -> dict[str, Any] | None:
    """A checkpoint's settings for videos, from the file that Transformers would take; None without one.

    Raises:
        ValueError: a file that isn't JSON.
    """
    nested = _read(folder / "processor_config.json").get("video_processor")
    if nested:
        return dict(nested)
    for name in ("video_preprocessor_config.json", "preprocessor_config.json"):
        settings = _read(folder / name)
        if settings:
            return settings
    return None


def _read(path: Path) -> dict[str, Any]:
    if not path.is_file():
        return {}
    found: dict[str, Any] = json.loads(path.read_text())
    return found
