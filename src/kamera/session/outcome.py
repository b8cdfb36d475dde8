"""What a verb did: per chunk the operating point, the reason and the cost."""

from __future__ import annotations

from dataclasses import dataclass, replace

from jaxtyping import Float
from torch import Tensor

from kamera.planner import OperatingPoint


@dataclass(frozen=True)
class ChunkOutcome:
    """How one chunk of the window was served.

    Attributes:
        name: the slot's name ("prefix" for the pinned prefix).
        num_tokens: the chunk's tokens.
        start: its first position.
        point: the operating point.
        reason: one line.
        exact: whether its KV is what re-prefill of this window would cache, rounding apart. A patched
            chunk, a survivor, and a chunk formed behind one of these aren't.
        num_prefilled: tokens of it that a forward on the request's path ran over.
        num_formed: tokens that forming its canonical and patches ran over, off the path.
        patch_rank, patch_bytes: of the patch that was added, the highest rank of any layer; 0 for none.
        num_vision_runs: images that the vision tower ran over for it.
    """

    name: str
    num_tokens: int
    start: int
    point: OperatingPoint
    reason: str
    exact: bool = False
    num_prefilled: int = 0
    num_formed: int = 0
    patch_rank: int = 0
    patch_bytes: int = 0
    num_vision_runs: int = 0


@dataclass(frozen=True)
class Outcome:
    """What a verb did to the whole window, in window order, and to the chunks that left."""

    verb: str
    chunks: tuple[ChunkOutcome, ...]
    evicted: tuple[str, ...] = ()
    path_s: float = 0.0
    """Time that the request waited for: plan, vision, prefill, compose."""
    form_s: float = 0.0
    """Time of forming, which can run after the answer."""

    @property
    def num_prefilled(self) -> int:
        """Tokens on the request's path that a forward ran over."""
        return sum(chunk.num_prefilled for chunk in self.chunks)

    @property
    def num_formed(self) -> int:
        """Tokens that forming ran over, off the request's path."""
        return sum(chunk.num_formed for chunk in self.chunks)

    @property
    def num_vision_runs(self) -> int:
        """Images that the vision tower ran over."""
        return sum(chunk.num_vision_runs for chunk in self.chunks)

    def unchanged(self, verb: str) -> Outcome:
        """The same window a moment later: served as it was, at no further cost."""
        chunks = tuple(
            replace(chunk, num_prefilled=0, num_formed=0, num_vision_runs=0)
            for chunk in self.chunks
        )
        return Outcome(verb, chunks)

    def __getitem__(self, name: str) -> ChunkOutcome:
        for chunk in self.chunks:
            if chunk.name == name:
                return chunk
        raise KeyError(name)

    def explain(self) -> str:
        """One line a chunk, for logs."""
        lines = [f"{self.verb}: evicted {', '.join(self.evicted)}"] if self.evicted else []
        for c in self.chunks:
            cost = f"prefilled {c.num_prefilled} of {c.num_tokens} tokens"
            patch = f", patch rank {c.patch_rank}, {c.patch_bytes} bytes" if c.patch_rank else ""
            lines.append(f"{c.name} at {c.start}: {c.point.value} ({c.reason}); {cost}{patch}")
        return "\n".join(lines)


@dataclass(frozen=True, eq=False)
class Answer(Outcome):
    """A verb that also decoded: the text, its tokens, and the logits that chose the first one."""

    text: str = ""
    token_ids: tuple[int, ...] = ()
    logits: Float[Tensor, " vocab"] | None = None
    num_tail: int = 0
    """Tokens of the question, prefilled on every request."""
    ttft_s: float = 0.0
    """From the call to the first token: compose, prefill the question, choose."""
