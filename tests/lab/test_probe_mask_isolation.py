"""B kept from A by a mask, at its own place: the loss is there, and position has no part in it.

The bound on B's KV is twice the error of the model's own float32 prefill of B at that place, against float64.
"""

from pathlib import Path
from typing import Any

import kamera
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.metrics import kl
from kamera.lab.probes.case import Case, cases_of
from kamera.lab.probes.mask_isolation import blocked_forward, probe_mask_isolation
from kamera.lab.tasks import TASKS


def rounding(case: Case, folder: Path) -> float:
    """Largest error of a plain prefill of B alone at its place, un-rotated, relative to float64's largest."""
    errors, wide = [], HFEngine.from_pretrained(folder, dtype="float64")
    positions, vision = case.chunk.layout.at(case.start), case.bench.vision([case.chunk])
    found: list[Any] = []
    for engine in (case.engine, wide):
        seen = {name: t.to(engine.backbone.model.dtype) for name, t in vision.items()}
        kv = engine.prefill([case.chunk], seen, start=case.start).kv
        found.append(kv.to_canonical(positions, engine.spec).tensors)
    plain, exact = found
    for name in exact:
        errors.append((plain[name] - exact[name]).abs().max() / exact[name].abs().max())
    return float(max(errors))


def test_a_masked_chunk_has_its_canonicals_kv_on_a_random_model(engine, tiny, picture) -> None:
    prefix, tail = engine.frame("what is it?")
    chunks = (prefix, *(engine.image_chunk(picture(seed)) for seed in (1, 2, 3)))
    case = Case(Workbench(engine), chunks, 2, tail)
    found = probe_mask_isolation([case], rank=case.chunk.num_tokens)
    assert found.kv_error <= 2 * rounding(case, tiny)
    assert found.loss_kl > 1e3 * found.control_kl
    _, masked = blocked_forward(case)
    assert kl(masked, case.reference()) != found.loss_kl  # what stands behind B absorbs it


def test_on_nano_gqa_the_loss_is_conditioning() -> None:
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model()))
    cases = list(cases_of(bench, TASKS["binding"].items(4)))
    found = probe_mask_isolation(cases)
    assert found.n == 4
    assert found.kv_error <= 2 * rounding(cases[0], kamera.packaged_model())
    assert found.loss_kl > 1.0 > 1e3 * found.control_kl
    assert abs(found.blind_kl - found.loss_kl) < 1e-3 * found.loss_kl
    assert found.eta is not None
    assert found.eta >= 0.97
