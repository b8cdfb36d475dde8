"""`Wide`: run a model's own code with every number in float64.

`model.double()` isn't enough: norms, softmax and routers ask for float32 by name, and every rotary module
rounds its angles to float32. Under this mode those requests give float64.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from typing import Any, no_type_check

import torch
from torch.overrides import TorchFunctionMode


class Wide(TorchFunctionMode):
    """Reads float32 as float64 wherever code asks for it by name, until it is paused."""

    paused = False

    @no_type_check  # called for every operation: checking its arguments would double a test's time
    def __torch_function__(
        self, func: Any, types: Any, args: Any = (), kwargs: Mapping[str, Any] | None = None
    ) -> Any:
        kwargs = dict(kwargs or {})
        if self.paused:
            return func(*args, **kwargs)
        if func is torch.Tensor.float:
            return args[0].double()
        wide, narrow = torch.float64, torch.float32
        kwargs = {name: wide if value is narrow else value for name, value in kwargs.items()}
        return func(*(wide if value is narrow else value for value in args), **kwargs)

    @contextmanager
    def pause(self) -> Iterator[None]:
        """Run what is inside as it is written."""
        self.paused = True
        try:
            yield
        finally:
            self.paused = False

    @contextmanager
    def paused_in(self, module: Any) -> Iterator[None]:
        """Let one module run as it is written, e.g. the rotary one with its rounded angles."""

        def before(*_: Any) -> None:
            self.paused = True

        def after(*_: Any) -> None:
            self.paused = False

        hooks = (module.register_forward_pre_hook(before), module.register_forward_hook(after))
        try:
            yield
        finally:
            for hook in hooks:
                hook.remove()
