"""`KameraConnector`: vLLM's KV connector interface, over the two halves.

A model that can't be served gets a connector that leaves every request untouched and says why, once.
"""

from __future__ import annotations

import logging
import os
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.base import (
    KVConnectorBase_V1,
    KVConnectorMetadata,
    KVConnectorRole,
    KVConnectorWorkerMetadata,
    SupportsHMA,
)

from kamera.engines.vllm.metadata import Jobs
from kamera.engines.vllm.model import ServedModel
from kamera.engines.vllm.pool import Pool
from kamera.engines.vllm.scheduler import SchedulerHalf
from kamera.engines.vllm.settings import ConnectorSettings
from kamera.engines.vllm.shared_store import shared_store
from kamera.engines.vllm.stats import KameraPromMetrics, KameraStats
from kamera.engines.vllm.sums import Sums
from kamera.engines.vllm.version import check_version
from kamera.engines.vllm.worker import WorkerHalf
from kamera.errors import ConfigError, UnsupportedModelError

logger = logging.getLogger("vllm.kamera")


@dataclass
class StepJobs(KVConnectorMetadata):
    """One step's jobs, as vLLM carries them."""

    jobs: Jobs


@dataclass
class FailedLoads(KVConnectorWorkerMetadata):
    """Requests whose load failed in a worker."""

    requests: set[str] = field(default_factory=set)

    def aggregate(self, other: KVConnectorWorkerMetadata) -> FailedLoads:
        """Those of both workers."""
        assert isinstance(other, FailedLoads)
        return FailedLoads(self.requests | other.requests)


