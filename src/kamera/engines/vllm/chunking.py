"""A request's tokens and media -> chunks and a tail. Pure: no engine, no store."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from torch import Tensor

from kamera.chunk import Chunk
from kamera.errors import ConfigError
from kamera.identity import ChunkKey, MediaIdentity, ModelKey
from kamera.positions import Grid, PositionLayout, media_layout, text_layout


@dataclass(frozen=True, eq=False)
class Item:
    """One media item of a request: its placeholders' place, and what the processor made of it."""

    offset: int
    length: int
    identity: MediaIdentity
    grid: Tensor | None = None
    """[3]: steps, rows, columns of patches; None for a model with one position axis."""


@dataclass(frozen=True)
class Run:
    """Tokens [begin, end) of a request as one chunk, before it has a key."""

    begin: int
    end: int
    item: Item | None = None


@dataclass(frozen=True)
class Wrapping:
    """What stands around a family's media, as token ids, and how its positions are counted."""

    before: tuple[int, ...]
    after: tuple[int, ...]
    num_axes: int
    placeholder: int | None = None
    merge: int = 1
    """Patches a side that make a token."""

    def cut(
        self, token_ids: Sequence[int], items: Sequence[Item], counts: Sequence[int] = ()
    ) -> list[Run]:
        """Media with their wrappers, and the text in front of each. What follows the last is the tail.

        Args:
            token_ids: the whole prompt.
            items: its media, in the order of their places.
            counts: the lengths of leading text chunks, for a prompt without media.

        Raises:
            ConfigError: counts that aren't positive or leave no tail, or given beside media.
        """
        if counts:
            return _counted(len(token_ids), items, counts)
        runs: list[Run] = []
        at = 0
        for item in items:
            begin = item.offset - _matched(token_ids[at : item.offset], self.before, at_end=True)
            end = item.offset + item.length
            end += _matched(token_ids[end : end + len(self.after)], self.after, at_end=False)
            if begin > at:
                runs.append(Run(at, begin))
            runs.append(Run(begin, end, item))
            at = end
        return runs

    def chunk(
        self, run: Run, token_ids: Sequence[int], model: ModelKey, tenant: str | None
    ) -> Chunk:
        """The run with its key and its layout.

        Raises:
            ConfigError: placeholders that aren't as many as the item's grid has tokens.
        """
        ids = tuple(token_ids[run.begin : run.end])
        if run.item is None:
            return Chunk(ChunkKey(model, tenant, "text", ids), text_layout(len(ids), self.num_axes))
        key = ChunkKey(model, tenant, "image", ids, (run.item.identity,))
        return Chunk(key, self._layout(ids, run.item))

    def _layout(self, ids: tuple[int, ...], item: Item) -> PositionLayout:
        if item.grid is None:
            return text_layout(len(ids), 1)
        steps, height, width = (int(size) for size in item.grid.flatten().tolist())
        if steps != 1:
            raise ConfigError(f"an image of {steps} steps in time isn't served")
        grid = Grid((0,), height // self.merge, width // self.merge)
        return media_layout([i == self.placeholder for i in ids], [grid])


def identity_of(inputs: Mapping[str, Tensor]) -> MediaIdentity:
    """An item by what the processor hands to the tower, never by a caller's id."""
    return MediaIdentity(inputs, {})


def _matched(found: Sequence[int], wanted: tuple[int, ...], *, at_end: bool) -> int:
    """How many of the wrapper's tokens stand here: all of them or none."""
    count = len(wanted)
    part = found[-count:] if at_end else found[:count]
    return count if count and tuple(part) == wanted else 0


def _counted(num_tokens: int, items: Sequence[Item], counts: Sequence[int]) -> list[Run]:
    if items:
        raise ConfigError("chunk lengths are for prompts without media, whose chunks are found")
    if any(type(count) is not int or count < 1 for count in counts):
        raise ConfigError(f"chunk lengths must be whole numbers of at least 1, got {counts!r:.80}")
    if sum(counts) >= num_tokens:
        raise ConfigError(
            f"chunk lengths must leave a tail: they cover {sum(counts)} of {num_tokens} tokens"
        )
    runs, at = [], 0
    for count in counts:
        runs.append(Run(at, at + count))
        at += count
    return runs
