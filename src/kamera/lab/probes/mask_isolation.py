"""Is the loss conditioning, not position? B is kept from seeing A inside one forward, at its own place
(paper section 2 and Table 7).
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.engines.hf import cache as kv_cache
from kamera.engines.hf.recompute import row_mask
from kamera.lab.metrics import eta, kl
from kamera.lab.probes.case import Case, laid_out
from kamera.patch import deficit, form_patch


@dataclass(frozen=True)
class MaskIsolation:
    """Means over the cases, nats.

    Attributes:
        loss_kl: KL(re-prefill || the forward in which B doesn't see A).
        control_kl: KL(that forward || B's canonical relocated to the same place): what position costs.
        blind_kl: KL(re-prefill || B's canonical relocated). Equal to `loss_kl` where relocation is exact.
        kv_error: largest difference of B's KV between the two, un-rotated, relative to the channel's largest
            value.
        eta: share of the loss that a patch of `rank` closes, fitted to the deficit against the masked KV.
        n: cases.
    """

    loss_kl: float
    control_kl: float
    blind_kl: float
    kv_error: float
    eta: float | None
    rank: int
    n: int


def probe_mask_isolation(cases: Iterable[Case], *, rank: int = 16) -> MaskIsolation:
    """The 4-D mask oracle: block B from A, change nothing else.

    What stands behind B is left out: it would absorb the blocked B.
    """
    loss, control, blind, patched, error = [], [], [], [], 0.0
    for whole in cases:
        case = whole.up_to_target()
        kv, masked = blocked_forward(case)
        reference, relocated = case.reference(), case.with_patch(None)
        alone = kv.to_canonical(case.chunk.layout.at(case.start), case.engine.spec, torch.float32)
        canonical = case.bench.canonical(case.chunk)
        for name, gap in deficit(alone, canonical).items():
            error = max(error, float(gap.abs().max() / canonical.tensors[name].abs().max()))
        patch = form_patch(deficit(case.conditioned(), alone), "mask", rank)
        loss.append(kl(masked, reference))
        control.append(kl(relocated, masked))
        blind.append(kl(relocated, reference))
        patched.append(kl(case.with_patch(patch), reference))
    n = len(loss)
    return MaskIsolation(
        sum(loss) / n, sum(control) / n, sum(blind) / n, error, eta(patched, loss), rank, n
    )


@torch.inference_mode()
def blocked_forward(case: Case) -> tuple[ChunkKV, Float[Tensor, " vocab"]]:
    """One forward over window and tail in which B sees none of A: B's placed KV, and the last logits."""
    backbone = case.engine.backbone
    ids, positions, media = laid_out(case.bench, [*case.chunks, case.tail])
    index = torch.arange(len(ids), device=backbone.device)
    mask = row_mask(backbone, backbone.is_media(ids), index)
    first, end = case.span
    for scores in mask.values() if isinstance(mask, dict) else [mask]:
        scores[..., first:end, :first] = torch.finfo(scores.dtype).min
    cache = kv_cache.write(None, backbone.channels)
    logits = backbone.forward(ids, positions, cache, media, mask=mask)
    return kv_cache.read(cache, 0, backbone.channels).slice_tokens(first, end), logits
