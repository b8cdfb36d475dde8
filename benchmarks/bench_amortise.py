"""After how many reuses has Kamera paid for itself? A window of 1024 tokens, measured on both models.

re-prefill        one forward over window and question, at every request
free forming      the first request prefills as ever, and what it cached is what the patches are formed of;
                  beyond it there is each chunk's forward alone, and the fit
paid forming      the patches are formed ahead by a prefill of their own, which answers nothing (what the
                  paper counts: 9 reuses)

All costs are counted, on and off the request's path, and the first request too: with free forming the
question is after how many **further** requests the sums meet; with paid forming, after how many requests at
all. Nothing is taken from another window's work: canonicals are formed here as well. The ceiling is
`question alone`: a reuse can't cost less, and forming can't cost less than nothing, so that the best is 1.

    python benchmarks/bench_amortise.py [--short] [--threads N]
"""

from __future__ import annotations

import math
from typing import Any

from harness import Row, Timing, aim, finish, measure, read_options, row
from kamera.session import Session
from kamera.session.former import Former
from serving import KAMERA, QUESTION, REPREFILL, Served, learned
from windows import CHUNK_TOKENS, PATCH, Subject, Window, qwen_shapes, smollm2

TOKENS, SHORT_TOKENS = 1024, 256
ROUNDS, SHORT_ROUNDS = 5, 2
QWEN_LAYERS, SHORT_QWEN_LAYERS = 2, 1
REUSES = 32
FIRST = "first request, forming"
PAID = "paid forming"


def main() -> None:
    """Both models."""
    options = read_options(__doc__)
    num_chunks = (SHORT_TOKENS if options.short else TOKENS) // CHUNK_TOKENS
    repeats = SHORT_ROUNDS if options.short else ROUNDS
    layers = SHORT_QWEN_LAYERS if options.short else QWEN_LAYERS
    rows: list[Row] = []
    found: list[dict[str, Any]] = []
    for make in (lambda: smollm2(num_chunks), lambda: qwen_shapes(num_chunks, layers)):
        subject = make()
        if subject is not None:
            found.append(measure_subject(subject, num_chunks, repeats, rows))
    aims = [
        aim(f"break-even with free forming, further requests, {f['model']}", f["free"], at_most=2)
        for f in found
        if f["free"] is not None
    ]
    report = {"patch": PATCH, "rounds": repeats, "rows": rows, "break_even": found, "aims": aims}
    finish("amortise", report, options.out)


def measure_subject(
    subject: Subject, num_chunks: int, repeats: int, rows: list[Row]
) -> dict[str, Any]:
    """Rows of the parts, and where the sums meet."""
    session = learned(subject, num_chunks)
    window = subject.window(num_chunks)
    served = Served(session, window, check=True)
    served.check_reuse()
    arms = {
        QUESTION: served.question,
        REPREFILL: served.reprefill,
        KAMERA: served.kamera,
        FIRST: lambda: first_request(window),
        PAID: lambda: form_ahead(window),
    }
    timings = measure(arms, repeats, prepare={KAMERA: served.leave})
    facts = {"model": subject.name, "tokens": num_chunks * CHUNK_TOKENS}
    for name, timing in timings.items():
        label = f"{subject.name} {name}"
        rows.append(row(label, timing, (QUESTION, timings[QUESTION]), **facts, arm=name))
    session.close()
    return {**facts, **break_even(timings)}


def first_request(window: Window) -> Session:
    """A session that knows nothing: prefill, form, answer."""
    session = window.subject.session()
    session.show(window.chunks)
    session.generate(window.tail, max_new_tokens=1)
    return session


def form_ahead(window: Window) -> Former:
    """One prefill of the window, one forward of each chunk alone, the fits. Answers nothing."""
    session = window.subject.session()
    former = Former(session.engine, session.library)
    engine, vision = session.engine, former.vision(window.cached)
    kv = engine.prefill(window.cached, vision, start=0).kv
    token = start = 0
    names: list[str] = []
    for chunk in window.cached:
        part = kv.slice_tokens(token, token + chunk.num_tokens)
        positions = chunk.layout.at(start)
        if names:
            former.learn(chunk, names, part, positions)
        else:
            session.library.keep_canonical(chunk, part.to_canonical(positions, engine.spec))
        names.append(chunk.digest)
        token, start = token + chunk.num_tokens, start + chunk.extent
    return former


def break_even(timings: dict[str, Timing]) -> dict[str, Any]:
    """From the medians: the least N at which the sums meet, and both sums up to `REUSES`.

    Free forming: first request + N reuses against N + 1 prefills. Paid: forming + N reuses against N.
    """
    prefill, reuse = timings[REPREFILL].median_s, timings[KAMERA].median_s
    first, paid = timings[FIRST].median_s, timings[PAID].median_s
    saved = prefill - reuse
    return {
        "free": _least(first - prefill, saved),
        "paid": _least(paid, saved),
        "free_exactly": (first - prefill) / saved if saved > 0 else None,
        "paid_exactly": paid / saved if saved > 0 else None,
        "requests": list(range(1, REUSES + 2)),
        "reprefill_s": [prefill * count for count in range(1, REUSES + 2)],
        "free_s": [first + reuse * count for count in range(REUSES + 1)],
        "paid_s": [paid + reuse * count for count in range(1, REUSES + 2)],
    }


def _least(cost_s: float, saved_s: float) -> int | None:
    """Reuses until what each saves has paid the cost; None: never."""
    return max(0, math.ceil(cost_s / saved_s)) if saved_s > 0 else None


if __name__ == "__main__":
    main()
