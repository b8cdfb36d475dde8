"""What Transformers answers, for vLLM's tests to be judged by. Runs in the main environment, not in vLLM's.

Of each packaged model: every task's items as PNG files and chat messages, and each arm's log-probabilities
of the answer's token over the whole vocabulary. `python tests/vllm_live/write_reference.py OUT [ITEMS]`.
"""

from __future__ import annotations

import json
import sys
import time
from pathlib import Path
from typing import Any

import torch
from safetensors.torch import save_file

import kamera
from kamera.arms import Arm, ArmRequest, Blind, Patched, Reprefill, Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.evaluation import answer_id
from kamera.lab.tasks import TASKS, Item

RANK = 16
NUM_ITEMS = 32
OVER_HTTP = ("nano-gqa", "nano-mla")
"""Every item of these is asked; of the others a few are enough."""
FEW = 8


def arms_of(engine: HFEngine, bench: Workbench) -> list[Arm]:
    """Re-prefill first: the others are judged by it."""
    return [Reprefill(engine), Blind(bench), Patched(bench, RANK), Patched(bench, None)]


def save_images(item: Item, folder: Path) -> list[str]:
    """The item's frames as PNG files; names relative to the reference's folder."""
    names = []
    for number, frame in enumerate(item.frames):
        path = folder.with_name(f"{folder.name}-{number}.png")
        frame.image.save(path)
        names.append(f"{path.parent.name}/{path.name}")
    return names


def request_of(engine: HFEngine, item: Item) -> ArmRequest:
    """The item as the chat template renders it: what stands between two images is a chunk too."""
    content = [{"type": "image", "image": frame.image} for frame in item.frames]
    content.append({"type": "text", "text": item.question})
    prompt = engine.prompt([{"role": "user", "content": content}])
    return ArmRequest(None, prompt.chunks, prompt.tail)


def row_of(engine: HFEngine, item: Item, images: list[str]) -> dict[str, Any]:
    """The item as a test reads it, its prompt's ids among it."""
    request = request_of(engine, item)
    chunks = (*request.cached, request.tail)
    return {
        "images": images,
        "question": item.question,
        "answer": item.answer,
        "answer_id": answer_id(engine, item),
        "prompt_token_ids": [i for chunk in chunks for i in chunk.key.token_ids],
        "chunk_num_tokens": [chunk.num_tokens for chunk in chunks],
    }


def write_model(name: str, out: Path, num_items: int) -> None:
    """One model's folder: images, `reference.json`, `logprobs.safetensors` [item, arm, vocab]."""
    clock = time.perf_counter()
    engine = HFEngine.from_pretrained(kamera.packaged_model(name), dtype="float32")
    rows, logprobs = [], []
    bench = Workbench(engine)
    arms = arms_of(engine, bench)
    (out / "images").mkdir(parents=True, exist_ok=True)
    for task in TASKS.values():
        for number, item in enumerate(task.items(num_items, split="test", seed=0)):
            images = save_images(item, out / "images" / f"{task.name}-{number}")
            rows.append({"task": task.name, **row_of(engine, item, images)})
            logprobs.append(answers(arms, engine, item))
            bench.clear()
    save_file({"logprobs": torch.stack(logprobs)}, out / "logprobs.safetensors")
    record = {
        "model": name,
        "rank": RANK,
        "num_items": num_items,
        "arms": [arm.name for arm in arms],
        "items": rows,
    }
    (out / "reference.json").write_text(json.dumps(record) + "\n")
    print(f"{name}: {len(rows)} items, {time.perf_counter() - clock:.0f} s", flush=True)


def answers(arms: list[Arm], engine: HFEngine, item: Item) -> torch.Tensor:
    """Log-probabilities [arm, vocab] of the answer's token, float32."""
    request = request_of(engine, item)
    rows = []
    for arm in arms:
        arm.reset()
        arm.prepare(request)
        rows.append(arm.serve(request).logits.double().log_softmax(-1).float())
    return torch.stack(rows)


def main() -> None:
    """Every packaged model."""
    out = Path(sys.argv[1])
    num_items = int(sys.argv[2]) if len(sys.argv) > 2 else NUM_ITEMS
    for name in kamera.packaged_models():
        write_model(name, out / name, num_items if name in OVER_HTTP else min(FEW, num_items))


if __name__ == "__main__":
    main()
