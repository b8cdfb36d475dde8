"""Forming: the forwards that make canonicals and patches, off the request's path.

When the engine has just prefilled B behind A for a request, that KV is KV(B given A) (free forming): only
B's own solo forward is extra, and a short one behind the prefix.
"""

from __future__ import annotations

import itertools
import random
from collections import Counter, defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from torch import Tensor

from kamera.channels import ChunkKV
from kamera.chunk import Chunk
from kamera.engines.contract import Engine
from kamera.identity import AntecedentKey
from kamera.library import Library
from kamera.patch import Deficits, RunningMean, deficit
from kamera.session.resident import wide_dtype
from kamera.shapes import Positions
from kamera.store import Miss

_Orbit = tuple[str, tuple[str, ...]]
"""A chunk and what stands before it in any order, by digest: one orbit patch."""


@dataclass
class Former:
    """Makes what the library keeps.

    `num_formed` counts tokens that its own forwards ran over, `form_s` the time that the session spent in it.
    """

    engine: Engine
    library: Library
    num_formed: int = 0
    num_vision_runs: int = 0
    form_s: float = 0.0

    def vision(self, chunks: Sequence[Chunk]) -> dict[str, Tensor]:
        """Embeddings of the image chunks, from the store where it has them, else from the tower."""
        found = {}
        for chunk in chunks:
            if chunk.media is None:
                continue
            embeddings = self.library.vision(chunk)
            if isinstance(embeddings, Miss):
                embeddings = self.engine.see(chunk)
                self.num_vision_runs += 1
                self.library.keep_vision(chunk, embeddings)
            found[chunk.media.digest] = embeddings
        return found

    def canonical(self, chunk: Chunk) -> ChunkKV:
        """KV(B given nothing): from the store, else one solo forward, kept."""
        held = self.library.canonical(chunk)
        if not isinstance(held, Miss):
            return held
        solo = self.engine.prefill([chunk], self.vision([chunk]), start=0).kv
        self.num_formed += chunk.num_tokens
        kv = solo.to_canonical(chunk.layout.at(0), self.engine.spec)
        self.library.keep_canonical(chunk, kv)
        return kv

    def keep_canonical(self, chunk: Chunk, kv: ChunkKV, positions: Positions) -> None:
        """Keep KV that was cached at `positions` with nothing in front."""
        self.library.keep_canonical(chunk, kv.to_canonical(positions, self.engine.spec))

    def learn(
        self,
        chunk: Chunk,
        antecedents: Sequence[str],
        conditioned: ChunkKV,
        positions: Positions,
        context: str = "",
    ) -> None:
        """Keep the patch of KV that was cached at `positions` behind `antecedents`.

        `context` names how these were made, when some of them were approximate.
        """
        wide = self._unrotated(conditioned, positions)
        self.library.learn(chunk, antecedents, wide, self.canonical(chunk), context)

    def learn_leading(self, chunk: Chunk, prefix: Chunk) -> None:
        """Keep the patch behind the prefix alone, for when the chunk leads: one short forward."""
        if self.library.patches(chunk, [prefix.digest]):
            return
        both = self.engine.prefill([prefix, chunk], self.vision([chunk]), start=0).kv
        self.num_formed += prefix.num_tokens + chunk.num_tokens
        conditioned = both.slice_tokens(prefix.num_tokens, both.num_tokens)
        self.learn(chunk, [prefix.digest], conditioned, chunk.layout.at(prefix.extent))

    def learn_orbits(self, prefix: Chunk | None, chunks: Sequence[Chunk], limit: int) -> int:
        """One orbit patch for each chunk and each set of the others in front of it.

        One prefill of the whole window for each ordering, all of them up to `limit`, a seeded sample
        above. Gives the number of orderings that were prefilled: none when every patch is there. Between
        them only sums of deficits are held, each until the last of its orderings has run.
        """
        head = [] if prefix is None else [prefix]
        runs = [[*head, *(chunks[i] for i in o)] for o in _orderings(len(chunks), limit)]
        if all(self._has_orbits(run, len(head)) for run in runs):
            return 0
        vision = self.vision(chunks)
        num_left = Counter(key for run in runs for key in _orbits(run, len(head)).values())
        means: dict[_Orbit, RunningMean] = defaultdict(RunningMean)
        for run in runs:
            kv = self.engine.prefill(run, vision, start=0).kv
            self.num_formed += kv.num_tokens
            orbits = _orbits(run, len(head))
            token = position = 0
            for place, chunk in enumerate(run):
                if place in orbits:
                    orbit = orbits[place]
                    part = kv.slice_tokens(token, token + chunk.num_tokens)
                    means[orbit].add(self.delta(chunk, part, chunk.layout.at(position)))
                    num_left[orbit] -= 1
                    if not num_left[orbit]:
                        self._keep_orbit(chunk, orbit[1], means.pop(orbit).mean())
                token, position = token + chunk.num_tokens, position + chunk.extent
        return len(runs)

    def _keep_orbit(self, chunk: Chunk, before: Sequence[str], mean: Deficits) -> None:
        key = AntecedentKey(tuple(before)).set_digest
        kv_bytes = self.canonical(chunk).num_bytes
        patch = self.library.profile.form(mean, key, kv_bytes, "orbit")
        self.library.keep_patch(chunk, before, patch)

    def _has_orbits(self, run: Sequence[Chunk], num_pinned: int) -> bool:
        """Whether each chunk of `run` that stands behind another has its orbit patch listed."""
        digests = [chunk.digest for chunk in run]
        return all(
            self.library.has_patch(self.library.record(run[i], "orbit", digests[:i]))
            for i in range(num_pinned + 1, len(run))
        )

    def delta(self, chunk: Chunk, conditioned: ChunkKV, positions: Positions) -> Deficits:
        """Δ in the un-rotated frame, float32."""
        return deficit(self._unrotated(conditioned, positions), self.canonical(chunk))

    def _unrotated(self, conditioned: ChunkKV, positions: Positions) -> ChunkKV:
        dtype = wide_dtype(conditioned.dtype)
        return conditioned.to_canonical(positions, self.engine.spec, dtype)


def _orbits(run: Sequence[Chunk], num_pinned: int) -> dict[int, _Orbit]:
    """Place -> chunk and the set in front of it, by digest, for each that stands behind another unpinned."""
    digests = [chunk.digest for chunk in run]
    places = range(num_pinned + 1, len(run))
    return {place: (digests[place], tuple(sorted(digests[:place]))) for place in places}


def _orderings(count: int, limit: int) -> list[tuple[int, ...]]:
    everything = itertools.permutations(range(count))
    first = list(itertools.islice(everything, limit + 1))
    if len(first) <= limit:
        return first
    rng = random.Random(count)
    drawn: set[tuple[int, ...]] = set()
    while len(drawn) < limit:
        drawn.add(tuple(rng.sample(range(count), count)))
    return sorted(drawn)
