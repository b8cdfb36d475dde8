"""`HFEngine` itself, from chunks: where it puts each of them, whose embeddings go where, what it generates.

The other checks place chunks by themselves and ask the backbone. Here the whole window goes in as a session's
would, and the plain model gets its token ids and pixels.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from kamera.chunk import Chunk, Media
from kamera.engines.hf.engine import HFEngine
from kamera.identity import ChunkKey, MediaIdentity
from kamera.lab.conformance.checks.continuation import decided_flips, speakable
from kamera.lab.conformance.measure import Outcome, kv_error, logits_error, worst
from kamera.lab.conformance.pieces import Piece, extent_of, positions_of
from kamera.lab.conformance.plain import watched
from kamera.lab.conformance.subject import Subject

FACTOR = 2.0
NUM_TOKENS = 3


def check(subject: Subject) -> list[Outcome]:
    engine, window = subject.engine, [subject.prefix, subject.a, subject.b, subject.tail]
    chunks = [chunk_of(engine, piece) for piece in window]
    vision = {c.media.digest: engine.see(c) for c in chunks if c.media is not None}
    got = engine.prefill(chunks, vision, start=0)
    own, exact = subject.pair(window, positions_of(window))
    bound = FACTOR * kv_error(own.kv, exact.kv)
    before = engine.prefill(chunks[:-1], vision, start=0).kv
    start, rotary = extent_of(window[:-1]), subject.backbone.decoder.rotary_emb
    with watched(subject.backbone.model, rotary) as seen:
        generated = engine.generate(
            chunks[-1], start=start, context=before, max_new_tokens=NUM_TOKENS
        )
    last = positions_of(window)[-1] + len(generated.token_ids) - 1
    first = subject.native(window).logits[-1]
    allowed = FACTOR * logits_error(own.logits[-1], exact.logits[-1])
    return [
        worst("the engine's prefill", [(kv_error(got.kv, subject.native(window).kv), bound)]),
        Outcome("the engine's logits", logits_error(generated.logits, first), allowed),
        Outcome("the engine's last position", float((seen["positions"][-1] != last).sum()), 0.0),
        Outcome("the engine's tokens", wrong_tokens(subject, window, generated.token_ids), 0.0),
    ]


def chunk_of(engine: HFEngine, piece: Piece) -> Chunk:
    """The piece as a session holds it."""
    if not piece.inputs:
        return Chunk(ChunkKey(engine.model_key, None, "text", piece.ids), piece.layout)
    identity = MediaIdentity(piece.inputs, {}, {})
    key = ChunkKey(engine.model_key, None, piece.kind, piece.ids, (identity,))
    return Chunk(key, piece.layout, Media(piece.inputs, identity.digest))


def wrong_tokens(subject: Subject, window: Sequence[Piece], tokens: Sequence[int]) -> float:
    """How many aren't the plain model's choice behind those before, where rounding can't decide.

    The plain model reads all tokens in one forward. It would look for media behind a media token that was
    generated, so the comparison ends there.
    """
    media = subject.media_ids
    written = next((n for n, token in enumerate(tokens) if token in media), len(tokens))
    tail = window[-1]
    for token in tokens[: max(0, written - 1)]:
        tail = tail.more(token)
    if not written:
        return 0.0
    longer = [*window[:-1], tail]
    own, exact = (run.logits[-written:] for run in subject.pair(longer, positions_of(longer)))
    wanted = subject.native(longer).logits[-written:]
    got = torch.nn.functional.one_hot(torch.tensor(tokens[:written]), wanted.shape[-1])
    return decided_flips(got, speakable(subject, wanted), FACTOR * logits_error(own, exact))
