"""Reading single values of a raw config, each with a clear error."""

from collections.abc import Mapping
from typing import Any

from kamera.errors import ConfigError

Config = Mapping[str, Any]


def count(config: Config, key: str, default: int | None = None) -> int:
    """A positive integer; the default where the key is absent or null.

    Raises:
        ConfigError: another value, or none and no default.
    """
    value = config.get(key)
    value = default if value is None else value
    if type(value) is not int or value < 1:
        raise ConfigError(
            f"Invalid {key} in the config: expected a positive integer, got {value!r}"
        )
    return value


def number(config: Config, key: str, default: float) -> float:
    """A positive number; the default where the key is absent or null.

    Raises:
        ConfigError: another value.
    """
    value = config.get(key)
    value = default if value is None else value
    if isinstance(value, bool) or not isinstance(value, int | float) or not value > 0:
        raise ConfigError(f"Invalid {key} in the config: expected a positive number, got {value!r}")
    return float(value)


def section(config: Config, key: str) -> Config:
    """A nested object; empty where the key is absent or null.

    Raises:
        ConfigError: another value.
    """
    value = config.get(key)
    if value is None:
        return {}
    if not isinstance(value, Mapping):
        raise ConfigError(f"Invalid {key} in the config: expected an object, got {value!r:.60}")
    return value


def integers(config: Config, key: str) -> tuple[int, ...]:
    """A list of integers; empty where the key is absent or null.

    Raises:
        ConfigError: another value.
    """
    value = config.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or any(type(item) is not int for item in value):
        raise ConfigError(
            f"Invalid {key} in the config: expected a list of integers, got {value!r:.60}"
        )
    return tuple(value)
