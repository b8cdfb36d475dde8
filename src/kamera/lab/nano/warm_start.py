"""A language model's first weights from the trained nano-gqa: all that maps, in the family's own terms."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import torch
from torch import Tensor

from kamera.lab.nano.family import CLIP_MEAN, CLIP_STD

SAME = (
    "input_layernorm.weight",
    "post_attention_layernorm.weight",
    "mlp.gate_proj.weight",
    "mlp.up_proj.weight",
    "mlp.down_proj.weight",
    "self_attn.o_proj.weight",
)
HEAD = 32
"""The teacher's head size."""


@torch.no_grad()
def start_language(model: Any, tokenizer: Any, teacher: Any, teacher_tokenizer: Any) -> None:
    """Copy what has the teacher's shape, and fold its attention into the family's."""
    target, source = model.model.language_model, teacher.model.language_model
    _copy_vocabulary(model, tokenizer, teacher, teacher_tokenizer)
    target.norm.weight.copy_(source.norm.weight)
    for layer, teaching in zip(target.layers, source.layers, strict=True):
        mine, theirs = layer.state_dict(), teaching.state_dict()
        for name in SAME:
            mine[name].copy_(theirs[name])
        if hasattr(layer.self_attn, "kv_b_proj"):
            _fold_into_latents(layer.self_attn, teaching.self_attn)
        else:
            _copy_heads(layer.self_attn, teaching.self_attn)


def _copy_vocabulary(model: Any, tokenizer: Any, teacher: Any, teacher_tokenizer: Any) -> None:
    """Rows of tokens that both know, by their text; the family's own special tokens stay as they are."""
    known = teacher_tokenizer.get_vocab()
    pairs = [(i, known[token]) for token, i in tokenizer.get_vocab().items() if token in known]
    mine, theirs = (torch.tensor(column) for column in zip(*pairs, strict=True))
    embeddings = model.get_input_embeddings().weight
    embeddings[mine] = teacher.get_input_embeddings().weight[theirs]
    model.lm_head.weight.copy_(teacher.lm_head.weight[torch.arange(len(embeddings)) % 512])
    model.lm_head.weight[mine] = teacher.lm_head.weight[theirs]


