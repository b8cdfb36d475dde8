"""Reading single values of a raw config, each with a clear error."""

from collections.abc import Mapping
from typing import Any

from kamera.errors import ConfigError
from kamera.support.shown import printable, shown

Config = Mapping[str, Any]

MAX_COUNT = 2**40
"""No count, size or length of a model is larger."""
MAX_NUMBER = 1e18
"""No base or factor is larger."""
MAX_NAME = 200
"""Characters; no name is longer."""


def count(config: Config, key: str, default: int | None = None, *, least: int = 1) -> int:
    """An integer from `least` to MAX_COUNT; the default where the key is absent or null.

    Raises:
        ConfigError: another value, or none and no default.
    """
    value = config.get(key)
    value = default if value is None else value
    if type(value) is not int or not least <= value <= MAX_COUNT:
        raise _invalid(key, f"an integer from {least} to 2**40", value)
    return value


def number(config: Config, key: str, default: float) -> float:
    """A positive number of at most MAX_NUMBER; the default where the key is absent or null.

    Raises:
        ConfigError: another value.
    """
    value = config.get(key)
    value = default if value is None else value
    right = isinstance(value, int | float) and not isinstance(value, bool)
    if not right or not 0 < value <= MAX_NUMBER:
        raise _invalid(key, "a positive number of at most 1e18", value)
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
        raise _invalid(key, "an object", value)
    return value


def integers(config: Config, key: str) -> tuple[int, ...]:
    """A list of integers, each at most MAX_COUNT in size; empty where the key is absent or null.

    Raises:
        ConfigError: another value.
    """
    value = config.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(_is_integer(item) for item in value):
        raise _invalid(key, "a list of integers of at most 2**40", value)
    return tuple(value)


def names(config: Config, key: str) -> tuple[str, ...]:
    """A list of names; empty where the key is absent or null.

    Raises:
        ConfigError: another value, or a name of more than MAX_NAME characters.
    """
    value = config.get(key)
    if value is None:
        return ()
    if not isinstance(value, list | tuple) or not all(_is_name(item) for item in value):
        raise _invalid(key, f"a list of names of at most {MAX_NAME} characters", value)
    return tuple(value)


def short(key: str, value: str) -> str:
    """The name itself.

    Raises:
        ConfigError: it has more than MAX_NAME characters.
    """
    if len(value) > MAX_NAME:
        raise _invalid(key, f"a name of at most {MAX_NAME} characters", value)
    return value


def _is_integer(value: object) -> bool:
    return type(value) is int and abs(value) <= MAX_COUNT


def _is_name(value: object) -> bool:
    return isinstance(value, str) and len(value) <= MAX_NAME


def _invalid(key: str, expected: str, value: object) -> ConfigError:
    return ConfigError(
        f"Invalid {printable(key)} in the config: expected {expected}, got {shown(value)}"
    )
