"""The probe: a spec must reproduce the module that it was read from, and what its model does with it.

A config doesn't tell everything: two models with the same `rope_parameters` can lay their pairs
out differently. Asking the module itself costs microseconds and turns such a misreading, which
would corrupt keys silently, into an error when the model is loaded.

Two questions are asked. The module's tables of cos and sin give the frequencies, the axes and the
attention factor. The pairing is in the function that applies them: ERNIE 4.5 and Llama have the
same table, and one turns neighbours, the other halves. So a key is rotated by the apply function
that stands in the module's own source file, where there is one.
"""

import inspect
import sys
from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, TypeAlias

import torch
from torch import Tensor

from kamera.errors import UnsupportedRopeError
from kamera.rope.angles import cos_sin
from kamera.rope.rotate import rotate
from kamera.rope.spec import RopeSpec

_TOLERANCE = 1e-5
"""Absolute, on cos and sin over the attention factor and, over the largest entry, on a rotated key:
a wrong pair or axis is off by far more at these positions."""

_POSITIONS = ((0, 0, 0), (3, 11, 29), (17, 5, 8), (101, 211, 307), (20011, 29989, 10007))
"""t, h and w apart, near and far: a pair of 1e-8 radians a position shows its axis in the last."""

_APPLY_NAMES = ("apply_rotary_pos_emb", "apply_rotary_emb")

Tables: TypeAlias = tuple[Tensor, ...]
"""What the module's forward gives: (cos, sin), or one complex tensor."""


def chosen_by_module(
    rotary: Callable[..., Any],
    candidates: Sequence[RopeSpec],
    *,
    layer_type: str | None = None,
    layout_is_known: bool = False,
) -> RopeSpec:
    """The first candidate that the module and its apply function reproduce.

    Runs the module's forward once on five tokens, on the device of its `inv_freq`.

    Args:
        rotary: `rotary(x, position_ids)`, with a `layer_type` when one is given.
        candidates: specs that differ in axes and layout only.
        layer_type: the type of the layers that are asked about.
        layout_is_known: the layout was given: a table that doesn't tell it is no reason to refuse.

    Raises:
        UnsupportedRopeError: none does; the message says what differs.
    """
    positions = _positions(rotary, candidates[0], layer_type)
    tables = _tables(rotary, candidates[0], positions, layer_type)
    apply = _own_apply(rotary)
    reasons: dict[str, None] = {}
    for spec in candidates:
        form = _form(tables, spec, positions)
        if form is None:
            reasons[_wrong_table(tables, spec)] = None
        elif form == "neighbours" and spec.layout == "half":
            reasons["its table gives neighbours one angle, which the half layout can't use"] = None
        elif apply is not None and not _turns_alike(apply, tables, spec, positions):
            reasons[f"its model's apply function isn't the {spec.layout} layout"] = None
        elif apply is None and not layout_is_known and spec.layout != _suggested(form):
            reasons[f"its table doesn't look like the {spec.layout} layout; pass layout="] = None
        else:
            return spec
    raise UnsupportedRopeError(
        f"the rotary module {type(rotary).__name__} isn't what its config tells: "
        f"{'; '.join(reasons)}"
    )


def _positions(rotary: Any, spec: RopeSpec, layer_type: str | None) -> Tensor:
    """[5, P], within the spec's reach."""
    buffer = getattr(rotary, "inv_freq" if layer_type is None else f"{layer_type}_inv_freq", None)
    device = buffer.device if isinstance(buffer, Tensor) else torch.device("cpu")
    positions = torch.tensor(_POSITIONS, device=device)[:, : spec.num_axes]
    return positions if spec.max_positions is None else positions % spec.max_positions


def _tables(
    rotary: Callable[..., Any], spec: RopeSpec, positions: Tensor, layer_type: str | None
) -> Tables:
    position_ids = positions.T[:, None, :] if spec.num_axes > 1 else positions.T
    probe = torch.zeros(1, len(positions), spec.head_dim, device=positions.device)
    with torch.no_grad():
        got = rotary(probe, position_ids, *(() if layer_type is None else (layer_type,)))
    return (got,) if isinstance(got, Tensor) else tuple(got)


def _form(tables: Tables, spec: RopeSpec, positions: Tensor) -> str | None:
    """How the tables hold the spec's cos and sin; None when they hold others."""
    parts = (tables[0].real, tables[0].imag) if tables[0].is_complex() else tables
    wanted = [table * spec.attention_scaling for table in cos_sin(positions, spec)]
    forms = {
        "halves": [torch.cat([table, table], dim=-1) for table in wanted],
        "neighbours": [table.repeat_interleave(2, dim=-1) for table in wanted],
        "complex" if tables[0].is_complex() else "plain": wanted,
    }
    atol = _TOLERANCE * spec.attention_scaling
    for form, expected in forms.items():
        if len(parts) == len(expected) and all(
            _close(part.reshape(-1, part.shape[-1]), table, atol)
            for part, table in zip(parts, expected, strict=True)
        ):
            return form
    return None


def _suggested(form: str) -> str | None:
    return {"halves": "half", "neighbours": "pairs", "complex": "pairs"}.get(form)


def _wrong_table(tables: Tables, spec: RopeSpec) -> str:
    return (
        f"its cos and sin {[list(table.shape) for table in tables]} differ from those of "
        f"inv_freq * position for {spec.num_pairs} pairs over the axes "
        f"{''.join('thw'[axis] for axis in spec.axes)}"
    )


def _own_apply(rotary: Any) -> Callable[[Tensor, Tables], Tensor] | None:
    """The function beside the module's class that rotates a key [1, H, T, D] by its tables."""
    home = sys.modules.get(type(rotary).__module__)
    for name in _APPLY_NAMES:
        function = getattr(home, name, None)
        if not inspect.isfunction(function):
            continue
        names = tuple(inspect.signature(function).parameters)
        if names[:4] == ("q", "k", "cos", "sin") or names[:3] == ("xq", "xk", "freqs_cis"):
            return partial(_key_of_both, function)
        if names[:3] == ("x", "cos", "sin"):
            return partial(_key_alone, function)
    return None


def _key_of_both(function: Callable[..., Any], key: Tensor, tables: Tables) -> Tensor:
    rotated: Tensor = function(key, key, *tables)[1]
    return rotated


def _key_alone(function: Callable[..., Any], key: Tensor, tables: Tables) -> Tensor:
    rotated: Tensor = function(key, *tables)
    return rotated


def _turns_alike(
    apply: Callable[[Tensor, Tables], Tensor], tables: Tables, spec: RopeSpec, positions: Tensor
) -> bool:
    generator = torch.Generator().manual_seed(0)
    key = torch.randn(1, 1, len(positions), spec.head_dim, generator=generator)
    key = key.to(positions.device)
    wanted = rotate(key.transpose(1, 2), positions, spec).transpose(1, 2)
    with torch.no_grad():
        try:
            got = apply(key, tables)
        except RuntimeError:  # its attention splits a head into rotated and other channels itself
            got, wanted = apply(key[..., : spec.rotary_dim], tables), wanted[..., : spec.rotary_dim]
    atol = _TOLERANCE * float(wanted.abs().max())
    return _close(got.to(torch.float64), wanted.to(torch.float64), atol)


def _close(got: Tensor, wanted: Tensor, atol: float) -> bool:
    if got.shape != wanted.shape:
        return False
    return torch.allclose(got.to(torch.float64), wanted, rtol=0, atol=atol)
