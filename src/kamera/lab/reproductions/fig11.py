"""Figure 11: the cost is on memory: bytes against accuracy, time to first token, break-even, sharing."""

from __future__ import annotations

import math

from kamera.arms import ArmRequest, Workbench
from kamera.arms.token_arm import row_bytes
from kamera.lab.evaluation import BLIND, REFERENCE, Tally
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import SHOWN, Claim, at_least, at_most, between
from kamera.lab.reproductions.figures import JsonFigure, bytes_share_of, mean_of, plain
from kamera.lab.reproductions.first_token import REPEATS, FirstToken, first_token
from kamera.lab.reproductions.page_bytes import FIGURE_TOKENS, PER_HEAD, share, sharing
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject

TASK = "binding"
RANKS = ("1", "2", "4", "8", "16", "full")
TIMED_RANK = 16
LENGTHS = (256, 512, 1024, 2048)
PAPER_SPEEDUPS = dict(zip(LENGTHS, (1.8, 3.1, 8.0, 29.3), strict=True))
CONTEXTS = (16, 64)
PAPER_SHARING = dict(zip(CONTEXTS, (11.9, 27.0), strict=True))
H100_RIDGE = 989e12 / 3.35e12
"""Operations a byte at which an H100 SXM (989 Tflop/s dense bf16, 3.35 TB/s) stops being bound by memory."""
THIN = (
    "m · (T + F) weighs more against T · F on chunks as short and as narrow as the packaged models'"
)
TIMES = "in this process, on this machine's CPU: no verdict"


def run(subject: Subject) -> ModelFigures:
    """Bytes from the arms' own counts; times on windows of growing length."""
    tallies = subject.tallies(TASK)
    figures: dict[str, JsonFigure] = {"decode: operations a byte": plain(_intensity(subject), 1)}
    for arm in (REFERENCE, BLIND, *(f"patch {rank}" for rank in RANKS)):
        right = [float(one) for one in tallies[arm].correct]
        figures[f"{arm}: accuracy"] = mean_of(right)
        figures[f"{arm}: bytes"] = bytes_share_of(tallies, arm)
    smallest = _smallest_at_ceiling(tallies)
    figures["smallest at the ceiling: bytes"] = (
        plain(None, 0) if smallest is None else figures[f"patch {smallest}: bytes"]
    )
    figures |= _sharing(figures)
    return {"figures": figures | _times(subject), "smallest": smallest}


def _intensity(subject: Subject) -> float:
    """Operations of decode's attention for a byte of KV: each query head over each cached token."""
    engine = subject.engine
    tensors = Workbench(engine).canonical(engine.text_chunk("a")).tensors
    heads = int(engine.backbone.text_config.num_attention_heads)
    sizes = {name: tensor.shape[3] for name, tensor in tensors.items()}
    read = sizes["c_kv"] * 2 + sizes["k_pe"] if "c_kv" in sizes else sizes["k"] + sizes["v"]
    return 2 * heads * read / row_bytes(tensors)


def _smallest_at_ceiling(tallies: dict[str, Tally]) -> str | None:
    """The lowest rank that answers as much right as re-prefill."""
    wanted = sum(tallies[REFERENCE].correct)
    right = {rank: sum(tallies[f"patch {rank}"].correct) for rank in RANKS}
    return next((rank for rank, count in right.items() if count >= wanted), None)


def _sharing(figures: dict[str, JsonFigure]) -> dict[str, JsonFigure]:
    found = {}
    counted = share(16, FIGURE_TOKENS, PER_HEAD)
    for n in CONTEXTS:
        for name, key in (
            ("rank 16", "patch 16: bytes"),
            ("smallest", "smallest at the ceiling: bytes"),
        ):
            kept = figures[key]["value"]
            value = None if kept is None else sharing(n, kept)
            found[f"sharing, {name}, {n}"] = plain(value, figures[key]["n"])
        found[f"sharing, counted, {n}"] = plain(sharing(n, counted), 1)
    return found


def _times(subject: Subject) -> dict[str, JsonFigure]:
    found: dict[str, JsonFigure] = {}
    for length in LENGTHS:
        subject.tell(f"fig11, {length} tokens", LENGTHS.index(length), len(LENGTHS))
        timed = timed_window(subject, length)
        for key, value in (
            ("speedup", timed.speedup),
            ("speedup with vision", (timed.prefill_s + timed.vision_s) / timed.reuse_s),
            ("break-even", timed.break_even),
            ("prefill_s", timed.prefill_s),
            ("reuse_s", timed.reuse_s),
        ):
            found[f"{length} tokens: {key}"] = plain(value, REPEATS)
    return found


def timed_window(subject: Subject, num_tokens: int) -> FirstToken:
    """A window of as many of the task's frames as have so many tokens, behind the pinned prefix."""
    bench = Workbench(subject.engine)
    frames = [frame for item in subject.items(TASK, 64) for frame in item.frames]
    chunks = [subject.engine.image_chunk(frames[0].image)]
    wanted = math.ceil(num_tokens / chunks[0].num_tokens)
    while len(chunks) < wanted:
        chunks.append(subject.engine.image_chunk(frames[len(chunks) % len(frames)].image))
    prefix, tail = subject.engine.frame(subject.items(TASK, 1)[0].question)
    return first_token(bench, ArmRequest(prefix, tuple(chunks), tail), TIMED_RANK)


