"""How many bytes must a patch have, to give back what blind reuse loses? η by bytes, and the default's knee.

uniform        one rank for all layers and channels, factors in float32 or bf16: the profile of old
water-filled   a rank for each layer and channel under a byte budget, factors in bf16, fp8 or int8
deep           the water-filled ranks, in the deepest half of the layers alone
shared basis   one Vᵀ for each layer of the model, pooled over other texts; a chunk's bytes are those of its
               coefficients, int8, and the basis is counted for no chunk

On the four packaged models' binding task, and on SmolLM2-135M's own weights (30 layers, F = 192; text behind
a two-paragraph antecedent; float32). Bytes are a share of the chunk's KV at two bytes a number, whatever the
model computes in. The ceilings are η = 1, and `best_energy`: what as many bytes of exact singular directions
keep, at a byte a number with nothing lost to it, no sketch and no bound on a layer's rank.

What a profile costs at Qwen2.5-VL-7B's geometry (T = 1024, F = 512, 28 layers) is arithmetic. What it gives
there isn't measured: no such weights are here.

    python benchmarks/bench_rank_bytes.py [--short] [--threads N]
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import torch
from torch import Tensor

import kamera
from antecedent_text import QUESTIONS, antecedent_and_text
from harness import ROOT, aim, finish, read_options
from kamera.arms import Workbench
from kamera.engines.hf import HFEngine
from kamera.lab.metrics import kl
from kamera.lab.metrics_paired import eta_interval
from kamera.lab.probes.case import Case, case_of, text_case
from kamera.lab.tasks import TASKS
from kamera.patch import (
    KNEE,
    Deficits,
    Factors,
    Patch,
    PatchProfile,
    apply,
    fit_gram,
)

NANO = ("nano-gqa", "nano-deepstack", "nano-mla", "nano-mha")
NUM_ITEMS, SHORT_ITEMS = 16, 3
TEXTS = {256: (4, 2), 1024: (4, 0)}
"""B's tokens, roughly: how many texts, and how many with --short."""
SENTENCE_TOKENS = 35
NUM_POOLED = 3
"""Texts that the shared basis is learned on; none of them is measured."""
NANO_SHARES = (0.005, 0.01, 0.02, 0.06)
SHARES = (0.01, 0.02, 0.03, 0.04, 0.06, 0.08)
ETA = 0.9
NO_GAP = 1e-3
"""Mean KL of blind reuse, nats, below which η is a ratio of noise."""
QWEN_7B = {"T": 1024, "F": 512, "L": 28}
Form = Callable[[Deficits, int], tuple[Patch, int]]
"""Δ and the KV's bytes -> a patch and the bytes that are counted for it."""


@dataclass
class Curve:
    """One profile over the cases."""

    name: str
    kls: list[float] = field(default_factory=list)
    shares: list[float] = field(default_factory=list)
    energies: list[float] = field(default_factory=list)

    def json(self, blind: Sequence[float]) -> dict[str, Any]:
        """Means, and η with its interval."""
        eta = eta_interval(self.kls, blind)
        return {
            "profile": self.name,
            "share_of_kv": sum(self.shares) / len(self.shares),
            "energy": sum(self.energies) / len(self.energies),
            "kl": sum(self.kls) / len(self.kls),
            "eta": None if eta is None else eta.json(),
        }


def main() -> None:
    """Nano, text, arithmetic."""
    options = read_options(__doc__)
    num_items = SHORT_ITEMS if options.short else NUM_ITEMS
    found = [nano(name, num_items) for name in NANO[: 1 if options.short else None]]
    found += [text for size in TEXTS if (text := smollm2(size, short=options.short)) is not None]
    for subject in found:
        show(subject)
    at_qwen = arithmetic()
    report = {
        "subjects": found,
        "qwen2.5-vl-7b": at_qwen,
        "default": str(KNEE),
        "aims": aims(found),
    }
    finish("rank_bytes", report, options.out)


def nano(name: str, num_items: int) -> dict[str, Any]:
    """The binding task's target frame behind the others."""
    bench = Workbench(HFEngine.from_pretrained(kamera.packaged_model(name)))

    def cases() -> Iterator[list[Case]]:
        for item in TASKS["binding"].items(num_items, split="test", seed=0):
            yield [case_of(bench, item)]
            bench.clear()

    return sweep(f"{name}, binding", cases(), profiles(NANO_SHARES, (1, 4, 16)))


