"""`Plain`: a model run as its users would run it, by Transformers alone. Every reference comes from here.

Nothing of Kamera's engine is in the way: token ids and pixels go in, the model finds its own placeholders,
runs its own tower and, unless they are given, counts its own positions.
"""

from __future__ import annotations

import copy
import inspect
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor
from transformers import DynamicCache

from kamera.channels import ChunkKV
from kamera.engines.hf import cache as kv_cache
from kamera.engines.hf.backbone import Backbone
from kamera.engines.hf.engine import HFEngine
from kamera.lab.conformance.pieces import Piece, ids_of, joined_inputs
from kamera.lab.conformance.wide import Wide

SENSED = ("pixel_values", "pixel_values_videos", "high_res_pixel_values", "input_features")
"""What comes in float32 from a processor and goes to a tower in the model's dtype."""


@dataclass(frozen=True, eq=False)
class Run:
    """One forward: KV as cached, logits [T, vocab], positions [T, P] that were used, experts chosen."""

    kv: ChunkKV
    logits: Tensor
    positions: Tensor
    experts: tuple[Tensor, ...]


class Plain:
    """The model's own forward.

    Attributes:
        model: in the dtype of the matrix's row, or its float64 copy.
        wide: the mode that keeps the copy's every number in float64; None for the model itself.
        sees: whether the float64 copy runs its own towers in this run, or borrows the model's.
    """

    def __init__(self, backbone: Backbone, join: int, wide: Wide | None = None) -> None:
        self.model, self.channels, self.join = backbone.model, backbone.channels, join
        self.num_axes, self.wide = backbone.rope.num_axes, wide
        self.sees = False

    @torch.inference_mode()
    def run(
        self,
        pieces: Sequence[Piece],
        positions: Tensor | None = None,
        mask: Any = None,
        *,
        round_angles: bool = False,
    ) -> Run:
        """One forward over a window.

        Args:
            pieces: the window.
            positions: [T, P]; None lets the model count them itself.
            mask: a 4-D mask, or one for each type of layers.
            round_angles: leave the rotary module's float32 angles as they are in the float64 copy.
        """
        self.forget()
        kinds = [piece.kind for piece in pieces if piece.inputs]
        self.sees = len(kinds) > len(set(kinds))
        rotary = self.model.get_decoder().rotary_emb
        arguments = self._arguments(pieces, positions, mask)
        with ExitStack() as stack:
            seen = stack.enter_context(watched(self.model, rotary))
            if self.wide is not None:
                stack.enter_context(self.wide)
                if round_angles:
                    stack.enter_context(self.wide.paused_in(rotary))
            out = self.model(**arguments)
        kv = kv_cache.read(arguments["cache"], 0, self.channels)
        return Run(kv, out.logits[0], seen["positions"], tuple(seen["experts"]))

    def forget(self) -> None:
        """The model's own memory of the last window's positions."""
        remember(self.model, None)

    def _arguments(
        self, pieces: Sequence[Piece], positions: Tensor | None, mask: Any
    ) -> dict[str, Any]:
        ids = torch.tensor([ids_of(pieces)])
        types = torch.tensor([[t for piece in pieces for t in piece.types]])
        takes = inspect.signature(type(self.model).forward).parameters
        inputs = joined_inputs(pieces, self.join)
        given: dict[str, Any] = {
            name: value.to(self.model.dtype) if name in SENSED else value
            for name, value in inputs.items()
            if name in takes
        }
        if "mm_token_type_ids" in takes:
            given["mm_token_type_ids"] = types
        if "token_type_ids" in takes:
            given["token_type_ids"] = types
        if positions is not None:
            given["position_ids"] = positions.T[:, None] if self.num_axes > 1 else positions.T
        # A cache without a config keeps sliding layers whole.
        given["cache"] = DynamicCache()
        given["attention_mask"] = torch.ones_like(ids) if mask is None else mask
        return {"input_ids": ids, "use_cache": True, **given}


@dataclass(frozen=True, eq=False)
class Reference:
    """A model as the product runs it, as Transformers runs it, and in float64."""

    engine: HFEngine
    plain: Plain
    exact: Plain

    @classmethod
    def of(cls, engine: HFEngine, join: int = 0) -> Reference:
        """`join` as in `Case`."""
        plain = Plain(engine.backbone, join)
        return cls(engine, plain, widened(engine.backbone, plain))


def widened(backbone: Backbone, plain: Plain) -> Plain:
    """The float64 copy of the same weights.

    It borrows what the model's own towers see, whose rounding is both sides' alike. But where the model's
    forward runs a tower over several items at once, which rounds otherwise than one by one, the copy runs its
    own, so that the towers' rounding counts.
    """
    wide = Wide()
    exact = Plain(backbone, plain.join, wide)
    exact.model = copy.deepcopy(backbone.model).double()
    if routers(exact.model):
        exact.model.set_experts_implementation("eager")  # the grouped product has no float64
    for path in ("", "model"):
        copied = exact.model.get_submodule(path)
        own = plain.model.get_submodule(path)
        for kind in ("image", "video", "audio"):
            name = f"get_{kind}_features"
            if hasattr(copied, name):
                see = _borrowed(exact, getattr(copied, name), getattr(own, name))
                setattr(copied, name, see)
    return exact


def _borrowed(exact: Plain, copied: Any, own: Any) -> Any:
    dtype, wide = own.__self__.dtype, exact.wide

    def see(*args: Any, **kwargs: Any) -> Any:
        if exact.sees or wide is None:
            return copied(*args, **kwargs)
        with wide.pause():
            narrow = {name: _cast(value, dtype) for name, value in kwargs.items()}
            return _cast(own(*(_cast(value, dtype) for value in args), **narrow), torch.float64)

    return see


def _cast(value: Any, dtype: torch.dtype) -> Any:
    if isinstance(value, Tensor):
        return value.to(dtype) if value.is_floating_point() else value
    if isinstance(value, list | tuple):
        return type(value)(_cast(part, dtype) for part in value)
    if isinstance(value, dict):  # a model's output is one
        for name in list(value):
            value[name] = _cast(value[name], dtype)
    return value


@contextmanager
def watched(model: Any, rotary: Any) -> Iterator[dict[str, Any]]:
    """What the rotary module was asked last, and which experts the routers chose."""
    seen: dict[str, Any] = {"positions": torch.empty(0), "experts": []}

    def positions(_: Any, args: Any, kwargs: Any) -> None:
        asked = kwargs.get("position_ids", args[1] if len(args) > 1 else None)
        seen["positions"] = asked.reshape(-1, asked.shape[-1]).T

    def experts(_: Any, __: Any, out: Any) -> None:
        seen["experts"].append(out[-1].sort(dim=-1).values)

    hooks = [rotary.register_forward_pre_hook(positions, with_kwargs=True)]
    hooks += [module.register_forward_hook(experts) for module in routers(model)]
    try:
        yield seen
    finally:
        for hook in hooks:
            hook.remove()


def remember(model: Any, offset: Tensor | None) -> None:
    """Set what the model keeps of its last window: how far its text's positions are from its token count."""
    for module in (model, getattr(model, "model", model)):
        if hasattr(module, "rope_deltas"):
            module.rope_deltas = offset


def routers(model: Any) -> list[Any]:
    """The modules that choose experts: their last output is the chosen ones' indices."""
    return [m for m in model.get_decoder().modules() if type(m).__name__.endswith("Router")]
