"""The error tree. Every error that Kamera raises on purpose is a `KameraError`.

    KameraError
    ├── ConfigError (ValueError)          a setting or an argument that can't be right
    ├── UnsupportedModelError             a model that can't be served, with the reason
    │   └── UnsupportedRopeError          its rotary scheme isn't position-independent
    ├── EngineVersionError                an engine outside the tested version range
    ├── FormatError                       bytes on disk that aren't a valid Kamera file
    └── ChunkNotFoundError (KeyError)     a chunk was asked for by a name that is unknown

A message says what was wrong, what was expected, what was got, and what to do. A cache miss is not
an error: it is a typed result that says why.
"""


class KameraError(Exception):
    """Base of every error that Kamera raises on purpose."""


class ConfigError(KameraError, ValueError):
    """A setting or an argument that can't be right."""


class UnsupportedModelError(KameraError):
    """The model can't be served; the message says which part of it and why."""


class UnsupportedRopeError(UnsupportedModelError):
    """The rotary scheme isn't a pure, position-independent rotation."""


class EngineVersionError(KameraError):
    """The engine's version is outside the range that was tested."""


class FormatError(KameraError):
    """Bytes that aren't a valid Kamera file (corrupt, truncated or foreign)."""


class ChunkNotFoundError(KameraError, KeyError):
    """A chunk was asked for by a name that the window or the store doesn't know."""

    __str__ = Exception.__str__  # KeyError would quote the message
