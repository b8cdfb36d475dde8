"""Train a nano checkpoint: `python -m kamera.lab.nano.train NAME OUT`. Seeded.

`gqa` learns from labels alone, in two stages: the vision tower (`vision_stage`), then the language model on
the frozen tower's embeddings (`language_stage`). The others begin from a trained nano-gqa and learn its
embeddings (`recipes`). Only train-split pixels are used.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any

import numpy as np
import torch
from safetensors.torch import load_file

import kamera
from kamera.lab.nano.checkpoint import save_checkpoint
from kamera.lab.nano.family import NAMES, Family, load_family
from kamera.lab.nano.frame_pool import build_pool, draw_half, draw_large, draw_small, draw_tile
from kamera.lab.nano.language_stage import train_language
from kamera.lab.nano.lessons import WHOLE, draw_pools
from kamera.lab.nano.recipes import Seen, Trainee
from kamera.lab.nano.sequences import Layout, Sampler
from kamera.lab.nano.vision_stage import Phase, train_vision


def vision(model: Any, family: Family, seed: int) -> None:
    """Stage 1 of gqa: tiles and half frames first, where digits are cheap; then whole frames."""
    tile = build_pool(draw_tile, 12000, seed + 1)
    half = build_pool(draw_half, 8000, seed + 2)
    small = build_pool(draw_small, 1500, seed + 3)
    large = build_pool(draw_large("train", True), 6000, seed + 4)
    held_out = build_pool(draw_large("test", False), 600, seed + 5)
    phases = [
        Phase([tile, half], [192, 64], 1600, 2e-3),
        Phase([large, large, tile, large, small, half], [24, 24, 96, 24, 32, 48], 1500, 1.5e-3),
        Phase([large, half, large, tile, large, small], [24, 64, 24, 128, 24, 32], 1200, 1.5e-3),
        Phase([tile, half, large, tile, half, small], [192, 64, 24, 192, 64, 32], 1200, 1.2e-3),
    ]
    train_vision(model, family, phases, held_out, seed=seed)


@torch.no_grad()
def language_pools(model: Any, family: Family, seed: int) -> dict[str, Seen]:
    """Train-split frames by kind, embedded once."""
    pools = draw_pools(WHOLE, seed=seed)
    return {
        name: Seen(
            pool.frames,
            torch.cat([family.embed(model, part) for part in torch.split(pool.images, 64)]),
        )
        for name, pool in pools.items()
    }


def train_gqa(family: Family, options: argparse.Namespace) -> Any:
    """Both stages from nothing."""
    model, tokenizer = family.build(options.out, seed=options.seed)
    if options.vision_weights:
        model.model.visual.load_state_dict(load_file(options.vision_weights))
    else:
        vision(model, family, options.seed)
    for parameter in model.model.visual.parameters():
        parameter.requires_grad_(False)
    pools = language_pools(model, family, options.seed)
    train_language(
        model,
        Sampler(pools, np.random.default_rng(options.seed + 20)),
        Layout(tokenizer, pools, family),
        steps=options.steps,
        seed=options.seed,
        on_check=lambda _: model.save_pretrained(options.out),
    )
    return model


def train_from(family: Family, options: argparse.Namespace) -> Any:
    """The family's recipe, with a trained nano-gqa as its teacher."""
    from transformers import AutoModelForImageTextToText, AutoTokenizer

    teacher = AutoModelForImageTextToText.from_pretrained(options.teacher, dtype=torch.float32)
    teacher_tokenizer = AutoTokenizer.from_pretrained(options.teacher)
    model, tokenizer = family.build(options.out, seed=options.seed)
    trainee = Trainee(family, model, tokenizer, seed=options.seed, share=options.share)
    trainee.learn(teacher.eval(), teacher_tokenizer)
    return model


def parse(arguments: list[str] | None = None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("name", choices=NAMES)
    parser.add_argument("out", type=Path, help="folder of the checkpoint")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--threads", type=int, default=2)
    parser.add_argument("--steps", type=int, default=4500, help="gqa: steps of the language stage")
    parser.add_argument("--vision-weights", type=Path, help="gqa: a trained tower, skips stage 1")
    parser.add_argument(
        "--teacher",
        type=Path,
        default=kamera.packaged_model(),
        help="the others: a trained nano-gqa",
    )
    parser.add_argument(
        "--share", type=float, default=1.0, help="the others: this share of all steps and frames"
    )
    return parser.parse_args(arguments)


def main(arguments: list[str] | None = None) -> None:
    """Build, train, save."""
    options = parse(arguments)
    torch.set_num_threads(options.threads)
    clock = time.monotonic()
    family = load_family(options.name)
    model = (train_gqa if options.name == "gqa" else train_from)(family, options)
    if options.name == "gqa":
        model.save_pretrained(options.out)
    else:
        save_checkpoint(model, options.out)
    print(f"done {time.monotonic() - clock:.0f}s", flush=True)


if __name__ == "__main__":
    main()
