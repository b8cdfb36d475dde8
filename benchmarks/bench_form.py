"""What does forming cost, and who waits for it? Chunk B of 256 to 2048 tokens behind a chunk of 256.

prefill            the forward that the request needs anyway: B behind A. The ceiling: forming that cost the
                   request nothing would leave it at this
verb, deferred     `Session.show`, forming="deferred": plan, prefill, lay out; what is left to form waits
verb, at once      the same with forming="at once": it returns when all is kept
solo forward       B alone, for its canonical: what free forming can't do without
fit, default       un-rotate, subtract, fit: `KNEE`, byte budget and int8, by the random sketch
fit, rank 16       the same at one rank in float32
keep               the patch into a store in memory

The request waits for `verb`; solo forward, fit and keep are what is left, and is run when nobody waits.
Models: nano-gqa, SmolLM2-135M's real weights in bfloat16 (30 layers), and Qwen2.5-VL-3B's layer shapes with
random weights, as many layers as are stated (cost is by layer). The fits by themselves (full SVD, Gram,
sketch) at Qwen2.5-VL-7B's F = 512 and T = 1024 come last, two layers: their ceiling is one product of Δ with
a thin matrix.

    python benchmarks/bench_form.py [--short] [--threads N]
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import torch

import kamera
from harness import Row, Timing, aim, finish, measure, ratio, read_options, row
from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.engines.hf import HFEngine
from kamera.identity import ChunkKey
from kamera.library import Library
from kamera.patch import KNEE, Patch, PatchProfile, deficit, fit_fast, fit_gram, fit_svd
from kamera.positions import text_layout
from kamera.session import Session, SessionSettings
from kamera.store import MemoryStore
from windows import qwen_shapes, smollm2

ROUNDS = {256: 4, 512: 3, 1024: 2, 2048: 2}
"""By the length of B."""
WARM_UP_BELOW = 1024
"""Tokens: a longer B comes when all is warm, and a round of it takes long."""
SHORT_TOKENS, SHORT_ROUNDS = (256,), 2
NANO_TOKENS = (256,)
FRONT_TOKENS = 256
QWEN_LAYERS = 1
FIT_ROUNDS = 3
STORE_BYTES = 4 << 30
PREFILL, DEFERRED, AT_ONCE = "prefill", "verb, deferred", "verb, at once"
SOLO, FIT, FIT_16, KEEP = "solo forward", "fit, default", "fit, rank 16", "keep"
FITS = {"full SVD": fit_svd, "Gram": fit_gram, "default": fit_fast}
FIT_SHAPE = (2, 1024, 512)
FIT_RANKS = (16, 64)


@dataclass(frozen=True, eq=False)
class Case:
    """A, B, and what forming B's patch reads."""

    engine: HFEngine
    front: Chunk
    chunk: Chunk

    def session(self, forming: str) -> Session:
        """One that holds A, and knows nothing of B."""
        settings = SessionSettings(forming=forming, form_leading=False)
        session = Session(self.engine, MemoryStore(STORE_BYTES), settings)
        session.show([self.front])
        session.form_pending()
        return session

    def behind(self) -> tuple[int, ChunkKV]:
        """Where B starts, and the KV in front of it."""
        prefix, _ = self.engine.frame("?")
        front = [chunk for chunk in (prefix, self.front) if chunk is not None]
        kv = self.engine.prefill(front, {}, start=0).kv
        return sum(chunk.extent for chunk in front), kv


def main() -> None:
    """Models, then the fits."""
    options = read_options(__doc__)
    rows: list[Row] = []
    aims: list[Row] = []
    facts: list[dict[str, Any]] = []
    for model, engine, lengths in engines(short=options.short):
        for num_tokens in lengths:
            case = Case(engine, text(engine, FRONT_TOKENS, 0), text(engine, num_tokens, 1))
            repeats = SHORT_ROUNDS if options.short else ROUNDS[num_tokens]
            timings, patch_facts = measure_case(case, repeats)
            label = f"{model}, {num_tokens}"
            for name, timing in timings.items():
                ceiling = (PREFILL, timings[PREFILL])
                rows.append(
                    row(f"{label}: {name}", timing, ceiling, model=model, tokens=num_tokens)
                )
            waits = ratio(timings[DEFERRED], timings[PREFILL]) - 1
            if num_tokens >= FRONT_TOKENS and model != "nano-gqa":
                aims.append(
                    aim(f"what a request waits beyond its prefill, {label}", waits, at_most=0.1)
                )
            print(f"{label} tokens: measured", flush=True)
            facts.append({"model": model, "tokens": num_tokens, **patch_facts, **shares(timings)})
    rows += fit_rows(FIT_ROUNDS)
    report = {"profile": str(KNEE), "rounds": ROUNDS, "rows": rows, "forming": facts, "aims": aims}
    finish("form", report, options.out)


