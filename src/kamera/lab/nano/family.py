"""What the stages need to know of a checkpoint's family: builder, pixels, chat format, positions."""

from __future__ import annotations

import importlib
import json
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

NAMES = ("gqa", "deepstack", "mla", "mha")
CLIP_MEAN, CLIP_STD = (
    (0.48145466, 0.4578275, 0.40821073),
    (0.26862954, 0.26130258, 0.27577711),
)
HALF_MEAN = HALF_STD = (0.5, 0.5, 0.5)


@dataclass(frozen=True)
class Chat:
    """The text around the frames of a window, as the chat template writes it.

    `after` lists what may follow a frame's tokens; a batch takes one of them.
    """

    opening: str
    before: str
    pad: str
    after: tuple[str, ...]
    answer: str
    """What closes the question and opens the answer."""
    end: str
    turn: str
    """What lies between an answer and the next question."""


QWEN_CHAT = Chat(
    opening="<|im_start|>user\n",
    before="<|vision_start|>",
    pad="<|image_pad|>",
    after=("<|vision_end|>",),
    answer="<|im_end|>\n<|im_start|>assistant\n",
    end="<|im_end|>",
    turn="<|im_end|>\n<|im_start|>user\n",
)


@dataclass(frozen=True)
class Family:
    """One nano checkpoint's family.

    `vision_inputs` takes frames, uint8 `[num_frames, size, size, 3]`, and gives what the checkpoint's own
    processor would: the arguments of `get_image_features`. `tower` names the modules of `model.model` that
    make the embeddings. `mrope` tells positions of three axes from those that count tokens one by one.
    """

    name: str
    build: Callable[..., tuple[Any, Any]]
    vision_inputs: Callable[[Tensor], dict[str, Tensor]]
    tower: tuple[str, ...]
    chat: Chat
    mrope: bool
    last: tuple[str, ...]
    """The last linear layer of the embeddings, then of each deepstack level, below `model.model`."""
    frame_px: int | None = None
    """The one size to which every image is brought, if the family has one."""

    def tower_modules(self, model: Any) -> list[Any]:
        """The modules that turn pixels into embeddings."""
        return [getattr(model.model, name) for name in self.tower]

    def last_layers(self, model: Any) -> list[Any]:
        """The linear layers whose outputs are the embeddings and the deepstack features."""
        return [model.model.get_submodule(name) for name in self.last]

    def embed(self, model: Any, images: Tensor) -> Tensor:
        """`[num_frames, tokens, hidden * (1 + levels)]`: embeddings, then deepstack features."""
        out = model.model.get_image_features(**self.vision_inputs(images))
        features = torch.stack(list(out.pooler_output))
        deeper = getattr(out, "deepstack_features", None) or []
        levels = [torch.cat(tuple(level)).view_as(features) for level in deeper]
        return torch.cat([features, *levels], -1)


def load_family(name: str) -> Family:
    """The family of this name.

    Raises:
        ValueError: no such checkpoint.
    """
    if name not in NAMES:
        raise ValueError(f"No nano checkpoint {name!r}: expected one of {NAMES}")
    family: Family = importlib.import_module(f"kamera.lab.nano.{name}").FAMILY
    return family


def normalized(images: Tensor, mean: tuple[float, ...], std: tuple[float, ...]) -> Tensor:
    """Frames as channels first, float32 `[num_frames, 3, size, size]`."""
    scaled = images.float() / 255
    return ((scaled - torch.tensor(mean)) / torch.tensor(std)).permute(0, 3, 1, 2)


def merged_patches(pixels: Tensor, patch: int = 14) -> dict[str, Tensor]:
    """Qwen's layout: rows of a patch each, block by block of 2 x 2, and each pixel twice (in time)."""
    count, _, size, _ = pixels.shape
    side = size // patch
    blocks = pixels.view(count, 3, side // 2, 2, patch, side // 2, 2, patch)
    rows = blocks.permute(0, 2, 5, 3, 6, 1, 4, 7).reshape(-1, 3, 1, patch, patch)
    twice = rows.expand(-1, -1, 2, -1, -1)
    return {
        "pixel_values": twice.reshape(len(rows), -1),
        "image_grid_thw": torch.tensor([[1, side, side]] * count),
    }


def save_files(folder: Path, files: dict[str, Any]) -> None:
    """JSON files of the checkpoint that no class writes for us."""
    for name, content in files.items():
        (folder / name).write_text(json.dumps(content, indent=2, sort_keys=True) + "\n")
