"""The store, read as canonicals, patches and vision embeddings of one model and one tenant."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from copy import copy
from dataclasses import InitVar, dataclass, field
from functools import cached_property, lru_cache
from typing import Literal

import torch
from torch import Tensor

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.errors import ConfigError
from kamera.identity import DIGEST_LEN, AntecedentKey, DigestTemplate, digest
from kamera.patch import Patch, PatchProfile, decode_patch, deficit, encode_patch
from kamera.planner import PatchKind, PatchRecord
from kamera.store import Entry, EntryKey, Hit, Miss, MissReason, ReadAhead, Store
from kamera.store.entry import Attribute

Attributes = dict[str, Attribute]

PATCH_VERSION = 1
VISION_VERSION = 1
CPU = torch.device("cpu")

_EXACT_KINDS: tuple[PatchKind, ...] = ("exact", "orbit")
_KINDS: tuple[PatchKind, ...] = (*_EXACT_KINDS, "served")


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
    _chain: tuple[AntecedentKey, ...] = field(
        default=(AntecedentKey(()),), init=False, repr=False, compare=False
    )
    _templates: dict[tuple[PatchKind, int], DigestTemplate] = field(
        default_factory=dict, init=False, repr=False, compare=False
    )
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
        key = self._patch_key(chunk, record.kind, record.antecedents, record.context)
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
        that name alone.
        """
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
        self._put(self._patch_key(chunk, kind, antecedents, context), tensors, attributes)

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
                keys.append(self._patch_key(chunk, record.kind, record.antecedents, record.context))
        with ReadAhead(self.store, keys, model=self.model, tenant=self.tenant) as source:
            library = copy(self)
            library._ahead = source
            yield library

    def has_canonical(self, chunk: Chunk) -> bool:
        """Whether a canonical is listed."""
        return self.store.contains(self._canonical_key(chunk))

    def patches(
        self, chunk: Chunk, antecedents: Sequence[str], context: str = ""
    ) -> tuple[PatchRecord, ...]:
        """The patches that are listed for these antecedents: exact, the orbit's, and the context's."""
        return tuple(self._listed(chunk, tuple(antecedents), context))

    def best_patch(
        self, chunk: Chunk, antecedents: Sequence[str], context: str = ""
    ) -> PatchRecord | None:
        """The first of `patches`, which stand in the menu's order: the rest isn't looked up."""
        return next(self._listed(chunk, tuple(antecedents), context), None)

    def has_patch(self, chunk: Chunk, record: PatchRecord) -> bool:
        """Whether the patch that a record names is listed."""
        key = self._patch_key(chunk, record.kind, record.antecedents, record.context)
        return self.store.contains(key)

    def _listed(
        self, chunk: Chunk, antecedents: tuple[str, ...], context: str
    ) -> Iterator[PatchRecord]:
        behind = self._behind(antecedents)
        for kind in _KINDS if context else _EXACT_KINDS:
            made = context if kind == "served" else ""
            if self.store.contains(self._patch_key_behind(chunk, kind, behind, made)):
                yield PatchRecord(kind, antecedents, self.rank, made)

    def _canonical_key(self, chunk: Chunk) -> EntryKey:
        return EntryKey.of_checked("canonical", chunk.digest)

    def _patch_key(
        self, chunk: Chunk, kind: PatchKind, antecedents: Sequence[str], context: str = ""
    ) -> EntryKey:
        return self._patch_key_behind(chunk, kind, self._behind(tuple(antecedents)), context)

    def _patch_key_behind(
        self, chunk: Chunk, kind: PatchKind, behind: AntecedentKey, context: str
    ) -> EntryKey:
        name = behind.set_digest if kind == "orbit" else behind.digest
        texts = (chunk.digest, name, context) if context else (chunk.digest, name)
        template = self._templates.get((kind, len(context)))
        if template is None:
            template = _patch_template(kind, self.rank, len(context))
            self._templates[kind, len(context)] = template
        return EntryKey.of_checked("patch", template.digest(*texts))

    def _behind(self, antecedents: tuple[str, ...]) -> AntecedentKey:
        """The key of these antecedents: one step from that of all but the last.

        A plan asks for them in this order. Those of the window that was asked for last are at hand.
        """
        chain, size = self._chain, len(antecedents)
        if size < len(chain) and chain[size].chunks == antecedents:
            return chain[size]
        if 0 < size <= len(chain) and chain[size - 1].chunks == antecedents[:-1]:
            found = chain[size - 1].then(antecedents[-1])
            self._chain = (*chain[:size], found)  # another one: threads may share a library
            return found
        return AntecedentKey(antecedents)

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


@lru_cache(maxsize=64)
def _patch_template(kind: PatchKind, rank: int | str, context_len: int) -> DigestTemplate:
    """The digest that names a patch: of its chunk, its antecedents, and its context if it has one."""

    def identity(chunk: str, antecedent: str, context: str = "") -> dict[str, object]:
        return {
            "chunk": chunk,
            "kind": kind,
            "antecedent": antecedent,
            "context": context,
            "rank": rank,
        }

    lengths = [DIGEST_LEN, DIGEST_LEN, *([context_len] if context_len else [])]
    return DigestTemplate("kamera.patch", PATCH_VERSION, identity, *lengths)


def _of_tokens(hit: Hit, num_tokens: int) -> Hit | Miss:
    for name, tensor in hit.entry.tensors.items():
        if tensor.ndim < 2 or tensor.shape[1] != num_tokens:
            detail = f"{name} is {list(tensor.shape)}: expected {num_tokens} tokens in dimension 1"
            return Miss(MissReason.FOREIGN, detail)
    return hit
