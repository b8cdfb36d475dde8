"""benchmarks/blend.py gives the KV that the arm `CacheBlend` gives, and runs only what the method runs."""

import importlib.util
from collections.abc import Sequence
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import torch

from kamera.arms import ArmRequest, Workbench
from kamera.arms.cacheblend import CacheBlend
from kamera.arms.laid_out import LaidOut
from kamera.engines.hf import HFEngine
from kamera.engines.hf import cache as kv_cache

FILE = Path(__file__).parents[2] / "benchmarks" / "blend.py"
SHARE = 0.3


@pytest.fixture(scope="module")
def blending() -> ModuleType:
    spec = importlib.util.spec_from_file_location("bench_blend", FILE)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture
def request_(engine: HFEngine, picture: Any) -> ArmRequest:
    prefix, tail = engine.frame("What is it?")
    chunks = tuple(engine.image_chunk(picture(seed)) for seed in (1, 2, 3))
    return ArmRequest(prefix, chunks, tail)


def laid_out(bench: Workbench, chunks: Sequence[Any]) -> tuple[list[int], torch.Tensor, Any]:
    placed, start = [], 0
    for chunk in chunks:
        placed.append(chunk.layout.at(start))
        start += chunk.extent
    ids = [i for chunk in chunks for i in chunk.key.token_ids]
    media = [bench.vision([c])[c.media.digest] for c in chunks if c.media]
    return ids, torch.cat(placed), torch.cat(media)


def test_the_kv_is_that_of_the_arm(
    blending: ModuleType, engine: HFEngine, request_: ArmRequest
) -> None:
    bench = Workbench(engine)
    held = bench.blind(request_.cached)
    choice = CacheBlend(bench, SHARE).choose(LaidOut(request_, held))
    vision = bench.vision(request_.cached)
    wanted = engine.recompute(request_.cached, vision, held, choice.rows, choice.keep)

    backbone = engine.backbone
    cache = kv_cache.write(held, backbone.channels)
    first = request_.cached[0].num_tokens
    window = laid_out(bench, request_.cached)
    rows = blending.blend(backbone, *window, cache, first=first, share=SHARE)
    found = kv_cache.read(cache, 0, backbone.channels)

    assert rows.token_layers == int(wanted.written.sum())
    assert rows.token_layers < held.num_layers * (held.num_tokens - first)
    for name, tensor in found.tensors.items():
        # Fewer rows in a matrix product change float32 sums in their last bits, and no more.
        scale = wanted.kv.tensors[name].abs().max()
        assert (tensor - wanted.kv.tensors[name]).abs().max() < 1e-4 * scale
        assert (tensor - held.tensors[name]).abs().max() > 1e-2 * scale
    assert "update" not in vars(cache)


def test_without_a_check_layer_the_share_alone_runs(
    blending: ModuleType, engine: HFEngine, request_: ArmRequest
) -> None:
    bench = Workbench(engine)
    held = bench.blind(request_.cached)
    first = request_.cached[0].num_tokens
    cache = kv_cache.write(held, engine.backbone.channels)
    window = laid_out(bench, request_.cached)
    rows = blending.blend(
        engine.backbone, *window, cache,
        first=first, share=SHARE, check_layer=blending.NO_CHECK,
    )  # fmt: skip
    assert rows.token_layers == held.num_layers * round(SHARE * (held.num_tokens - first))
