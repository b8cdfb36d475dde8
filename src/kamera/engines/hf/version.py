"""The tested range of Transformers, checked when the engine is imported."""

import re

from kamera.errors import EngineVersionError

LOWEST = (5, 24)
BELOW = (5, 25)


def check_version() -> None:
    """Raise `EngineVersionError` when Transformers is missing or outside the tested range."""
    try:
        import transformers
    except ImportError as error:
        raise EngineVersionError(
            "Transformers isn't installed: the Hugging Face engine needs it. "
            "Install it with: pip install 'kamera-kv[hf]'"
        ) from error
    check(transformers.__version__)


def check(version: str) -> None:
    """Raise unless `version` is in the tested range."""
    numbers = re.match(r"(\d+)\.(\d+)", version)
    found = tuple(int(part) for part in numbers.groups()) if numbers else ()
    if not LOWEST <= found < BELOW:
        raise EngineVersionError(
            f"Transformers {version} is outside the tested range: expected >= {_dotted(LOWEST)} and "
            f"< {_dotted(BELOW)}. Install it with: pip install 'transformers=={_dotted(LOWEST)}.*'"
        )


def _dotted(version: tuple[int, int]) -> str:
    return ".".join(map(str, version))
