"""Positions: ours against what the model's rotary module is asked for when the model counts by itself.

Where this version of Transformers lets the text behind a long video start among the video's own positions,
the media's own are still compared with the model's, each item in a window of its own, and the text must
resume one past the largest of them.
"""

from __future__ import annotations

import torch

from kamera.lab.conformance.measure import Outcome
from kamera.lab.conformance.pieces import Piece, positions_of
from kamera.lab.conformance.subject import Subject


def check(subject: Subject) -> list[Outcome]:
    window = [subject.prefix, subject.a, subject.b, subject.tail]
    if subject.counts:
        differ = float((subject.native(window).positions != positions_of(window)).sum())
        return [Outcome("positions as the model counts them", differ, 0.0)]
    media = [piece for piece in window if piece.inputs]
    found = [up_to_media_and_behind(subject, piece) for piece in media]
    before, behind = (sum(counts) for counts in zip(*found, strict=True))
    return [
        Outcome("positions up to the media's end as the model counts them", before, 0.0),
        Outcome("text resumes one past the largest position", behind, 0.0),
    ]


def up_to_media_and_behind(subject: Subject, piece: Piece) -> tuple[float, float]:
    """How many of our positions differ from the model's own, and from one past the largest of these."""
    window = [subject.prefix, piece, subject.tail]
    own, ours = subject.run(window).positions, positions_of(window)
    media = [t > 0 for p in window for t in p.types]
    end = len(media) - media[::-1].index(True)
    resumed = int(own[:end].max()) + 1 + torch.arange(len(media) - end)[:, None]
    return float((ours[:end] != own[:end]).sum()), float((ours[end:] != resumed).sum())
