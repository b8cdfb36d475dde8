"""SHA-256 over the typed encoding: 256 bits, kept end to end, always lower-case hex."""

import hashlib
import re
from collections.abc import Callable
from operator import itemgetter

from kamera.errors import ConfigError
from kamera.identity.encoding import encode, encode_parts

__all__ = ["DIGEST_LEN", "DigestTemplate", "check_digest", "check_tenant", "digest"]

DIGEST_LEN = 64
"""Characters of a digest: 256 bits in hex."""

MAX_TENANT_BYTES = 1024

_HEX = re.compile(r"[0-9a-f]{64}")


def digest(domain: str, version: int, value: object) -> str:
    """SHA-256 of `[domain, version, value]` in the typed encoding, as hex.

    The domain ("kamera.chunk") keeps equal values of different nouns apart; the version changes
    when the meaning of the value does. Raises `ConfigError` for a type that the encoding refuses.
    """
    sha = hashlib.sha256()
    for part in encode_parts([domain, version, value]):
        sha.update(part)
    return sha.hexdigest()


class DigestTemplate:
    """`digest(domain, version, value_of(*texts))` for texts of known lengths: the same digest, sooner.

    Everything else is encoded once. `lengths` are in bytes of UTF-8 and at least 1. `value_of` may put the
    texts anywhere in its value, each of them once and as it is.
    """

    def __init__(
        self, domain: str, version: int, value_of: Callable[..., object], *lengths: int
    ) -> None:
        marks = [chr(index + 1) * length for index, length in enumerate(lengths)]
        whole = encode([domain, version, value_of(*marks)])
        if any(whole.count(mark.encode()) != 1 for mark in marks):
            raise ConfigError(f"Invalid template of {domain}: expected each text once, as it is")
        places = sorted((whole.index(mark.encode()), index) for index, mark in enumerate(marks))
        self._lengths = lengths
        order = [index for _, index in places]
        self._in_order = None if order == sorted(order) else itemgetter(*order)
        form, end = b"", 0
        for at, index in places:
            form += whole[end:at].replace(b"%", b"%%") + b"%b"
            end = at + lengths[index]
        self._form = form + whole[end:].replace(b"%", b"%%")

    def digest(self, *texts: str) -> str:
        """The digest. Raises `ConfigError` for a text of another length."""
        data = tuple(map(str.encode, texts))
        if tuple(map(len, data)) != self._lengths:
            raise ConfigError(
                f"Texts don't fit the digest: expected lengths {self._lengths}, "
                f"got {tuple(map(len, data))}"
            )
        ordered = data if self._in_order is None else self._in_order(data)
        return hashlib.sha256(self._form % ordered).hexdigest()


def check_digest(what: str, value: str) -> str:
    """`value`, if it has the form of a digest; else `ConfigError`."""
    if type(value) is not str or _HEX.fullmatch(value) is None:
        raise ConfigError(
            f"{what} isn't a digest: expected {DIGEST_LEN} lower-case hex characters, "
            f"got {value!r:.80}. Take it from a key's `.digest`."
        )
    return value


def check_tenant(value: str | None) -> str | None:
    """`value`, if it can name a tenant, else `ConfigError`. None and "" are two tenants."""
    if value is None:
        return None
    if type(value) is not str:
        raise ConfigError(f"Tenant has a wrong type: expected str or None, got {value!r:.80}.")
    try:
        size = len(value.encode("utf-8"))
    except UnicodeEncodeError:
        raise ConfigError(f"Tenant isn't valid Unicode: got {value!r:.80}.") from None
    if size > MAX_TENANT_BYTES:
        raise ConfigError(
            f"Tenant is too long: expected at most {MAX_TENANT_BYTES} bytes of UTF-8, got {size}."
        )
    return value
