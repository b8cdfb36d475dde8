"""Counters of the connector, summed over workers, and their names in Prometheus."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from vllm.distributed.kv_transfer.kv_connector.v1.metrics import (
    KVConnectorPromMetrics,
    KVConnectorStats,
)

LABELLED = {
    "chunks_served": ("point", "Chunks composed from the store, by operating point."),
    "chunks_missed": ("reason", "Chunks that the engine prefilled, by the reason."),
    "requests_passed": (
        "reason",
        "Requests that were left to the engine untouched, by the reason.",
    ),
}
"""Counter -> its label and what it counts. In the data a name is `counter/label's value`."""

PLAIN = {
    "tokens_saved": "Prompt tokens that weren't prefilled.",
    "bytes_loaded": "Bytes of KV composed into the engine's blocks.",
    "loads": "Loads that were carried out.",
    "loads_failed": "Loads that failed; their tokens were prefilled.",
    "apply_seconds": "Seconds spent composing, off the engine's thread.",
    "chunks_captured": "Chunks whose KV was taken from the engine's own prefill.",
    "canonicals_kept": "Canonicals stored.",
    "patches_formed": "Patches formed and stored.",
    "form_seconds": "Seconds spent forming, off the engine's thread.",
    "pending_dropped": "Chunks whose canonical didn't come while there was room to wait.",
    "forming_failed": "Chunks that could not be kept; the log says why.",
}


class KameraStats(KVConnectorStats):
    """A dictionary of sums."""

    def reset(self) -> None:
        """Back to nothing."""
        self.data: dict[str, int | float] = {}

    def aggregate(self, other: KVConnectorStats) -> KameraStats:
        """Add another's sums to these."""
        for key, value in other.data.items():
            self.data[key] = self.data.get(key, 0) + value
        return self

    def reduce(self) -> dict[str, int | float]:
        """The sums, for the log."""
        return {key: round(value, 4) for key, value in sorted(self.data.items())}

    def is_empty(self) -> bool:
        """Whether nothing was counted."""
        return not self.data

    @classmethod
    def of(cls, sums: Mapping[str, int | float]) -> KameraStats | None:
        """Stats of these sums; None for nothing, as vLLM wants it."""
        return cls(data=dict(sums)) if sums else None


class KameraPromMetrics(KVConnectorPromMetrics):
    """The same sums as Prometheus counters, `kamera:<name>_total`, labelled as the engine's own are."""

    def __init__(
        self,
        vllm_config: Any,
        metric_types: dict[type[Any], type[Any]],
        labelnames: list[str],
        per_engine_labelvalues: dict[int, list[object]],
    ) -> None:
        super().__init__(vllm_config, metric_types, labelnames, per_engine_labelvalues)
        self._counters = {
            name: self._counter_cls(f"kamera:{name}", text, labelnames=labelnames)
            for name, text in PLAIN.items()
        }
        self._counters |= {
            name: self._counter_cls(f"kamera:{name}", text, labelnames=[*labelnames, label])
            for name, (label, text) in LABELLED.items()
        }

    def observe(self, transfer_stats_data: dict[str, Any], engine_idx: int = 0) -> None:
        """Add one interval's sums."""
        for key, value in transfer_stats_data.items():
            name, _, label = key.partition("/")
            values = [*self.per_engine_labelvalues[engine_idx], *([label] if label else [])]
            self._counters[name].labels(*values).inc(value)


__all__ = ["LABELLED", "PLAIN", "KameraPromMetrics", "KameraStats"]
