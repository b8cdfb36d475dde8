"""Kamera: a position-independent KV cache for multimodal agents.

`import kamera` loads nothing: a name's module (and torch with it) is loaded when the name is first used.
"""

from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING, Any

from kamera.errors import (
    ChunkNotFoundError,
    ConfigError,
    EngineVersionError,
    FormatError,
    KameraError,
    UnsupportedModelError,
    UnsupportedRopeError,
)

if TYPE_CHECKING:
    from kamera.channels import ChunkKV
    from kamera.patch import Patch, deficit, form_patch
    from kamera.planner import OperatingPoint
    from kamera.rope import RopeSpec, read_rope_spec
    from kamera.session import Answer, ChunkOutcome, Outcome, Session, SessionSettings
    from kamera.store import MissReason, Store, open_store

__version__ = "0.1.0"

__all__ = [
    "Answer",
    "ChunkKV",
    "ChunkNotFoundError",
    "ChunkOutcome",
    "ConfigError",
    "EngineVersionError",
    "FormatError",
    "KameraError",
    "MissReason",
    "OperatingPoint",
    "Outcome",
    "Patch",
    "RopeSpec",
    "Session",
    "SessionSettings",
    "Store",
    "UnsupportedModelError",
    "UnsupportedRopeError",
    "__version__",
    "deficit",
    "form_patch",
    "open_store",
    "packaged_model",
    "read_rope_spec",
]

_MODULE_OF = {
    "Answer": "kamera.session",
    "ChunkKV": "kamera.channels",
    "ChunkOutcome": "kamera.session",
    "MissReason": "kamera.store",
    "OperatingPoint": "kamera.planner",
    "Outcome": "kamera.session",
    "Patch": "kamera.patch",
    "RopeSpec": "kamera.rope",
    "Session": "kamera.session",
    "SessionSettings": "kamera.session",
    "Store": "kamera.store",
    "deficit": "kamera.patch",
    "form_patch": "kamera.patch",
    "open_store": "kamera.store",
    "read_rope_spec": "kamera.rope",
}


def packaged_model() -> Path:
    """The folder of the nano-gqa checkpoint that comes with the package."""
    return Path(__file__).parent / "checkpoints" / "nano-gqa"


def __getattr__(name: str) -> Any:
    """A name of `__all__` from the module that has it (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
