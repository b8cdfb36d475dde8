"""A patch as named tensors and attributes, and back: what a store keeps of it.

Two layouts, told apart by an attribute. Uniform, the first and still that of `Factors`: tensors
`NAME.u` [L, T, M] and `NAME.vt` [L, M, F] for each channel NAME. Ragged (`layout` is 2): tensors
`NAME.u` and `NAME.vt`, both 1-D, `NAME.scale` for quantised ones, and an attribute `NAME.ragged`,
[T, F, M_1, …, M_L].
"""

from collections.abc import Mapping
from typing import TypeAlias

import torch
from torch import Tensor

from kamera.errors import ConfigError
from kamera.patch.factors import AnyFactors, Factors, Patch, PatchKind
from kamera.patch.ragged import RaggedFactors

RAGGED_LAYOUT = 2
Attributes: TypeAlias = dict[str, bool | int | float | str | list[object] | None]


def encode_patch(patch: Patch) -> tuple[dict[str, Tensor], Attributes]:
    """The patch's tensors by name, and what else is needed to read them again."""
    tensors: dict[str, Tensor] = {}
    attributes: Attributes = {"antecedent": patch.antecedent, "kind": patch.kind}
    for name, factors in patch.factors.items():
        if isinstance(factors, Factors):
            tensors[f"{name}.u"], tensors[f"{name}.vt"] = factors.u, factors.vt
            continue
        attributes["layout"] = RAGGED_LAYOUT
        attributes[f"{name}.ragged"] = [
            factors.num_tokens,
            factors.num_features,
            *factors.ranks,
        ]
        tensors[f"{name}.u"], tensors[f"{name}.vt"] = factors.u_flat, factors.vt_flat
        if factors.scales is not None:
            tensors[f"{name}.scale"] = factors.scales
    return tensors, attributes


def decode_patch(
    tensors: Mapping[str, Tensor],
    attributes: Mapping[str, object],
    kind: PatchKind,
) -> Patch:
    """The patch of these tensors.

    Raises:
        ConfigError: a tensor or an attribute that is missing, or that doesn't fit the others.
    """
    factors = {}
    for name in sorted({tensor.split(".")[0] for tensor in tensors}):
        try:
            u, vt = tensors[f"{name}.u"], tensors[f"{name}.vt"]
        except KeyError as error:
            raise ConfigError(f"Invalid patch: it has no tensor {error}") from None
        row = attributes.get(f"{name}.ragged")
        scales = tensors.get(f"{name}.scale")
        factors[name] = _uniform(u, vt) if row is None else _ragged(u, vt, row, scales)
    return Patch(factors, str(attributes.get("antecedent", "")), kind)


def _uniform(u: Tensor, vt: Tensor) -> AnyFactors:
    if (u.ndim, vt.ndim) != (3, 3) or not (u.is_floating_point() and vt.is_floating_point()):
        raise ConfigError(
            "Invalid patch: expected u [L, T, M] and vt [L, M, F] of a floating dtype, got "
            f"{u.dtype} {list(u.shape)} and {vt.dtype} {list(vt.shape)}"
        )
    return Factors(u, vt)


def _ragged(u: Tensor, vt: Tensor, row: object, scales: Tensor | None) -> AnyFactors:
    if not isinstance(row, list) or len(row) < 3 or any(type(n) is not int for n in row):
        raise ConfigError(f"Invalid patch: expected [T, F, M_1, …, M_L], got {row!r:.80}")
    given = [u, vt] if scales is None else [u, vt, scales]
    if any(tensor.ndim != 1 for tensor in given):
        raise ConfigError(
            f"Invalid patch: expected flat tensors, got {[list(tensor.shape) for tensor in given]}"
        )
    if scales is not None and scales.dtype != torch.float32:
        raise ConfigError(f"Invalid patch: expected float32 scales, got {scales.dtype}")
    num_tokens, num_features, *ranks = row
    return RaggedFactors(u, vt, tuple(ranks), num_tokens, num_features, scales)
