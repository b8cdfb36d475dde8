"""One nano-gqa under measurement for all reproductions: what they share is measured once."""

import pytest

import kamera
from kamera.engines.hf import HFEngine
from kamera.lab.reproductions.subject import Subject


@pytest.fixture(scope="session")
def subject() -> Subject:
    folder = kamera.packaged_model()
    return Subject(folder, HFEngine.from_pretrained(folder), 2)
