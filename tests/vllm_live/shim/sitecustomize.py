"""Tests only: two packages of the CPU environment that fail as they are. No product code may need this.

Put first on PYTHONPATH, so that every process that vLLM spawns gets it.

- torchvision's compiled operators are CUDA-built on the index; its Python won't import without two of them.
- llvmlite's library wrapper answers to any name, `__dict__` too. Where there is no Triton, vLLM 0.32 reads
  `vars()` of all that any module holds, and fails there once numba was imported (by Kimi's image processor).
"""

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Callable
from types import ModuleType
from typing import Any

_LIBRARIES = []  # operators live as long as their library


def declare_operators(_: ModuleType) -> None:
    """nms and qnms, without a kernel."""
    import torch

    library = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        library.define(f"{name}(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")
    _LIBRARIES.append(library)


def hide_dunders(ffi: Any) -> None:
    """The wrapper has no `__dict__`, as its `__slots__` say."""
    answer = ffi._lib_wrapper.__getattr__

    def __getattr__(self: Any, name: str) -> Any:  # noqa: N807
        if name.startswith("__"):
            raise AttributeError(name)
        return answer(self, name)

    ffi._lib_wrapper.__getattr__ = __getattr__


class Mend(importlib.abc.MetaPathFinder):
    """Calls `mend` with a module just before it is run, or just after."""

    def __init__(self, name: str, mend: Callable[[ModuleType], None], *, before: bool) -> None:
        self.name, self.mend, self.before = name, mend, before

    def find_spec(
        self, fullname: str, path: Any, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        if fullname != self.name:
            return None
        spec = importlib.machinery.PathFinder.find_spec(fullname, path, target)
        if spec is None or spec.loader is None:
            return spec
        run = spec.loader.exec_module

        def exec_module(module: ModuleType) -> None:
            if self.before:
                self.mend(module)
            run(module)
            if not self.before:
                self.mend(module)

        spec.loader.exec_module = exec_module  # type: ignore[method-assign]
        return spec


sys.meta_path[:0] = [
    Mend("torchvision", declare_operators, before=True),
    Mend("llvmlite.binding.ffi", hide_dunders, before=False),
]
