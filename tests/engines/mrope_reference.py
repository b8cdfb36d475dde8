"""The M-RoPE families' own forward over a whole request, beside the engine's chunks."""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch
from hf_reference import prompt_positions, relative
from torch import Tensor

from kamera.channels import ChunkKV, concat
from kamera.engines.contract import Prompt
from kamera.engines.hf import HFEngine, cache

TOWER_INPUTS = (
    "pixel_values", "image_grid_thw", "pixel_values_videos", "video_grid_thw",
    "input_features", "feature_attention_mask",
)  # fmt: skip


HEAD_ROUNDING = 2 * 64**0.5 * 2**-24
"""Relative, of logits: the engine's head runs over the last token alone, the model's over all of them.
That is another order of the same sums of 64 products, each in float32."""


def own_inputs(engine: HFEngine, prompt: Prompt) -> dict[str, Any]:
    """What the family's processor would hand to `model(...)`: the chunks' own tensors, joined by name."""
    chunks = (*prompt.chunks, prompt.tail)
    ids = torch.tensor([[i for chunk in chunks for i in chunk.key.token_ids]])
    given: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    media = [(chunk.key.kind, chunk.media.inputs) for chunk in chunks if chunk.media is not None]
    for name in TOWER_INPUTS:
        found = [inputs[name] for _, inputs in media if name in inputs]
        if found:
            given[name] = padded(found) if found[0].ndim > 1 else torch.cat(found)
    seconds = [inputs["second_per_grid"] for _, inputs in media if "second_per_grid" in inputs]
    omni = "omni" in engine.model.config.model_type
    if seconds and (omni or engine.model.config.model_type == "qwen2_5_vl"):
        given["video_second_per_grid" if omni else "second_per_grid_ts"] = torch.cat(seconds)
    if not omni:
        given["mm_token_type_ids"] = token_types(engine, prompt)
    return given


def padded(tensors: list[Tensor]) -> Tensor:
    """Clips of unequal length are padded at their end; grids and patches are simply joined."""
    longest = max(t.shape[-1] for t in tensors)
    fitted = [torch.nn.functional.pad(t, (0, longest - t.shape[-1])) for t in tensors]
    return torch.cat(fitted)


def token_types(engine: HFEngine, prompt: Prompt) -> Tensor:
    """[1, T]: 0 text, 1 image, 2 video, as the processors number them."""
    types: list[int] = []
    for chunk in (*prompt.chunks, prompt.tail):
        modality = engine.family.modality(chunk.key.kind)
        pad = None if modality is None else modality.token_id(engine.model.config)
        number = {"image": 1, "video": 2}.get(chunk.key.kind, 0)
        types += [number if i == pad else 0 for i in chunk.key.token_ids]
    return torch.tensor([types])


def own_positions(engine: HFEngine, prompt: Prompt) -> tuple[Tensor, int]:
    """[3, T] of the model's `get_rope_index`, and where decoding would go on."""
    given = own_inputs(engine, prompt)
    rename = {"video_second_per_grid": "second_per_grids"}
    names = (
        "input_ids", "mm_token_type_ids", "image_grid_thw", "video_grid_thw", "attention_mask",
        "second_per_grid_ts", "video_second_per_grid",
    )  # fmt: skip
    arguments = {rename.get(name, name): given[name] for name in names if name in given}
    if "feature_attention_mask" in given:
        arguments["audio_seqlens"] = given["feature_attention_mask"].sum(-1)
    positions, delta = engine.model.model.get_rope_index(**arguments)
    return positions[:, 0], int(delta.reshape(-1)[0]) + positions.shape[-1]


