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
    from kamera.rope import PerLayerRope, RopeSpec, read_rope_spec
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
    "PerLayerRope",
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
    "packaged_models",
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
    "PerLayerRope": "kamera.rope",
    "RopeSpec": "kamera.rope",
    "Session": "kamera.session",
    "SessionSettings": "kamera.session",
    "Store": "kamera.store",
    "deficit": "kamera.patch",
    "form_patch": "kamera.patch",
    "open_store": "kamera.store",
    "read_rope_spec": "kamera.rope",
}


_CHECKPOINTS = Path(__file__).parent / "checkpoints"


def packaged_models() -> list[str]:
    """Names of the checkpoints that come with the package."""
    return sorted(folder.name for folder in _CHECKPOINTS.iterdir() if folder.is_dir())


def packaged_model(name: str = "nano-gqa") -> Path:
    """The folder of a checkpoint that comes with the package.

    Raises:
        ConfigError: there is none of that name.
    """
    if name not in packaged_models():
        raise ConfigError(f"No packaged model {name!r}: expected one of {packaged_models()}")
    return _CHECKPOINTS / name


def __getattr__(name: str) -> Any:
    """A name of `__all__` from the module that has it (PEP 562)."""
    if name not in _MODULE_OF:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    value = getattr(import_module(_MODULE_OF[name]), name)
    globals()[name] = value
    return value


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__})
