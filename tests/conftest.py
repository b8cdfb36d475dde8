"""A tiny checkpoint with random weights, the engines that load it, and pictures to look at."""

import os
from collections.abc import Callable, Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from PIL.Image import Image

    from kamera.engines.hf import HFEngine

os.environ.setdefault("OMP_NUM_THREADS", "1")  # before torch: nano models lose time to threads

# `make test-vllm` runs these in vLLM's own environment, and nothing else there.
collect_ignore = [] if find_spec("vllm") else ["vllm_live"]
if not find_spec("lmms_eval"):  # an environment of its own too: docs/lab/benchmarks.md
    collect_ignore.append("lab/benchmarks/test_lmms_eval.py")

Picture = Callable[..., "Image"]


def random_checkpoint(folder: Path, seed: int) -> None:
    """The nano-gqa architecture; matrices so wide that attention and MLPs are far from linear."""
    import torch

    from kamera.lab.nano.gqa import build

    model, _ = build(folder)
    generator = torch.Generator().manual_seed(seed)
    with torch.no_grad():
        for name, weight in model.named_parameters():
            if weight.ndim >= 2:
                std = 0.1 if ".visual." in name else 0.2
                weight.normal_(0.0, std, generator=generator)
    model.save_pretrained(folder)


@pytest.fixture
def unchecked() -> Iterator[None]:
    """Annotations are checked while tests run, not when users do: off, to see the errors that a user gets."""
    import jaxtyping

    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.fixture(scope="session")
def tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with a random Qwen2.5-VL checkpoint."""
    folder = tmp_path_factory.mktemp("tiny")
    random_checkpoint(folder, seed=1)
    return folder


@pytest.fixture(scope="session")
def other_tiny(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The same architecture with other weights."""
    folder = tmp_path_factory.mktemp("other-tiny")
    random_checkpoint(folder, seed=2)
    return folder


@pytest.fixture(scope="session")
def engine(tiny: Path) -> "HFEngine":
    """float32."""
    from kamera.engines.hf import HFEngine

    return HFEngine.from_pretrained(tiny)


@pytest.fixture(scope="session")
def bf16_engine(tiny: Path) -> "HFEngine":
    """The same checkpoint, loaded as bfloat16."""
    from kamera.engines.hf import HFEngine

    return HFEngine.from_pretrained(tiny, dtype="bfloat16")


@pytest.fixture(scope="session")
def picture() -> Picture:
    """A noise image by its seed; the default size makes a grid of 2 x 3 merged tokens."""

    def draw(seed: int, width: int = 84, height: int = 56) -> Any:
        import numpy as np
        from PIL import Image

        pixels = np.random.default_rng(seed).integers(0, 256, (height, width, 3), dtype=np.uint8)
        return Image.fromarray(pixels)

    return draw