def charts(models: Models) -> list[Chart]:
    """Bytes against accuracy, speed-up by length, and bytes kept by contexts."""
    by_bytes, by_length, shared = [], [], []
    for name, model in models.items():
        figures = model["figures"]
        at = [figures[f"patch {rank}: accuracy"] for rank in RANKS]
        by_bytes.append(
            Series(
                name,
                [figures[f"patch {rank}: bytes"]["value"] for rank in RANKS],
                [figure["value"] for figure in at],
                [figure["low"] for figure in at],
                [figure["high"] for figure in at],
            )
        )
        speedups = [figures[f"{length} tokens: speedup"]["value"] for length in LENGTHS]
        by_length.append(Series(name, [float(length) for length in LENGTHS], speedups))
        kept = [figures[f"sharing, smallest, {n}"]["value"] for n in CONTEXTS]
        shared.append(Series(name, [float(n) for n in CONTEXTS], kept))
    printed = [float(length) for length in LENGTHS]
    by_length.append(Series("paper, H100", printed, list(PAPER_SPEEDUPS.values()), paper=True))
    contexts = [float(n) for n in CONTEXTS]
    shared.append(Series("paper, rank 16", contexts, list(PAPER_SHARING.values()), paper=True))
    return [
        Chart("Bytes and accuracy", "lines", "patch over the window's KV", "accuracy", by_bytes),
        Chart(
            "Time to first token",
            "lines",
            "tokens",
            "prefill / reuse",
            by_length,
            levels=(("no gain", 1.0),),
            log_x=True,
            log_y=True,
        ),
        Chart(
            "Sharing, smallest rank at the ceiling",
            "lines",
            "contexts of one chunk",
            "times fewer bytes",
            shared,
            log_x=True,
        ),
    ]


REPRODUCTION = Reproduction(
    name="fig11",
    title="The cost is on memory",
    paper=(
        "Figure 11 and section 6, on an H100: (a) decode is bound by KV bytes, and on MLA multi-hop "
        "questions a rank-64 patch has re-prefill's accuracy at 25 MB of 292 MB (8.6 %; Table 4 says "
        "about 25 %), rank 16 takes 6.2 MB; (b) time to first token by reuse instead of prefill, 1.8, "
        "3.1, 8 and 29.3 times faster at 256 to 2,048 vision tokens; (c) forming is repaid after about 9 "
        "reuses (430 ms a prefill, 2.6 ms a reuse), and storage shrinks 11.9 times at 16 contexts of one "
        "chunk and 27 times at 64."
    ),
    ours=(
        "(a) The binding task, bytes as each arm counts them, over the window's KV; operations a byte of "
        "decode's attention from the model's shapes. (b, c) Windows of frames of 256 to 2,048 tokens, "
        "patches of rank 16, timed in this process in interleaved rounds, embeddings of the images at "
        "hand; such times are of a nano model on a CPU and carry no verdict. Benchmarks with real shapes "
        "are in `benchmarks/`, a live engine's figures in docs/vllm.md. Sharing is arithmetic on real "
        "byte counts: N contexts keep one canonical and N patches. Rows that say `counted` need no model: "
        "1,056 tokens of MLA's per-head K and V are the figure's 292 MB, and give its 11.9 and 27. Of a "
        "latent page the same patch is more (Table 4)."
    ),
    run=run,
    claims=(
        Claim(
            "bytes of the smallest patch with re-prefill's accuracy, over the KV's",
            "smallest at the ceiling: bytes",
            "0.086 (Figure 11a), about 0.25 (Table 4)",
            at_most(0.25),
        ),
        Claim("`patch 16`: bytes over the KV's", "patch 16: bytes", "0.021", at_most(0.065), THIN),
        Claim(
            "decode's attention: operations a byte of KV (held to half of an H100's ridge of 295)",
            "decode: operations a byte",
            "far below the ridge",
            at_most(H100_RIDGE // 2),
        ),
        *(
            Claim(
                f"sharing, {n} contexts, rank 16: times fewer bytes",
                f"sharing, rank 16, {n}",
                f"{times:g}",
                at_least(times),
                THIN,
            )
            for n, times in PAPER_SHARING.items()
        ),
        *(
            Claim(
                f"sharing, {n} contexts, smallest rank with re-prefill's accuracy: times fewer bytes",
                f"sharing, smallest, {n}",
                "–",
                SHOWN,
            )
            for n in CONTEXTS
        ),
        Claim(
            "sharing, 16 contexts, counted", "sharing, counted, 16", "11.9", between(11.85, 11.95)
        ),
        Claim("sharing, 64 contexts, counted", "sharing, counted, 64", "27", between(26.5, 27.5)),
        *(
            Claim(
                f"{length} tokens, prefill over reuse: time to first token ({TIMES})",
                f"{length} tokens: speedup",
                f"{times:g}",
                SHOWN,
            )
            for length, times in PAPER_SPEEDUPS.items()
        ),
        Claim(
            f"2048 tokens, vision and prefill over reuse ({TIMES})",
            "2048 tokens: speedup with vision",
            "larger still",
            SHOWN,
        ),
        *(
            Claim(
                f"{length} tokens: reuses that repay forming ({TIMES})",
                f"{length} tokens: break-even",
                "about 9",
                SHOWN,
            )
            for length in (LENGTHS[0], LENGTHS[-1])
        ),
    ),
    charts=charts,
)