@torch.inference_mode()
def own_forward(
    engine: HFEngine, prompt: Prompt, positions: Tensor | None = None
) -> tuple[Tensor, ChunkKV]:
    """Last logits and the KV as cached; at its own positions, or at [3, T]."""
    engine.model.model.rope_deltas = None
    given = own_inputs(engine, prompt)
    if positions is not None:
        given["position_ids"] = positions[:, None]
    out = engine.model(**given, use_cache=True)
    return out.logits[0, -1].float(), cache.read(out.cache, 0, engine.backbone.channels)


def see(engine: HFEngine, prompt: Prompt) -> dict[str, Tensor]:
    """Embeddings of every media chunk, by digest."""
    return {chunk.media.digest: engine.see(chunk) for chunk in prompt.chunks if chunk.media}


def one_by_one(engine: HFEngine, prompt: Prompt) -> tuple[ChunkKV, Tensor]:
    """Every chunk, the tail too, prefilled behind the KV of those before it."""
    vision, context, start = see(engine, prompt), None, 0
    for chunk in (*prompt.chunks, prompt.tail):
        step = engine.prefill([chunk], vision, start=start, context=context)
        context = step.kv if context is None else concat([context, step.kv])
        start += chunk.extent
    assert context is not None
    return context, step.logits


def check_positions(engine: HFEngine, prompt: Prompt) -> None:
    """Ours are the model's own, all whole, and text goes on where its decoding would."""
    own, after = own_positions(engine, prompt)
    assert prompt_positions(prompt).equal(own.long())
    assert own.equal(own.round())
    assert sum(chunk.extent for chunk in (*prompt.chunks, prompt.tail)) == after


def check_one_forward(engine: HFEngine, prompt: Prompt, positions: Tensor | None = None) -> None:
    """In one forward, KV is the model's own bit for bit, and the logits but for the head's rounding."""
    logits, kv = own_forward(engine, prompt, positions)
    mine = engine.prefill((*prompt.chunks, prompt.tail), see(engine, prompt), start=0)
    for name, tensor in kv.tensors.items():
        assert mine.kv.tensors[name].equal(tensor)
    assert relative(mine.logits, logits) <= HEAD_ROUNDING


def check_chunk_by_chunk(
    engine: HFEngine,
    folder: Path,
    asked: Callable[[HFEngine], Prompt],
    positions: Tensor | None = None,
) -> None:
    """Chunk by chunk is as close to the float64 model as one forward of the model's own, twice that."""
    wide = HFEngine.from_pretrained(folder, dtype="float64")
    wide.model.set_experts_implementation("eager")  # torch has no grouped product in float64
    truth, true_kv = own_forward(wide, asked(wide), positions)
    prompt = asked(engine)
    logits, kv = own_forward(engine, prompt, positions)
    context, mine = one_by_one(engine, prompt)
    assert relative(mine, truth) <= 2 * relative(logits, truth)
    for name, tensor in kv.tensors.items():
        noise = relative(tensor, true_kv.tensors[name])
        assert relative(context.tensors[name], true_kv.tensors[name]) <= 2 * noise


def own_tokens(engine: HFEngine, prompt: Prompt, count: int) -> list[int]:
    """What the model's `generate` says, up to the first token that ends an answer."""
    given = own_inputs(engine, prompt)
    engine.model.model.rope_deltas = None
    tokens: list[int] = engine.model.generate(
        **given, max_new_tokens=count, do_sample=False, eos_token_id=None, pad_token_id=0
    )[0, given["input_ids"].shape[1] :].tolist()
    stops = [at for at, token in enumerate(tokens) if token in engine._stop_ids()]
    return tokens[: stops[0] + 1] if stops else tokens


def our_tokens(engine: HFEngine, prompt: Prompt, count: int, *, late: int = 0) -> list[int]:
    """What the engine says behind the chunks' KV, the tail `late` positions too late."""
    context = engine.prefill(prompt.chunks, see(engine, prompt), start=0).kv
    start = sum(chunk.extent for chunk in prompt.chunks) + late
    made = engine.generate(prompt.tail, start=start, context=context, max_new_tokens=count)
    return list(made.token_ids)
