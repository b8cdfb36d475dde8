"""Time to first token of a reused window: how soon is a question answered over chunks that were seen before?

The window (256 to 4096 tokens behind the chat template's prefix, in chunks of 256) is asked for again behind
another one, so that nothing of it stands in place. Side by side in one process, all with the same model,
attention and kind of cache:

re-prefill             one forward over window and question
prefix cache, shifted  only the chat prefix hits, since what stands in front of the chunks has changed.
                       (Were nothing moved, it would cost `question alone`: prefix caching serves that.)
CacheBlend 15%         every chunk's KV relocated, then the 15 % of tokens that deviate most recomputed in
                       context (benchmarks/blend.py). Its two full check layers would be most of the few
                       layers of the second model: there each layer runs 19.7 % of the tokens, the mean over
                       all 36 of them.
Kamera                 a `Session`: look-up, plan, relocate, the default patch, write, from memory
question alone         **the ceiling**: the forward that every arm ends with, over KV that is in place (blind:
                       every chunk's canonical, relocated)
memcpy + question      the same behind one plain copy of the window's KV

Models: see benchmarks/windows.py. Vision towers are left out of all arms.

    python benchmarks/bench_ttft.py [--short] [--threads N]
"""

from __future__ import annotations

import statistics
from typing import Any

from harness import Row, Timing, aim, finish, measure, ratio, read_options, row
from serving import BLEND, COPY, KAMERA, PREFIX, QUESTION, REPREFILL, Served, kl, learned
from windows import CHUNK_TOKENS, PATCH, Subject, qwen_shapes, smollm2

ROUNDS = {256: 7, 512: 7, 1024: 5, 2048: 3, 4096: 3}
SHORT_ROUNDS = {256: 2, 512: 2}
QWEN_LAYERS, SHORT_QWEN_LAYERS = 2, 1
BLEND_FROM = 1024
"""Tokens from which on Kamera should be five times as fast as CacheBlend."""
WHY = "the question's own forward, which every arm ends with; the limit is that forward alone"


def main() -> None:
    """Both models at every length."""
    options = read_options(__doc__)
    rounds = SHORT_ROUNDS if options.short else ROUNDS
    longest = max(rounds) // CHUNK_TOKENS
    layers = SHORT_QWEN_LAYERS if options.short else QWEN_LAYERS
    rows: list[Row] = []
    speedups: list[dict[str, Any]] = []
    for make in (lambda: smollm2(longest), lambda: qwen_shapes(longest, layers)):
        subject = make()
        if subject is not None:
            measure_subject(subject, rounds, rows, speedups)
    report = {
        "patch": PATCH,
        "chunk_tokens": CHUNK_TOKENS,
        "rounds": rounds,
        "rows": rows,
        "speedups": speedups,
        "aims": aims(speedups),
    }
    finish("ttft", report, options.out)


def measure_subject(
    subject: Subject, rounds: dict[int, int], rows: list[Row], speedups: list[dict[str, Any]]
) -> None:
    """One model: forms the longest window's patches, which hold for the shorter ones too."""
    trained = subject.name == "smollm2"
    session = learned(subject, max(rounds) // CHUNK_TOKENS)
    for num_tokens, repeats in rounds.items():
        served = Served(session, subject.window(num_tokens // CHUNK_TOKENS), check=trained)
        served.check_reuse()
        logits = {name: arm() for name, arm in served.arms().items()}  # warms every arm up
        served.answers.clear()
        timings = measure(served.arms(), repeats, warmup=0, prepare={KAMERA: served.leave})
        found = {"model": subject.name, "tokens": num_tokens}
        for name, timing in timings.items():
            facts: dict[str, Any] = {**found, "arm": name}
            if trained and name != COPY:
                facts["kl_to_reprefill"] = kl(logits[name], logits[REPREFILL])
            label = f"{subject.name} {num_tokens} {name}"
            rows.append(row(label, timing, (QUESTION, timings[QUESTION]), **facts))
        composed = [a.ttft_s for a in served.answers[-repeats:]]
        speedups.append({**found, **compare(timings), "question_s": statistics.median(composed)})
        print(f"{subject.name} {num_tokens}: {shown(speedups[-1])}", flush=True)
    session.close()


def compare(timings: dict[str, Timing]) -> dict[str, float]:
    """How many times as fast as each arm Kamera is, and as nothing but the question would be."""
    found = {}
    for name in (REPREFILL, PREFIX, BLEND):
        found[f"over {name}"] = ratio(timings[name], timings[KAMERA])
        found[f"most over {name}"] = ratio(timings[name], timings[QUESTION])
    return found


def shown(speedup: dict[str, Any]) -> str:
    """For the reader who waits."""
    return ", ".join(
        f"{speedup[f'over {name}']:.1f} x {name} (at most {speedup[f'most over {name}']:.1f})"
        for name in (REPREFILL, PREFIX, BLEND)
    )


def aims(speedups: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Faster than re-prefill everywhere; five times as fast as CacheBlend on long windows."""
    found = []
    for one in speedups:
        where = f"{one['model']}, {one['tokens']} tokens"
        found.append(
            aim(f"TTFT: re-prefill over Kamera, {where}", one[f"over {REPREFILL}"], at_least=1.0)
        )
        if one["tokens"] >= BLEND_FROM:
            text = f"TTFT: CacheBlend 15% over Kamera, {where}"
            most = one[f"most over {BLEND}"]
            found.append(aim(text, one[f"over {BLEND}"], at_least=5.0, limit=most, why=WHY))
    return found


if __name__ == "__main__":
    main()
