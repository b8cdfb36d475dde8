"""What one request gave, as plain data between processes."""

from dataclasses import dataclass


@dataclass(frozen=True)
class Answer:
    """One request's answer.

    Attributes:
        token_ids: what was generated.
        logprobs: the first token's: token id -> log-probability, the top 20.
        num_cached: prompt tokens that weren't computed, from any cache.
        num_prompt: the prompt's tokens.
        margins: for each token how far the next best was behind it, in log-probability.
        ttft_s: from the request to its first token, where it was measured.
    """

    token_ids: tuple[int, ...]
    logprobs: dict[int, float]
    num_cached: int
    num_prompt: int
    margins: tuple[float, ...] = ()
    ttft_s: float = 0.0
    prompt_token_ids: tuple[int, ...] = ()

    def settled(self, margin: float) -> tuple[int, ...]:
        """The tokens up to the first that a rounding error as large as `margin` could turn."""
        close = (i for i, found in enumerate(self.margins) if found < margin)
        return self.token_ids[: next(close, len(self.token_ids))]
