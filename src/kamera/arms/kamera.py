"""Kamera: a session's window, each chunk by the planner's lane."""

from __future__ import annotations

from kamera.arms.contract import Arm, ArmRequest, Served
from kamera.errors import ConfigError
from kamera.session import Session


class Kamera(Arm):
    """Relocate and patch, form on a miss. `reset` empties the window; the store is kept."""

    name = "kamera"

    def __init__(self, session: Session) -> None:
        self.session = session

    def reset(self) -> None:
        """Empty the window."""
        self.session.show([])

    def serve(self, request: ArmRequest) -> Served:
        """Carry the window out and ask. Forming isn't on the path: its time is taken off.

        Raises:
            ConfigError: the request's prefix isn't the one that the session pins.
        """
        pinned = self.session.prefix
        if request.prefix != pinned:
            raise ConfigError(
                "Can't serve another prefix than the session's: expected the one of engine.frame(), "
                f"{pinned and pinned.digest[:12]}, got {request.prefix and request.prefix.digest[:12]}"
            )
        shown = self.session.show(request.chunks)
        answer = self.session.generate(request.tail, max_new_tokens=1)
        assert answer.logits is not None
        return Served(
            answer.logits,
            shown.num_prefilled,
            shown.num_vision_runs,
            shown.path_s + answer.ttft_s,
            shown.num_formed,
            tuple(chunk.point.value for chunk in shown.chunks),
            num_bytes=sum(chunk.patch_bytes for chunk in shown.chunks),
            num_token_layers=shown.num_prefilled
            * int(self.session.engine.model_key.layout["num_layers"]),
        )
