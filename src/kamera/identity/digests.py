"""SHA-256 over the typed encoding: 256 bits, kept end to end, always lower-case hex."""

import hashlib
import re

from kamera.errors import ConfigError
from kamera.identity.encoding import encode_parts

__all__ = ["DIGEST_LEN", "check_digest", "check_tenant", "digest"]

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
