"""Reading single values of a raw config, each with a clear error."""

from collections.abc import Mapping
from typing import Any

from kamera.errors import ConfigError

Config = Mapping[str, Any]


def count(config: Config, key: str, default: int | None = None, *, least: int = 1) -> int:
    """An integer of at least `least`; the default where the key is absent or null.

    Raises:
        ConfigError: another value, or none and no default.
    """
    value = config.get(key)
    value = default if value is None else value
    if type(value) is not int or value < least:
        raise ConfigError(
            f"Invalid {key} in the config: expected an integer of at least {least}, got {value!r:.60}"
        )
    return value


def number(config: Config, key: str, default: float) -> float:
    """A positive number; the default where the key is absent or null.

    Raises:
        ConfigError: another value.
    """
    value = config.get(key)
    value = default if value is None else value
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not 0 < value < 1e300:
        raise ConfigError(
            f"Invalid {key} in the config: expected a positive number, got {value!r:.60}"
        )
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