def engines(*, short: bool) -> Iterator[tuple[str, HFEngine, tuple[int, ...]]]:
    """Name, engine, and the lengths of B."""
    yield "nano-gqa", HFEngine.from_pretrained(kamera.packaged_model()), NANO_TOKENS
    lengths = SHORT_TOKENS if short else tuple(ROUNDS)
    if (subject := smollm2(1)) is not None:
        yield subject.name, subject.engine, lengths
    qwen = qwen_shapes(1, QWEN_LAYERS)
    yield qwen.name, qwen.engine, lengths


def text(engine: HFEngine, num_tokens: int, seed: int) -> Chunk:
    """Tokens drawn from the vocabulary's plain middle: cost doesn't ask what they say."""
    generator = torch.Generator().manual_seed(seed)
    size = min(engine.backbone.text_config.vocab_size, len(engine.tokenizer)) // 2
    ids = torch.randint(size // 4, size, (num_tokens,), generator=generator)
    key = ChunkKey(engine.model_key, None, "text", tuple(ids.tolist()))
    return Chunk(key, text_layout(num_tokens, engine.spec.num_axes))


def measure_case(case: Case, repeats: int) -> tuple[dict[str, Timing], dict[str, Any]]:
    """Every part, in turns."""
    engine, chunk = case.engine, case.chunk
    start, front = case.behind()
    positions = chunk.layout.at(start)
    conditioned = engine.prefill([chunk], {}, start=start, context=front).kv
    solo = engine.prefill([chunk], {}, start=0).kv
    canonical = solo.to_canonical(chunk.layout.at(0), engine.spec)
    library = Library(MemoryStore(STORE_BYTES), engine.model_key.digest, None, KNEE)

    def fit(profile: PatchProfile) -> Patch:
        wide = conditioned.to_canonical(positions, engine.spec, torch.float32)
        return profile.form(deficit(wide, canonical), "a" * 64, canonical.num_bytes)

    patch = fit(KNEE)
    held: dict[str, Session] = {}

    def open_one(forming: str) -> None:
        held[forming] = case.session(forming)

    def show(forming: str) -> None:
        held[forming].show([case.front, chunk])

    arms = {
        PREFILL: lambda: engine.prefill([chunk], {}, start=start, context=front),
        DEFERRED: lambda: show("deferred"),
        AT_ONCE: lambda: show("at once"),
        SOLO: lambda: engine.prefill([chunk], {}, start=0),
        FIT: lambda: fit(KNEE),
        FIT_16: lambda: fit(PatchProfile(rank=16)),
        KEEP: lambda: library.keep_patch(chunk, ["b" * 64], patch),
    }
    prepare = {
        DEFERRED: lambda: open_one("deferred"),
        AT_ONCE: lambda: open_one("at once"),
    }
    warmup = int(chunk.num_tokens < WARM_UP_BELOW)
    timings = measure(arms, repeats, warmup, prepare=prepare)
    facts = {"patch_bytes": patch.num_bytes, "share_of_kv": patch.num_bytes / canonical.num_bytes}
    return timings, facts


def shares(timings: dict[str, Timing]) -> dict[str, float]:
    """Each part over the prefill, by rounds."""
    prefill = timings[PREFILL]
    found = {
        "waits_deferred": ratio(timings[DEFERRED], prefill) - 1,
        "waits_at_once": ratio(timings[AT_ONCE], prefill) - 1,
        "solo": ratio(timings[SOLO], prefill),
        "fit": ratio(timings[FIT], prefill),
        "keep": ratio(timings[KEEP], prefill),
    }
    return {**found, "forming": found["solo"] + found["fit"] + found["keep"]}


def fit_rows(repeats: int) -> list[Row]:
    """The fits alone, on a deficit whose singular values fall as 1/i."""
    generator = torch.Generator().manual_seed(0)
    layers, tokens, features = FIT_SHAPE
    left = torch.linalg.qr(torch.randn(layers, tokens, features, generator=generator)).Q
    right = torch.linalg.qr(torch.randn(layers, features, features, generator=generator)).Q
    delta = (left / torch.arange(1, features + 1)) @ right
    rows: list[Row] = []
    for rank in FIT_RANKS:
        thin = torch.randn(features, rank, generator=generator)
        arms: dict[str, Any] = {"one product": lambda thin=thin: delta @ thin}
        for name, fit in FITS.items():
            arms[name] = lambda fit=fit, rank=rank: fit(delta, rank)
        timings = measure(arms, repeats)
        total = float(delta.double().square().sum())
        for name, timing in timings.items():
            facts: dict[str, Any] = {"rank": rank, "layers": layers}
            if name in FITS:
                rest = delta.double() - FITS[name](delta, rank).product(torch.float64)
                facts["energy"] = 1 - float(rest.square().sum()) / total
            label = f"fit of rank {rank}, T = {tokens}, F = {features}, {layers} layers: {name}"
            rows.append(row(label, timing, ("one product", timings["one product"]), **facts))
    return rows


if __name__ == "__main__":
    main()
