"""Train nano-gqa: `python -m kamera.lab.nano.train OUT`. Seeded; about 90 minutes on two cores.

Two stages: the vision tower learns what tokens show (`vision_stage`), then the language model learns to
bind on the frozen tower's embeddings (`language_stage`). Only train-split pixels are used.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

from kamera.lab.nano.frame_pool import (
    FramePool,
    build_pool,
    draw_half,
    draw_item,
    draw_large,
    draw_legend,
    draw_needle,
    draw_small,
    draw_tile,
    load_images,
)
from kamera.lab.nano.gqa import build
from kamera.lab.nano.language_stage import train_language
from kamera.lab.nano.sequences import Layout, Sampler
from kamera.lab.nano.vision_stage import Phase, embed, train_vision


def vision(model: Any, images: Any, seed: int) -> None:
    """Stage 1: tiles and half frames first, where digits are cheap; then whole frames."""
    tile = build_pool(images, draw_tile, 12000, seed + 1)
    half = build_pool(images, draw_half, 8000, seed + 2)
    small = build_pool(images, draw_small, 1500, seed + 3)
    large = build_pool(images, draw_large("train", True), 6000, seed + 4)
    held_out = build_pool(images, draw_large("test", False), 600, seed + 5)
    phases = [
        Phase([tile, half], [192, 64], 1600, 2e-3),
        Phase([large, large, tile, large, small, half], [24, 24, 96, 24, 32, 48], 1500, 1.5e-3),
        Phase([large, half, large, tile, large, small], [24, 64, 24, 128, 24, 32], 1200, 1.5e-3),
        Phase([tile, half, large, tile, half, small], [192, 64, 24, 192, 64, 32], 1200, 1.2e-3),
    ]
    train_vision(model, phases, held_out, seed=seed)


@torch.no_grad()
def embedded(model: Any, pool: FramePool) -> SimpleNamespace:
    """The pool's frames with the frozen tower's embeddings, without their pixels."""
    rows = torch.arange(len(pool.frames)).split(64)  # type: ignore[no-untyped-call]
    features = torch.cat([embed(model, pool, some) for some in rows])
    frames = pool.frames
    for frame in frames:
        object.__setattr__(frame, "image", None)  # gigabytes, not needed any more
    return SimpleNamespace(frames=frames, embeddings=features)


def language_pools(model: Any, images: Any, seed: int) -> dict[str, Any]:
    """Train-split frames by kind, embedded once."""
    draws = {
        "legend": (draw_legend, 6000),
        "item": (draw_item, 3000),
        "needle": (draw_needle, 3000),
        "shell": (draw_small, 1500),
    }
    return {
        name: embedded(model, build_pool(images, draw, count, seed + 10 + i))
        for i, (name, (draw, count)) in enumerate(draws.items())
    }


def save(model: Any, folder: Path) -> None:
    """The weights, float32, in the family's own names."""
    model.save_pretrained(folder)


def main() -> None:
    """Build, train, save."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, help="folder of the checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=6000, help="steps of the language stage")
    parser.add_argument("--rate", type=float, default=1.5e-3, help="its learning rate")
    parser.add_argument("--tokens", type=int, default=3000, help="its tokens a step")
    parser.add_argument("--vision-weights", type=Path, help="a trained tower: skip stage 1")
    options = parser.parse_args()
    torch.set_num_threads(options.threads)
    clock = time.monotonic()
    model, tokenizer = build(options.out, seed=options.seed)
    images = load_images(options.out)
    if options.vision_weights:
        model.model.visual.load_state_dict(load_file(options.vision_weights))
    else:
        vision(model, images, options.seed)
    for parameter in model.model.visual.parameters():
        parameter.requires_grad_(False)
    pools = language_pools(model, images, options.seed)
    print(f"pools {time.monotonic() - clock:.0f}s", flush=True)
    train_language(
        model,
        Sampler(pools, np.random.default_rng(options.seed + 20)),
        Layout(tokenizer, pools),
        steps=options.steps,
        seed=options.seed,
        rate=options.rate,
        tokens=options.tokens,
        on_check=lambda _: save(model, options.out),
    )
    save(model, options.out)
    print(f"done {time.monotonic() - clock:.0f}s", flush=True)


if __name__ == "__main__":
    main()
