"""vLLM's endpoint plug-in `kamera_fill`: starts the companion and answers `GET /kamera/fill`.

vLLM loads it only when `VLLM_PLUGINS` names it. It reaches the engine as a handler in the server does,
through the `EngineClient` that it is given.
"""

import logging
from argparse import Namespace
from typing import Any

from kamera.engines.vllm.fill.companion import Companion
from kamera.engines.vllm.fill.middleware import STATE
from kamera.engines.vllm.fill.settings import FillSettings
from kamera.engines.vllm.plugin import CONNECTOR
from kamera.engines.vllm.settings import ConnectorSettings

PATH = "/kamera/fill"

logger = logging.getLogger("vllm.kamera.fill")


class FillEndpoint:
    """vLLM's `EndpointPlugin`."""

    name = "kamera_fill"
    required_tasks = ("generate",)

    def __init__(self) -> None:
        self._companion: Companion | None = None

    def attach_router(self, app: Any) -> None:
        """Add the route; `app` is the server's FastAPI application."""
        app.add_api_route(PATH, self.counters, methods=["GET"], tags=["kamera"])

    async def counters(self) -> dict[str, Any]:
        """What the companion did since the server started."""
        if self._companion is None:
            return {"policy": "off", "is_running": False}
        return self._companion.to_json()

    async def init_state(self, engine_client: Any, state: Any, args: Namespace) -> None:
        """Start the companion beside the server, as the connector's extra config says.

        Raises:
            ConfigError: a fill setting that can't be right; the server doesn't start.
        """
        if engine_client is None:  # the render server: no engine, nothing to fill
            return
        transfer = getattr(engine_client.vllm_config, "kv_transfer_config", None)
        if transfer is None or transfer.kv_connector != CONNECTOR:
            logger.warning(
                "kamera_fill is loaded but the connector isn't %s: nothing is filled", CONNECTOR
            )
            return
        settings = FillSettings.of(ConnectorSettings.of(transfer.kv_connector_extra_config or {}))
        from kamera.engines.vllm.fill.sender import VllmSender

        rank = int(getattr(engine_client.renderer, "api_process_rank", 0))
        self._companion = Companion(VllmSender(engine_client), settings, reads_spool=rank == 0)
        setattr(state, STATE, self._companion)
        self._companion.start()
        logger.info(
            "Kamera's fill companion: policy %s, at most %d solo requests a minute, store %s; GET %s",
            settings.policy,
            settings.per_minute,
            settings.store or "in memory (texts aren't filled)",
            PATH,
        )
