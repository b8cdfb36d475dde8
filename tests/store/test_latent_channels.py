"""MLA's channels through every store: a latent and a rotary key of other sizes, and their patch."""

from collections.abc import Callable
from typing import Any

import pytest
import torch

from kamera.channels import MLA, ChunkKV
from kamera.chunk import Chunk
from kamera.identity import ChunkKey, ModelKey, Shard
from kamera.library import Library
from kamera.patch import apply, deficit, form_patch
from kamera.positions import text_layout
from kamera.rope import RopeSpec

SPEC = RopeSpec((1.0, 0.5, 0.25, 0.125), (0,) * 4, num_axes=1, head_dim=8, layout="pairs")
NUM_TOKENS = 5


def chunk() -> Chunk:
    model = ModelKey(
        model_id="",
        model_type="deepseek_v2",
        weights_digest="1" * 64,
        dtype="bfloat16",
        quantization=None,
        rope=SPEC.fingerprint(),
        layout={"kind": "mla", "num_layers": 2, "latent": 12, "rope": 8},
        shard=Shard(0, 1, 0, 2, 0, 1),
        adapter=None,
        numerics="test",
    )
    return Chunk(
        ChunkKey(model, None, "text", tuple(range(NUM_TOKENS))), text_layout(NUM_TOKENS, 1)
    )


def latents(seed: int) -> ChunkKV:
    generator = torch.Generator().manual_seed(seed)
    sizes = {"c_kv": 12, "k_pe": 8}
    return ChunkKV(
        {
            name: torch.randn(2, NUM_TOKENS, 1, size, generator=generator).bfloat16()
            for name, size in sizes.items()
        }
    )


@pytest.mark.parametrize("rank", [2, 64])
def test_a_latent_chunk_and_its_patch_come_back(open_kind: Callable[..., Any], rank: int) -> None:
    library = Library(open_kind(), chunk().key.model.digest, None, rank)
    canonical, conditioned = latents(0), latents(1)
    patch = form_patch(deficit(conditioned, canonical), "a" * 64, rank)
    library.keep_canonical(chunk(), canonical)
    library.keep_patch(chunk(), ["a" * 64], patch)

    stored = library.canonical(chunk())
    stored_patch = library.patch(chunk(), library.record(chunk(), "exact", ["a" * 64]))
    assert stored.channels is MLA
    for name, tensor in canonical.tensors.items():
        assert torch.equal(stored.tensors[name], tensor)
        assert torch.equal(stored_patch.factors[name].u, patch.factors[name].u)
        assert torch.equal(stored_patch.factors[name].vt, patch.factors[name].vt)
    there = 1000 + torch.arange(NUM_TOKENS)[:, None]
    got, wanted = apply(stored, stored_patch, there, SPEC), conditioned.at(there, SPEC)
    same = [torch.equal(got.tensors[name], wanted.tensors[name]) for name in got.tensors]
    assert all(same) == (rank == 64)
