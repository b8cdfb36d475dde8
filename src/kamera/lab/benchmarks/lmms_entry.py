"""What lmms-eval finds through the entry point `lmms_eval.models`; the model loads when it is chosen."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from lmms_eval.models.registry_v2 import ModelManifest


def manifest() -> ModelManifest:
    """`--model kamera`."""
    from lmms_eval.models.registry_v2 import ModelManifest

    return ModelManifest(model_id="kamera", chat_class_path="kamera.lab.benchmarks.lmms.Kamera")
