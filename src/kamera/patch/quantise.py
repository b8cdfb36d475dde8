"""Factors in one byte a number: fp8 or int8, with one scale for each direction."""

import torch
from torch import Tensor

from kamera.errors import ConfigError
from kamera.patch.factors import AnyFactors, Patch
from kamera.patch.ragged import RaggedFactors

LARGEST = {torch.float8_e4m3fn: 448.0, torch.int8: 127.0}
"""The largest value of each dtype that factors can be quantised to."""


def quantised(patch: Patch, dtype: torch.dtype) -> Patch:
    """The patch with its factors in `dtype`, float8_e4m3fn or int8.

    Raises:
        ConfigError: another dtype.
    """
    if dtype not in LARGEST:
        raise ConfigError(f"Invalid dtype of factors: expected one of {list(LARGEST)}, got {dtype}")
    factors = {name: _quantised(held, dtype) for name, held in patch.factors.items()}
    return Patch(factors, patch.antecedent, patch.kind)


def _quantised(factors: AnyFactors, dtype: torch.dtype) -> RaggedFactors:
    """Each column of u and each row of vt, stretched to the dtype's range.

    The product of the two stretches is the direction's one scale. int8 rounds to the nearest step of 1/127 of
    the largest entry, fp8 each entry to 4 significant bits.
    """
    flat = factors.flat(torch.float32)
    columns, rows, scales = [], [], []
    for u, vt in flat.layers():
        u_step, vt_step = _step(u.mT, dtype), _step(vt, dtype)
        columns.append(_cast(u / u_step, dtype).flatten())
        rows.append(_cast(vt / vt_step[:, None], dtype).flatten())
        scales.append(u_step * vt_step)
    return RaggedFactors(
        torch.cat(columns),
        torch.cat(rows),
        flat.ranks,
        flat.num_tokens,
        flat.num_features,
        torch.cat(scales),
    )


def _step(rows: Tensor, dtype: torch.dtype) -> Tensor:
    """What one unit of `dtype` stands for, for each row; 1 for a row of zeros."""
    largest = rows.abs().amax(dim=1)
    return torch.where(largest > 0, largest, torch.ones_like(largest)) / LARGEST[dtype]


def _cast(values: Tensor, dtype: torch.dtype) -> Tensor:
    limit = LARGEST[dtype]
    inside = values.clamp(-limit, limit)
    return (inside.round() if dtype is torch.int8 else inside).to(dtype)
