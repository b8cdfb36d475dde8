"""Engines live in processes of their own, as long as a module's tests need them."""

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).parent))

from figures import Figures
from places import FIGURES


@pytest.fixture(scope="session")
def figures() -> Iterator[Figures]:
    """What the suite measured; written to build/vllm.json when it ends."""
    made = Figures()
    yield made
    made.write(FIGURES)
