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
        ttft_s: from the request to its first token, where it was measured.
    """

    token_ids: tuple[int, ...]
    logprobs: dict[int, float]
    num_cached: int
    num_prompt: int
    ttft_s: float = 0.0
    prompt_token_ids: tuple[int, ...] = ()
