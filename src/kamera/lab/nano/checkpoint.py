"""Writing a nano checkpoint: bfloat16 tensors under the names of the family's published checkpoints."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import torch
from torch import Tensor

KIMI_NAMES = (
    ("model.language_model.", "language_model.model."),
    ("lm_head.", "language_model.lm_head."),
    ("model.mm_projector.in_proj.", "mm_projector.proj.0."),
    ("model.mm_projector.out_proj.", "mm_projector.proj.2."),
    ("model.mm_projector.", "mm_projector."),
    ("model.vision_tower.patch_embed.pos_emb.position_embeddings", "vision_tower.patch_embed.pos_emb.weight"),
    ("model.vision_tower.patch_embed.", "vision_tower.patch_embed."),
    ("model.vision_tower.layers.", "vision_tower.encoder.blocks."),
    ("model.vision_tower.final_layernorm.", "vision_tower.encoder.final_layernorm."),
)  # fmt: skip
KIMI_BLOCK_NAMES = (
    (".mlp.fc1.", ".mlp.fc0."),
    (".mlp.fc2.", ".mlp.fc1."),
    (".norm1.", ".norm0."),
    (".norm2.", ".norm1."),
    (".attn.proj.", ".wo."),
)


KIMI_CONFIG = {
    "architectures": ["KimiK25ForConditionalGeneration"],
    "use_unified_vision_chunk": True,
}
"""As published: vLLM goes by them. Transformers goes by the model type."""


def save_checkpoint(model: Any, folder: Path) -> None:
    """The config says float32, in which the model computes; the tensors take half of that on disk."""
    state = {name: value.bfloat16() for name, value in model.state_dict().items()}
    if model.config.model_type == "kimi_k25":
        # Transformers 5.24 can't read back what it writes for this family: it renames language layers too.
        for name, value in KIMI_CONFIG.items():
            setattr(model.config, name, value)
        model.config.save_pretrained(folder)
        model.generation_config.save_pretrained(folder)
        heads = model.config.vision_config.num_attention_heads
        _save(kimi_names(state, heads), folder)
        return
    model.save_pretrained(folder, state_dict=state)
    if model.config.model_type == "llava":
        _save(llava_names(_saved(folder)), folder)


def llava_names(saved: dict[str, Tensor]) -> dict[str, Tensor]:
    """The tower's published names, which vLLM knows alone; Transformers reads both."""
    return {
        name.replace("vision_tower.", "vision_tower.vision_model.", 1)
        if name.startswith("vision_tower.") and ".vision_model." not in name
        else name: value
        for name, value in saved.items()
    }


def _saved(folder: Path) -> dict[str, Tensor]:
    from safetensors.torch import load_file

    return load_file(folder / "model.safetensors")


def _save(tensors: dict[str, Tensor], folder: Path) -> None:
    from safetensors.torch import save_file

    save_file(tensors, folder / "model.safetensors", metadata={"format": "pt"})


def kimi_names(state: dict[str, Tensor], num_heads: int) -> dict[str, Tensor]:
    """The published names and layout: q, k and v of the tower in one, its RoPE in pairs."""
    named: dict[str, Tensor] = {}
    fused: dict[str, dict[str, Tensor]] = {}
    for name, value in state.items():
        for mine, theirs in KIMI_NAMES:
            if name.startswith(mine):
                name = theirs + name[len(mine) :]
                break
        if name.startswith("vision_tower.encoder.blocks."):
            for part in ("q", "k", "v"):
                block, found, kind = name.partition(f".attn.{part}_proj.")
                if found:
                    fused.setdefault(f"{block}.wqkv.{kind}", {})[part] = value
                    break
            else:
                named[_block_name(name)] = value
        else:
            named[name] = value
    for name, parts in fused.items():
        q, k = (_in_pairs(parts[part], num_heads) for part in ("q", "k"))
        named[name] = torch.cat([q, k, parts["v"]])
    return {name: value.contiguous() for name, value in named.items()}


def _block_name(name: str) -> str:
    for mine, theirs in KIMI_BLOCK_NAMES:
        if mine in name:
            return name.replace(mine, theirs)
    return name


def _in_pairs(value: Tensor, num_heads: int) -> Tensor:
    """Rows of each head from halves to neighbours."""
    halves = value.reshape(num_heads, 2, -1, *value.shape[1:])
    return halves.transpose(1, 2).reshape(value.shape)