class KameraConnector(KVConnectorBase_V1, SupportsHMA):
    """See the module. Options: `ConnectorSettings`, under `kv_connector_extra_config`."""

    def __init__(self, vllm_config: Any, role: KVConnectorRole, kv_cache_config: Any) -> None:
        super().__init__(vllm_config, role, kv_cache_config)
        check_version()
        transfer = vllm_config.kv_transfer_config
        self.settings = ConnectorSettings.of(transfer.kv_connector_extra_config)
        self._check_processes(vllm_config)
        self._scheduler: SchedulerHalf | None = None
        self._worker: WorkerHalf | None = None
        self._store = None
        self._untouched = Sums()
        try:
            self._model: ServedModel | None = ServedModel.of(vllm_config, kv_cache_config)
        except UnsupportedModelError as error:
            self._model = None
            logger.warning("Kamera serves nothing here, every request is left to vLLM: %s", error)
            return
        self._store = shared_store(self.settings)
        if role is KVConnectorRole.SCHEDULER:
            self._scheduler = SchedulerHalf(vllm_config, self.settings, self._model, self._store)
            self._say(transfer)

    def _check_processes(self, vllm_config: Any) -> None:
        if self.settings.store is None and vllm_config.parallel_config.world_size > 1:
            raise ConfigError(
                "Invalid store: expected a folder when workers are processes of their own; set "
                '"store" in kv_connector_extra_config'
            )

    def _say(self, transfer: Any) -> None:
        logger.info("Kamera: %s", self.settings)
        if self.settings.captures and "kamera_fill" not in os.environ.get("VLLM_PLUGINS", ""):
            logger.warning(
                "Kamera: no fill companion is loaded: canonicals of what doesn't lead a prompt come from "
                "`kamera compile` or solo requests alone. `kamera serve` loads it"
            )
        if transfer.kv_load_failure_policy != "recompute":
            logger.warning(
                'Kamera: kv_load_failure_policy is %r: a chunk that is lost fails its request; "recompute" '
                "prefills it",
                transfer.kv_load_failure_policy,
            )

    # The worker's half.

    def register_kv_caches(self, kv_caches: dict[str, Any]) -> None:
        if self._model is None or self._store is None:
            return
        layers = self._vllm_config.compilation_config.static_forward_context
        block_size = self._kv_cache_config.kv_cache_groups[0].kv_cache_spec.block_size
        try:
            pool = Pool([layers[name] for name in kv_caches], self._model.shapes, block_size)
        except UnsupportedModelError as error:
            raise ConfigError(
                f"Kamera can't read this engine's KV cache: {error}. Start vLLM without the connector"
            ) from error
        self._worker = WorkerHalf(self.settings, self._model.spec, pool, self._store, self._shard())

    def _shard(self) -> int:
        from vllm.distributed import get_tensor_model_parallel_rank

        assert self._model is not None
        return int(get_tensor_model_parallel_rank()) if self._model.num_shards > 1 else 0

    def _jobs(self) -> Jobs:
        metadata = self._get_connector_metadata()
        assert isinstance(metadata, StepJobs)
        return metadata.jobs

    def bind_connector_metadata(self, connector_metadata: KVConnectorMetadata) -> None:
        """vLLM's first call of a step: asynchronous loads are asked for behind the forward."""
        super().bind_connector_metadata(connector_metadata)
        if self._worker is not None:
            self._worker.begin_step()

    def start_load_kv(self, forward_context: Any, **kwargs: Any) -> None:
        if self._worker is not None:
            self._worker.start(self._jobs())

    def wait_for_layer_load(self, layer_name: str) -> None:
        """Loads are asynchronous: a request isn't scheduled before its load is over."""

    def save_kv_layer(
        self, layer_name: str, kv_layer: Any, attn_metadata: Any, **kwargs: Any
    ) -> None:
        """What is kept is read after the forward, whole chunks at a time."""

    def wait_for_save(self) -> None:
        if self._worker is not None:
            self._worker.capture(self._jobs())

    def get_finished(self, finished_req_ids: set[str]) -> tuple[set[str] | None, set[str] | None]:
        return None, (self._worker.finished() or None) if self._worker else None

    def get_block_ids_with_load_errors(self) -> set[int]:
        return self._worker.failed_blocks() if self._worker else set()

    def build_connector_worker_meta(self) -> KVConnectorWorkerMetadata | None:
        failed = self._worker.failed() if self._worker else set()
        return FailedLoads(failed) if failed else None

    def shutdown(self) -> None:
        if self._worker is not None:
            self._worker.close()
            self._worker = None

    # The scheduler's half.

    def get_num_new_matched_tokens(
        self, request: Any, num_computed_tokens: int
    ) -> tuple[int | None, bool]:
        if self._scheduler is None:
            return 0, False
        return self._scheduler.match(request, num_computed_tokens)

    def update_state_after_alloc(self, request: Any, blocks: Any, num_external_tokens: int) -> None:
        if self._scheduler is not None:
            self._scheduler.allocated(request, blocks.get_block_ids()[0], num_external_tokens)

    def build_connector_meta(self, scheduler_output: Any) -> KVConnectorMetadata:
        if self._scheduler is None:
            return StepJobs(Jobs())
        scheduled = scheduler_output.num_scheduled_tokens
        return StepJobs(self._scheduler.jobs(scheduled, self._kv_cache_manager))

    def update_connector_output(self, connector_output: Any) -> None:
        failed = connector_output.kv_connector_worker_meta
        if self._scheduler is not None and isinstance(failed, FailedLoads):
            self._scheduler.loads_failed(failed.requests)

    def request_finished(
        self, request: Any, block_ids: list[int]
    ) -> tuple[bool, dict[str, Any] | None]:
        if self._scheduler is not None:
            self._scheduler.finished(request)
        return False, None

    def request_finished_all_groups(
        self, request: Any, block_ids: tuple[list[int], ...]
    ) -> tuple[bool, dict[str, Any] | None]:
        return self.request_finished(request, [])

    def on_new_request(self, request: Any) -> None:
        if self._scheduler is None:
            self._untouched.add("requests_passed", label="model not served")

    def take_events(self) -> Iterable[Any]:
        return ()

    def reset_cache(self) -> bool | None:
        return self._scheduler.reset() if self._scheduler else True

    # Both halves.

    def get_kv_connector_stats(self) -> KameraStats | None:
        if self._worker is not None:
            return KameraStats.of(self._worker.taken())
        counted = self._scheduler.stats if self._scheduler else self._untouched
        return KameraStats.of(counted.take())

    @classmethod
    def build_kv_connector_stats(cls, data: dict[str, Any] | None = None) -> KameraStats:
        return KameraStats(data=data or {})

    @classmethod
    def build_prom_metrics(
        cls,
        vllm_config: Any,
        metric_types: dict[type[Any], type[Any]],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> KameraPromMetrics:
        return KameraPromMetrics(vllm_config, metric_types, labelnames, per_engine_labelvalues)
