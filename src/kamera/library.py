"""The store, read as canonicals, patches and vision embeddings of one model and one tenant."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import InitVar, dataclass, field
from functools import cached_property
from itertools import compress
from typing import Literal

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.errors import ConfigError
from kamera.identity import AntecedentKey, PatchNames, digest
from kamera.patch import Patch, PatchProfile, decode_patch, deficit, encode_patch
from kamera.planner import PatchKind, PatchRecord
from kamera.store import Entry, EntryKey, Hit, Miss, MissReason, ReadAhead, Store
from kamera.store.entry import Attribute

Attributes = dict[str, Attribute]

VISION_VERSION = 1
CPU = torch.device("cpu")

_EXACT_KINDS: tuple[PatchKind, ...] = ("exact", "orbit")
"""Those that need no context, in the menu's order."""


@dataclass
class Library:
    """Typed reads and writes. A read gives the value, or the `Miss` that says why there is none.

    The store keeps tensors on the CPU; what is read is given on `device`. `misses` counts those reasons,
    by the kind of what was asked for. `patches_as` is what patches keep, a number standing for a rank: they
    are keyed by it, so that a library finds those of its own profile alone.
    """

    store: Store
    model: str
    tenant: str | None
    patches_as: InitVar[PatchProfile | int]
    device: torch.device = CPU
    misses: dict[str, int] = field(default_factory=dict)
    profile: PatchProfile = field(init=False)
    _ahead: ReadAhead | None = field(default=None, init=False, repr=False, compare=False)

    def __post_init__(self, patches_as: PatchProfile | int) -> None:
        if isinstance(patches_as, int):
            patches_as = PatchProfile(rank=patches_as)
        self.profile = patches_as

    @cached_property
    def rank(self) -> int | str:
        """What names the profile in keys and records: the rank where there is nothing but that."""
        return self.profile.plain_rank or str(self.profile)

    def canonical(self, chunk: Chunk) -> ChunkKV | Miss:
        """KV(B given nothing), un-rotated."""
        found = self._get(self._canonical_key(chunk), chunk.num_tokens)
        return found if isinstance(found, Miss) else ChunkKV(self._here(found))

    def keep_canonical(self, chunk: Chunk, kv: ChunkKV) -> None:
        """Store a canonical."""
        attributes: Attributes = {"num_tokens": chunk.num_tokens, "extent": chunk.extent}
        self._put(self._canonical_key(chunk), dict(kv.tensors), attributes)

    def patch(self, chunk: Chunk, record: PatchRecord) -> Patch | Miss:
        """The patch that a record names."""
        key = self._patch_key(record)
        found = self._get(key)
        if isinstance(found, Miss):
            return found
        kind: Literal["exact", "orbit"] = "orbit" if record.kind == "orbit" else "exact"
        try:
            patch = decode_patch(self._here(found), found.entry.attributes, kind)
            tokens = {factors.num_tokens for factors in patch.factors.values()}
            if tokens != {chunk.num_tokens}:
                raise ConfigError(f"expected {chunk.num_tokens} tokens, got {sorted(tokens)}")
        except ConfigError as error:
            return self._count(key, Miss(MissReason.FOREIGN, str(error)))
        return patch

    def keep_patch(
        self,
        chunk: Chunk,
        antecedents: Sequence[str],
        patch: Patch,
        context: str = "",
    ) -> None:
        """Store a patch under the antecedents that it was formed on.

        `context` names how these were made, when some of them were approximate: such a patch is found by
        that name alone. `ConfigError` for an orbit patch with a context.
        """
        if context and patch.kind == "orbit":
            raise ConfigError(
                f"An orbit patch has no context: expected '', got {context!r:.80}. Form it behind exact KV."
            )
        tensors, described = encode_patch(patch)
        attributes: Attributes = {
            **described,
            "antecedents": list(antecedents),
            "context": context,
            "chunk": chunk.digest,
            "rank": patch.rank,
            "profile": str(self.profile),
        }
        kind: PatchKind = "orbit" if patch.kind == "orbit" else "served" if context else "exact"
        record = self.record(chunk, kind, antecedents, context)
        self._put(self._patch_key(record), tensors, attributes)

    def learn(
        self,
        chunk: Chunk,
        antecedents: Sequence[str],
        conditioned: ChunkKV,
        canonical: ChunkKV,
        context: str = "",
    ) -> None:
        """Form and store the patch of KV that was cached behind `antecedents`.

        Args:
            chunk: the chunk that it is KV of.
            antecedents: the digests of the chunks in front, in order.
            conditioned: un-rotated, best in float32: nothing is then rounded between cache and Δ.
            canonical: KV(B given nothing), in the dtype in which it is stored.
            context: names how what stands in front was made, when some of it was approximate.
        """
        key = AntecedentKey(tuple(antecedents)).digest
        deltas = deficit(conditioned, canonical)
        patch = self.profile.form(deltas, key, canonical.num_bytes)
        self.keep_patch(chunk, antecedents, patch, context)

    def vision(self, chunk: Chunk) -> Tensor | Miss:
        """The vision embeddings of an image chunk."""
        found = self._get(self._vision_key(chunk))
        return found if isinstance(found, Miss) else self._here(found)["embeddings"]

    def keep_vision(self, chunk: Chunk, embeddings: Tensor) -> None:
        """Store vision embeddings, apart from any KV."""
        self._put(self._vision_key(chunk), {"embeddings": embeddings}, {})

    @contextmanager
    def reading_ahead(
        self, wanted: Sequence[tuple[Chunk, PatchRecord | None]]
    ) -> Iterator[Library]:
        """This library for as long as these are read, in this order: a chunk's canonical, then its patch.

        Those that lie on a disk are read before they are asked for. What it gives is the same.
        """
        keys = []
        for chunk, record in wanted:
            keys.append(self._canonical_key(chunk))
            if record is not None:
                keys.append(self._patch_key(record))
        with ReadAhead(self.store, keys, model=self.model, tenant=self.tenant) as source:
            library = copy(self)
            library._ahead = source
            yield library

    def has_canonical(self, chunk: Chunk) -> bool:
        """Whether a canonical is listed."""
        return self.store.contains(self._canonical_key(chunk))

    def has_patch(self, record: PatchRecord) -> bool:
        """Whether the patch that a record names is listed."""
        return self.store.contains(self._patch_key(record))

    def patches(
        self, chunk: Chunk, antecedents: Sequence[str], context: str = ""
    ) -> tuple[PatchRecord, ...]:
        """The patches that are listed for these antecedents: exact, the orbit's, and the context's."""
        records = [self.record(chunk, kind, antecedents) for kind in _EXACT_KINDS]
        if context:
            records.append(self.record(chunk, "served", antecedents, context))
        return tuple(record for record in records if self.has_patch(record))

    def record(
        self, chunk: Chunk, kind: PatchKind, antecedents: Sequence[str], context: str = ""
    ) -> PatchRecord:
        """What names the patch of a chunk behind these antecedents, stored or not."""
        before = tuple(antecedents)
        window, place = (*before, chunk.digest), len(before)
        if kind == "served":
            (name,) = self._names.served(window, {place: context})
            return PatchRecord(name, kind, before, self.rank, context)
        (name,) = self._named(kind, window, [place])
        return PatchRecord(name, kind, before, self.rank)

    def look_up(
        self, window: tuple[str, ...], places: Sequence[int]
    ) -> dict[int, PatchRecord | None]:
        """For each of these places of a window whose canonical is listed: its best patch, if one is.

        That is the first in the menu's order, exact or the orbit's, for all the chunks in front. The store
        is asked for all places at once, kind by kind, and for the orbit's patches only where there is no
        exact one. Served patches aren't looked up: their context isn't known yet.

        Args:
            window: the chunks' digests, in order.
            places: which of them are asked for, ascending.
        """
        listed = self.store.contains_each("canonical", [window[place] for place in places])
        found: dict[int, PatchRecord | None] = dict.fromkeys(compress(places, listed))
        left = [place for place in found if place]  # what leads needs no patch
        for kind in _EXACT_KINDS:
            if not (left and self.store.may_contain(_entry_kind(kind))):
                continue
            names = list(self._named(kind, window, left))
            listed = self.store.contains_each(_entry_kind(kind), names)
            for place, name in compress(zip(left, names, strict=True), listed):
                found[place] = PatchRecord(name, kind, window[:place], self.rank)
            left = [place for place in left if found[place] is None]
        return found

    def look_up_served(
        self, window: tuple[str, ...], contexts: Mapping[int, str]
    ) -> dict[int, PatchRecord]:
        """For places of a window the patches that were formed in these contexts, where one is listed.

        The store is asked for all of them at once.
        """
        names = list(self._names.served(window, contexts))
        listed = self.store.contains_each(_entry_kind("served"), names)
        return {
            place: PatchRecord(name, "served", window[:place], self.rank, context)
            for (place, context), name in compress(
                zip(contexts.items(), names, strict=True), listed
            )
        }

    def _canonical_key(self, chunk: Chunk) -> EntryKey:
        return EntryKey.of_checked("canonical", chunk.digest)

    def _patch_key(self, record: PatchRecord) -> EntryKey:
        return EntryKey.of_checked(_entry_kind(record.kind), record.name)

    def _named(
        self, kind: PatchKind, window: tuple[str, ...], places: Sequence[int]
    ) -> Iterator[str]:
        """The names of patches that need no context."""
        names = self._names.orbit if kind == "orbit" else self._names.exact
        return names(window, places)

    @cached_property
    def _names(self) -> PatchNames:
        return PatchNames(self.rank)

    def _vision_key(self, chunk: Chunk) -> EntryKey:
        identity = {
            "model": self.model,
            "tenant": self.tenant,
            "images": [content.digest for content in chunk.key.contents],
        }
        return EntryKey("vision", digest("kamera.vision", VISION_VERSION, identity))

    def _here(self, hit: Hit) -> dict[str, Tensor]:
        return {name: tensor.to(self.device) for name, tensor in hit.entry.tensors.items()}

    def _get(self, key: EntryKey, num_tokens: int | None = None) -> Hit | Miss:
        """An entry; one whose KV isn't of `num_tokens` tokens is a miss, whatever its digest says."""
        source = self.store if self._ahead is None else self._ahead
        found = source.get(key, model=self.model, tenant=self.tenant)
        if isinstance(found, Hit) and num_tokens is not None:
            found = _of_tokens(found, num_tokens)
        return self._count(key, found) if isinstance(found, Miss) else found

    def _count(self, key: EntryKey, miss: Miss) -> Miss:
        name = f"{key.kind}.{miss.reason.value}"
        self.misses[name] = self.misses.get(name, 0) + 1
        return miss

    def _put(self, key: EntryKey, tensors: dict[str, Tensor], attributes: Attributes) -> None:
        # A put that fails is counted by the store; the window goes on from what it holds.
        owned = {name: tensor.detach().cpu().contiguous() for name, tensor in tensors.items()}
        self.store.put(Entry(key, self.model, self.tenant, owned, attributes))


def _entry_kind(kind: PatchKind) -> str:
    """What the store calls it: an orbit's patch is found by itself, for most stores have none."""
    return "orbit" if kind == "orbit" else "patch"


def _of_tokens(hit: Hit, num_tokens: int) -> Hit | Miss:
    for name, tensor in hit.entry.tensors.items():
        if tensor.ndim < 2 or tensor.shape[1] != num_tokens:
            detail = f"{name} is {list(tensor.shape)}: expected {num_tokens} tokens in dimension 1"
            return Miss(MissReason.FOREIGN, detail)
    return hit