def _copy_heads(attention: Any, teaching: Any) -> None:
    """Query heads as they are; KV heads repeated as often as the family has more of them.

    Where the family normalises queries and keys, its gains begin at the teacher's usual size.
    """
    attention.q_proj.weight.copy_(teaching.q_proj.weight)
    for name in ("k_proj", "v_proj"):
        mine = getattr(attention, name).weight
        mine.copy_(_repeated(getattr(teaching, name).weight, len(mine) // HEAD))
    for name in ("q", "k"):
        if hasattr(attention, f"{name}_norm"):
            size = getattr(teaching, f"{name}_proj").weight.square().sum(1).mean().sqrt()
            getattr(attention, f"{name}_norm").weight.fill_(float(size))


def _repeated(weight: Tensor, num_heads: int) -> Tensor:
    heads = weight.view(-1, HEAD, weight.shape[-1])
    return heads.repeat_interleave(num_heads // len(heads), 0).flatten(0, 1)


def _fold_into_latents(attention: Any, teaching: Any) -> None:
    """The latent begins as the hidden state itself; its norm's scale, about a half, goes into kv_b.

    Scores begin as the teacher's without rotation; what the rotated part adds is learned.
    """
    hidden = teaching.q_proj.weight.shape[1]
    rank, nope, v_dim = attention.kv_lora_rank, attention.qk_nope_head_dim, attention.v_head_dim
    num_heads = attention.num_heads
    attention.kv_a_proj_with_mqa.weight[:hidden] += torch.eye(hidden)
    # RMS of a latent of which `hidden` of `rank` dims are about one.
    gain = math.sqrt(hidden / rank)
    kv_b = attention.kv_b_proj.weight.view(num_heads, nope + v_dim, rank)
    keys = _repeated(teaching.k_proj.weight, num_heads).view(num_heads, nope, hidden)
    values = _repeated(teaching.v_proj.weight, num_heads).view(num_heads, v_dim, hidden)
    kv_b[:, :, :hidden] = torch.cat([keys, values], 1) * gain
    queries = attention.q_proj.weight.view(num_heads, attention.qk_head_dim, hidden)
    sharpened = HEAD**-0.5 / attention.scaling
    queries[:, :nope] = teaching.q_proj.weight.view(num_heads, HEAD, hidden) * sharpened


@torch.no_grad()
def start_tower(model: Any, teacher: Any, onto: Sequence[Tensor] = ()) -> None:
    """Copy of the teacher's tower what maps: attention, merger, and the patches' own normalisation.

    Norms, MLPs and position embeddings differ in kind and start anew. `onto`: the projections of the
    deepstack levels. CLIP's patches are twice as large, so that nothing maps (`clip_start`).
    """
    if onto:
        _start_qwen3_tower(model.model.visual, teacher.model.visual, onto)
    elif hasattr(model.model, "mm_projector"):
        _start_moon_tower(model.model, teacher.model.visual)


def _patches(source: Any, target: Any) -> None:
    """The teacher normalises with CLIP's mean and deviation, the families here with a half each."""
    std = torch.tensor(CLIP_STD)[:, None, None]
    mean = torch.tensor(CLIP_MEAN)[:, None, None]
    weight = source.weight.sum(2)  # both temporal copies show the same frame
    target.bias.copy_((weight * (0.5 - mean) / std).sum((1, 2, 3)))
    weight = weight * 0.5 / std
    if target.weight.ndim == 5:
        weight = weight[:, :, None].expand_as(target.weight) / 2
    target.weight.copy_(weight)


def _start_qwen3_tower(tower: Any, teaching: Any, onto: Sequence[Tensor]) -> None:
    _patches(teaching.patch_embed.proj, tower.patch_embed.proj)
    tower.pos_embed.weight.mul_(0.1)
    for block, theirs in zip(tower.blocks, teaching.blocks, strict=True):
        block.norm1.weight.copy_(theirs.norm1.weight)
        block.norm2.weight.copy_(theirs.norm2.weight)
        block.attn.load_state_dict(theirs.attn.state_dict())
    rest = torch.eye(len(onto[0])) - sum(onto)
    mergers = (tower.merger, *tower.deepstack_merger_list)
    for merger, part in zip(mergers, (rest, *onto), strict=True):
        merger.linear_fc1.load_state_dict(teaching.merger.mlp[0].state_dict())
        merger.linear_fc2.weight.copy_(part @ teaching.merger.mlp[2].weight)
        merger.linear_fc2.bias.copy_(part @ teaching.merger.mlp[2].bias)
    tower.merger.norm.weight.copy_(teaching.merger.ln_q.weight)


def _start_moon_tower(model: Any, teaching: Any) -> None:
    tower, merger = model.vision_tower, model.mm_projector
    _patches(teaching.patch_embed.proj, tower.patch_embed.proj)
    tower.patch_embed.pos_emb.position_embeddings.mul_(0.02)
    for block, theirs in zip(tower.layers, teaching.blocks, strict=True):
        block.norm1.weight.copy_(theirs.norm1.weight)
        block.norm2.weight.copy_(theirs.norm2.weight)
        block.attn.proj.load_state_dict(theirs.attn.proj.state_dict())
        weights, biases = theirs.attn.qkv.weight.chunk(3), theirs.attn.qkv.bias.chunk(3)
        layers = (block.attn.q_proj, block.attn.k_proj, block.attn.v_proj)
        order = _axes_in_turn(len(weights[0]), theirs.attn.head_dim)
        for number, layer in enumerate(layers):
            rows = order if number < 2 else torch.arange(len(order))
            layer.weight.copy_(weights[number][rows])
            layer.bias.copy_(biases[number][rows])
    merger.in_proj.load_state_dict(teaching.merger.mlp[0].state_dict())
    merger.out_proj.load_state_dict(teaching.merger.mlp[2].state_dict())
    merger.pre_norm.weight.copy_(teaching.merger.ln_q.weight)


def _axes_in_turn(num_rows: int, head_dim: int) -> Tensor:
    """The teacher's head dims hold the angles of h, then w; MoonViT's hold w and h in turn."""
    quarter = head_dim // 4
    pairs = torch.stack([torch.arange(quarter) + quarter, torch.arange(quarter)], 1).flatten()
    head = torch.cat([pairs, pairs + head_dim // 2])
    starts = torch.arange(0, num_rows, head_dim)
    return (starts[:, None] + head).flatten()
