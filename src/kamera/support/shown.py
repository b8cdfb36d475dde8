"""What a config says, as a terminal and an error's message may show it."""

import reprlib

_MOST = 60

_short = reprlib.Repr()
_short.maxstring = _short.maxother = _short.maxlong = _MOST
_short.maxlist = _short.maxtuple = 8
_short.maxlevel = 3


def shown(value: object) -> str:
    """A value's repr, cut to a few dozen characters. Bounded work: a config may hold anything."""
    try:
        return _short.repr(value)[: 2 * _MOST]
    except ValueError:  # Python writes no integer of more than 4,300 digits
        return f"{type(value).__name__} of too many digits to show"


def printable(text: str) -> str:
    """A text with its control characters and lone surrogates as escapes: nothing steers a terminal."""
    return "".join(c if c.isprintable() else repr(c)[1:-1] for c in text)
