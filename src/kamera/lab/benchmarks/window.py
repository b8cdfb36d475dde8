"""A benchmark's item as the window and the tail that an arm serves."""

from __future__ import annotations

from dataclasses import dataclass, replace

from kamera.arms import ArmRequest
from kamera.chunk import Chunk
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab.benchmarks.contract import BenchmarkItem, Part
from kamera.lab.benchmarks.media import Film
from kamera.positions import text_layout


@dataclass(frozen=True)
class Shown:
    """How items are shown.

    Attributes:
        films_as_video: a film as one video chunk; else one image chunk a frame.
        instruction: in place of the benchmark's own; empty for none.
    """

    films_as_video: bool = False
    instruction: str | None = None


def request_of(engine: HFEngine, item: BenchmarkItem, shown: Shown) -> ArmRequest:
    """The item's window: every image, frame, video or run of text a chunk, in order.

    Raises:
        ConfigError: media that can't be read, or that the model doesn't take.
    """
    instruction = item.instruction if shown.instruction is None else shown.instruction
    asked = "\n".join(text for text in (item.question.strip(), instruction) if text)
    prefix, tail = engine.frame(asked)
    chunks = [chunk for part in item.parts for chunk in _chunks(engine, part, shown)]
    return ArmRequest(prefix, tuple(chunks), tail)


def followed_by(engine: HFEngine, request: ArmRequest, tokens: list[int]) -> ArmRequest:
    """The same window with tokens behind its tail: what an arm is asked for the next one."""
    ids = (*request.tail.key.token_ids, *tokens)
    key = replace(request.tail.key, token_ids=ids)
    return replace(request, tail=Chunk(key, text_layout(len(ids), engine.spec.num_axes)))


def letter_ids(engine: HFEngine, item: BenchmarkItem) -> list[int]:
    """The token of each letter.

    Raises:
        ConfigError: a letter that isn't one token.
    """
    ids = [engine.text_chunk(letter).key.token_ids for letter in item.letters]
    if any(len(one) != 1 for one in ids):
        raise ConfigError(
            f"The letters {item.letters} aren't one token each, got {ids}: expected a tokenizer that "
            "holds them"
        )
    return [one[0] for one in ids]


def _chunks(engine: HFEngine, part: Part, shown: Shown) -> list[Chunk]:
    if isinstance(part, str):
        return [engine.text_chunk(part)]
    if not isinstance(part, Film):
        return [engine.image_chunk(part.open())]
    frames = part.frames()
    if shown.films_as_video:
        return [engine.video_chunk(list(frames), fps=part.fps(len(frames)))]
    return [engine.image_chunk(frame) for frame in frames]
