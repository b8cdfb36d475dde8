"""The device of this process's Triton tests."""

import os
from importlib.util import find_spec

import torch


def device() -> str | None:
    """`cuda`, `cpu` in the interpreter, or None: no Triton, or nothing that it could run on."""
    if find_spec("triton") is None:
        return None
    if os.environ.get("TRITON_INTERPRET") == "1":
        return "cpu"
    return "cuda" if torch.cuda.is_available() else None


DEVICE = device()
