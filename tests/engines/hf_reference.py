"""Plain Transformers beside the engine: one request, all at once, as its users would run it."""

from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.engines.contract import Prompt
from kamera.engines.hf import HFEngine, cache
from kamera.engines.hf.images import open_image


@dataclass
class Raw:
    """The inputs that the family's own processor would make of a chat request."""

    input_ids: Tensor
    mm_token_type_ids: Tensor
    pixel_values: Tensor | None
    image_grid_thw: Tensor | None

    def inputs(self) -> dict[str, Any]:
        """Keyword arguments of the model and of `generate`."""
        given = {k: v for k, v in vars(self).items() if v is not None}
        return {**given, "attention_mask": torch.ones_like(self.input_ids)}

    def positions(self, engine: HFEngine) -> Tensor:
        """[3, 1, T], from the model's own `get_rope_index`."""
        positions, _ = engine.model.model.get_rope_index(
            self.input_ids,
            self.mm_token_type_ids,
            image_grid_thw=self.image_grid_thw,
            attention_mask=torch.ones_like(self.input_ids),
        )
        return positions


def raw_request(engine: HFEngine, messages: list[dict[str, Any]]) -> Raw:
    """Render, expand each image pad to its merged tokens, and tokenize the whole text at once."""
    text = engine.tokenizer.apply_chat_template(
        messages, tokenize=False, add_generation_prompt=True
    )
    parts = [p for m in messages if isinstance(m["content"], list) for p in m["content"]]
    pictures = [open_image(p["image"]).convert("RGB") for p in parts if p["type"] == "image"]
    values = grids = None
    if pictures:
        out = engine.processors["image"](images=pictures, return_tensors="pt")
        values, grids = out["pixel_values"], out["image_grid_thw"]
        pieces = text.split("<|image_pad|>")
        text = pieces[0]
        for grid, piece in zip(grids.tolist(), pieces[1:], strict=True):
            text += "<|image_pad|>" * (grid[0] * grid[1] * grid[2] // 4) + piece
    ids = torch.tensor([engine.tokenizer(text, add_special_tokens=False).input_ids])
    types = (ids == engine.model.config.image_token_id).int()
    return Raw(ids, types, values, grids)


@torch.inference_mode()
def full_forward(engine: HFEngine, raw: Raw) -> tuple[Tensor, ChunkKV]:
    """The model's own forward over the request: last logits, KV as cached."""
    engine.model.model.rope_deltas = None
    out = engine.model(**raw.inputs(), use_cache=True)
    return out.logits[0, -1].float(), cache.read(out.cache, 0, engine.backbone.channels)


def prompt_positions(prompt: Prompt) -> Tensor:
    """[3, T] of chunks and tail, laid one behind the other."""
    start, placed = 0, []
    for chunk in (*prompt.chunks, prompt.tail):
        placed.append(chunk.layout.at(start))
        start += chunk.extent
    return torch.cat(placed).T


def relative(got: Tensor, expected: Tensor) -> float:
    """|got - expected| over |expected|, Frobenius norms."""
    wide = expected.double()
    return ((got.double() - wide).norm() / wide.norm()).item()


def kl(expected: Tensor, got: Tensor) -> float:
    """KL(expected || got) of two rows of logits, float64."""
    p, q = expected.double().log_softmax(-1), got.double().log_softmax(-1)
    return (p.exp() * (p - q)).sum().item()
