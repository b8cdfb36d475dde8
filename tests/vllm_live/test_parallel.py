"""Two workers: each has half of GQA's KV heads, or all of MLA's latents."""

from pathlib import Path

import pytest
from engine import Engine
from figures import Figures
from reference import gap, some

BOUND = 1e-4


@pytest.mark.parametrize("model", ["nano-gqa", "nano-mla"])
def test_tensor_parallel_of_two(model: str, tmp_path: Path, figures: Figures) -> None:
    items = some(model, 2)
    with Engine(
        model,
        tmp_path / "log",
        {"store": str(tmp_path / "store"), "rank": 1 << 20},
        tensor_parallel_size=2,
        mm_encoder_tp_mode="data",  # the towers' three heads can't be halved
        environment={"VLLM_CPU_OMP_THREADS_BIND": "0|1"},
    ) as engine:
        engine.fill(items)
        engine.ask(*items)
        for item in items:
            served = engine.until_held(item)
            found = gap(served.logprobs, item.logprobs["re-prefill"])
            figures.highest("tensor_parallel", model, full_rank_against_transformers=found)
            assert found <= BOUND
            blind = engine.one(item, kamera={"patch": "none"})
            assert blind.num_cached == item.num_held
            assert gap(blind.logprobs, item.logprobs["blind"]) <= BOUND