def smollm2(num_tokens: int, *, short: bool) -> dict[str, Any] | None:
    """Text behind text; every text with its questions."""
    from kamera.lab.smollm2 import HOW, is_installed, smollm2_checkpoint

    count = TEXTS[num_tokens][short]
    if not count:
        return None
    if not is_installed():
        print(f"SmolLM2-135M is left out: {HOW}", flush=True)
        return None
    engine = HFEngine.from_pretrained(smollm2_checkpoint(Path(ROOT / "build" / "models")))
    bench = Workbench(engine)
    forms = profiles(SHARES, (4, 8, 16))
    basis = pooled([text_cases(bench, seed, num_tokens) for seed in range(100, 100 + NUM_POOLED)])
    for rank in (8, 16, 32):
        forms[f"shared basis of rank {rank}, int8"] = shared(basis, rank)
    cases = (text_cases(bench, seed, num_tokens) for seed in range(count))
    return sweep(f"SmolLM2-135M, {num_tokens} tokens of text", cases, forms)


def text_cases(bench: Workbench, seed: int, num_tokens: int) -> list[Case]:
    """One text, a case for each question."""
    bench.clear()
    before, text = antecedent_and_text(seed, num_tokens // SENTENCE_TOKENS)
    first = text_case(bench, before, text, QUESTIONS[0])
    tails = [bench.engine.frame(question)[1] for question in QUESTIONS]
    return [replace(first, tail=tail) for tail in tails]


def profiles(shares: Sequence[float], ranks: Sequence[int]) -> dict[str, Form]:
    """Name -> how it forms."""
    chosen = [
        PatchProfile(rank=rank, factors=kind) for rank in ranks for kind in ("float32", "bf16")
    ]
    chosen += [PatchProfile(share=s, factors=k) for k in ("bf16", "int8") for s in shares]
    chosen += [PatchProfile(share=s, factors="fp8") for s in shares[-3:-1]]
    chosen += [PatchProfile(share=s, factors="int8", depth=0.5) for s in shares[-3:-1]]
    return {str(profile): kept(profile) for profile in chosen}


def kept(profile: PatchProfile) -> Form:
    """What a store keeps."""

    def form(deltas: Deficits, kv_bytes: int) -> tuple[Patch, int]:
        patch = profile.form(deltas, "bench", kv_bytes)
        return patch, patch.num_bytes

    return form


def pooled(texts: Sequence[Sequence[Case]]) -> dict[str, Tensor]:
    """The top directions of other texts' deficits, all that there are: channel -> [L, F, F]."""
    rows: dict[str, list[Tensor]] = {}
    for cases in texts:
        for name, delta in cases[0].delta().items():
            rows.setdefault(name, []).append(delta)
    return {name: fit_gram(torch.cat(deltas, dim=1)).vt for name, deltas in rows.items()}


def shared(basis: Mapping[str, Tensor], rank: int) -> Form:
    """Coefficients on the model's directions, int8 with a scale each; the basis is counted for no chunk."""

    def form(deltas: Deficits, kv_bytes: int) -> tuple[Patch, int]:
        factors = {}
        for name, delta in deltas.items():
            vt = basis[name][:, :rank]
            u = delta @ vt.mT
            step = u.abs().amax(dim=1, keepdim=True).clamp_min(1e-30) / 127
            factors[name] = Factors((u / step).round() * step, vt.contiguous())
        num_bytes = sum(h.u.numel() + 4 * h.rank * h.num_layers for h in factors.values())
        return Patch(factors, "bench"), num_bytes

    return form


def sweep(name: str, texts: Iterator[list[Case]], forms: Mapping[str, Form]) -> dict[str, Any]:
    """Every profile on every case."""
    curves = {profile: Curve(profile) for profile in forms}
    best: dict[float, list[float]] = {share: [] for share in SHARES}
    blind: list[float] = []
    shape: dict[str, int] = {}
    for cases in texts:
        case = cases[0]
        canonical = case.bench.canonical(case.chunk)
        kv_bytes = sum(2 * tensor.numel() for tensor in canonical.tensors.values())
        references = [c.reference() for c in cases]
        deltas = case.delta()
        shape = {"T": canonical.num_tokens, "L": canonical.num_layers}
        shape |= {f"F of {channel}": delta.shape[2] for channel, delta in deltas.items()}
        blind += kls(cases, references, None)
        for share, energy in best_energies(deltas, kv_bytes).items():
            best[share].append(energy)
        for profile, form in forms.items():
            patch, num_bytes = form(deltas, kv_bytes)
            curve = curves[profile]
            curve.kls += kls(cases, references, patch)
            curve.shares.append(num_bytes / kv_bytes)
            curve.energies.append(energy_kept(deltas, patch))
        print(f"{name}: {len(blind)} answers", flush=True)
    return {
        "name": name,
        **shape,
        "answers": len(blind),
        "blind_kl": sum(blind) / len(blind),
        "curves": [curve.json(blind) for curve in curves.values()],
        "best_energy": {str(share): sum(e) / len(e) for share, e in best.items()},
    }


def kls(cases: Sequence[Case], references: Sequence[Tensor], patch: Patch | None) -> list[float]:
    """KL to re-prefill of each case, B from its canonical and this patch."""
    first = cases[0]
    canonical = first.bench.canonical(first.chunk)
    positions = first.chunk.layout.at(first.start)
    placed = apply(canonical, patch, positions, first.engine.spec)
    return [kl(c.with_kv(placed), r) for c, r in zip(cases, references, strict=True)]


def best_energies(deltas: Deficits, kv_bytes: int) -> dict[float, float]:
    """The ceiling: by exact singular values alone, water-filled without a cap, a byte a number."""
    squares, costs = [], []
    for delta in deltas.values():
        square = torch.linalg.svdvals(delta).double().square()
        total = square.sum(dim=1, keepdim=True)
        squares.append((square / total.where(total > 0, torch.ones_like(total))).flatten())
        costs.append(torch.full_like(squares[-1], delta.shape[1] + delta.shape[2] + 4.0))
    gain, cost = torch.cat(squares), torch.cat(costs)
    order = (gain / cost).argsort(descending=True)
    spent, reached = cost[order].cumsum(0), gain[order].cumsum(0) / gain.sum()
    found = {}
    for share in SHARES:
        fits = int((spent <= share * kv_bytes).sum())
        found[share] = float(reached[fits - 1]) if fits else 0.0
    return found


def energy_kept(deltas: Deficits, patch: Patch) -> float:
    """Mean over layers and channels of the share of Δ's energy that the patch keeps."""
    shares = []
    for name, delta in deltas.items():
        total = delta.square().sum(dim=(1, 2))
        rest = (delta - patch.factors[name].product()).square().sum(dim=(1, 2))
        shares.append(1 - (rest / total)[total > 0])
    return float(torch.cat(shares).mean())


def arithmetic() -> list[dict[str, Any]]:
    """Bytes at the 7B's geometry, by profile: share of KV, and mean rank of a layer and channel."""
    tokens, features, layers = QWEN_7B.values()
    kv_bytes = 2 * layers * tokens * features * 2
    rows = []
    for profile, width, scale in (
        (PatchProfile(rank=16), 4, 0),
        (PatchProfile(rank=16, factors="bf16"), 2, 0),
        (PatchProfile(rank=32, factors="bf16"), 2, 0),
        (PatchProfile(rank=64, factors="bf16"), 2, 0),
        (KNEE, 1, 4),
    ):
        each = width * (tokens + features) + scale
        rank = profile.rank or (profile.share or 0) * kv_bytes / (2 * layers * each)
        share = 2 * layers * rank * each / kv_bytes
        rows.append({"profile": str(profile), "mean_rank": rank, "share_of_kv": share})
    return rows


def aims(found: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """η of at least 0.9 within 6 % of the KV's bytes, where blind reuse loses anything.

    By a chunk's own patch: a shared basis has bytes that aren't counted here.
    """
    rows = []
    for subject in found:
        if subject["blind_kl"] < NO_GAP:
            continue
        own = [c for c in subject["curves"] if c["eta"] and not c["profile"].startswith("shared")]
        good = [c["share_of_kv"] for c in own if c["eta"]["value"] >= ETA]
        text = f"share of KV bytes with η >= 0.9, {subject['name']}"
        rows.append(aim(text, min(good, default=1.0), at_most=0.06))
        (knee,) = (c for c in own if c["profile"] == str(replace(KNEE, least=None)))
        rows.append(
            aim(f"η at {knee['profile']}, {subject['name']}", knee["eta"]["value"], at_least=ETA)
        )
    return rows


def show(subject: Mapping[str, Any]) -> None:
    """A line a profile."""
    gap = "" if subject["blind_kl"] >= NO_GAP else ": no gap, η says nothing"
    print(f"\n{subject['name']}: blind KL {subject['blind_kl']:.4f} nats{gap}")
    for curve in sorted(subject["curves"], key=lambda c: (c["share_of_kv"], c["profile"])):
        eta = curve["eta"]
        shown = "–" if eta is None else f"{eta['value']:.3f} [{eta['low']:.3f}, {eta['high']:.3f}]"
        print(
            f"  {curve['share_of_kv']:7.2%}  η {shown}  energy {curve['energy']:.3f}  "
            f"{curve['profile']}"
        )
    print(f"  most energy at {subject['best_energy']}")


if __name__ == "__main__":
    main()
