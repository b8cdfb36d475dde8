"""At most so many solo requests a minute."""

from collections import deque


class Budget:
    """At most `num` starts in any `period_s`. Times are of one monotonic clock, in seconds."""

    def __init__(self, num: int, period_s: float = 60.0) -> None:
        self._num, self._period_s = num, period_s
        self._starts: deque[float] = deque(maxlen=num)

    def delay_s(self, now: float) -> float:
        """How long until one more may start."""
        if len(self._starts) < self._num:
            return 0.0
        return max(0.0, self._starts[0] + self._period_s - now)

    def spend(self, now: float) -> None:
        """One starts now."""
        self._starts.append(now)
