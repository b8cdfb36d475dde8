"""Clients' requests in flight."""

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager


class Traffic:
    """Counts them, and lets one wait until there are none. All on one event loop."""

    def __init__(self) -> None:
        self._num_in_flight = 0
        self._quiet = asyncio.Event()
        self._quiet.set()

    @property
    def num_in_flight(self) -> int:
        """Requests whose answer isn't finished."""
        return self._num_in_flight

    @contextmanager
    def request(self) -> Iterator[None]:
        """One request, from its first byte to the last of its answer, however it ends."""
        self._num_in_flight += 1
        self._quiet.clear()
        try:
            yield
        finally:
            self._num_in_flight -= 1
            if self._num_in_flight == 0:
                self._quiet.set()

    async def quiet(self) -> None:
        """Returns when no request is in flight."""
        while self._num_in_flight:  # another may have begun between the wake-up and now
            await self._quiet.wait()
