"""An entry as bytes: one safetensors file that carries its own name, owner and digests.

Writing and reading are done here and not by the safetensors package, because a reader must check
names, sizes and digests before it allocates, and a writer must give the same bytes each time. Every
file is a valid safetensors file all the same. `docs/file-format.md` is the specification.
"""

import errno
import hashlib
import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any

import torch

from kamera.errors import ConfigError, FormatError
from kamera.identity.encoding import array_bytes
from kamera.store.contract import MissReason
from kamera.store.entry import DTYPE_NAMES, Entry, EntryKey

__all__ = [
    "FORMAT_NAME",
    "FORMAT_VERSION",
    "MAX_HEADER_BYTES",
    "EntryFormatError",
    "Header",
    "encode_entry",
    "parse_header",
    "read_entry",
    "read_header",
]

FORMAT_NAME = "kamera-entry"
FORMAT_VERSION = "1"
MAX_HEADER_BYTES = 4 * 1024 * 1024
MAX_DIMS = 8
READ_BYTES = 2 << 20

_BLANK = "0" * 64
_DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
_METADATA_FIELDS = {
    "format",
    "format_version",
    "kind",
    "key",
    "model",
    "tenant",
    "attributes",
    "payload_sha256",
    "header_sha256",
}

ReadInto = Callable[[memoryview], int | None]


class EntryFormatError(FormatError):
    """Bytes that aren't the entry that was looked for, with the reason of the miss to count."""

    def __init__(self, reason: MissReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.inode: int | None = None  # of the file, once it is known


@dataclass(frozen=True)
class TensorSpec:
    """One tensor's place in the payload; `start` and `end` are bytes from the payload's start."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


@dataclass(frozen=True)
class Header:
    """A header whose digest and whose tensor table were checked."""

    key: EntryKey
    model: str
    tenant: str | None
    attributes: dict[str, Any]
    payload_sha256: str
    specs: tuple[TensorSpec, ...]
    payload_bytes: int


def encode_entry(entry: Entry) -> list[bytes | memoryview]:
    """The file as buffers to be written in order. They alias the entry's tensors."""
    names = sorted(entry.tensors, key=lambda name: _order(entry.tensors[name].dtype, name))
    payload = [array_bytes(entry.tensors[name]) for name in names]
    sha = hashlib.sha256()
    table: dict[str, object] = {}
    start = 0
    for name, data in zip(names, payload, strict=True):
        sha.update(data)
        tensor = entry.tensors[name]
        table[name] = {
            "dtype": DTYPE_NAMES[tensor.dtype],
            "shape": list(tensor.shape),
            "data_offsets": [start, start + len(data)],
        }
        start += len(data)
    metadata = {
        "format": FORMAT_NAME,
        "format_version": FORMAT_VERSION,
        "kind": entry.key.kind,
        "key": entry.key.digest,
        "model": entry.model,
        "tenant": json.dumps(entry.tenant),
        "attributes": entry.attributes_json(),
        "payload_sha256": sha.hexdigest(),
        "header_sha256": _BLANK,
    }
    header = {"__metadata__": metadata, **table}
    metadata["header_sha256"] = hashlib.sha256(_canonical(header)).hexdigest()
    raw = _canonical(header)
    if len(raw) > MAX_HEADER_BYTES:
        raise ConfigError(
            f"Entry's header is too large: expected at most {MAX_HEADER_BYTES} bytes of names and "
            f"attributes, got {len(raw)}. Put large data into a tensor."
        )
    return [len(raw).to_bytes(8, "little") + raw, *payload]


def read_header(readinto: ReadInto, file_bytes: int) -> Header:
    """The checked header of a file of `file_bytes` bytes, read from its start.

    Allocates at most `MAX_HEADER_BYTES`. Raises `EntryFormatError`.
    """
    if file_bytes < 8:
        raise EntryFormatError(MissReason.TRUNCATED, f"{file_bytes} bytes, a header length needs 8")
    prefix = bytearray(8)
    _fill(readinto, memoryview(prefix))
    header_bytes = int.from_bytes(prefix, "little")
    if not 2 <= header_bytes <= MAX_HEADER_BYTES:
        raise EntryFormatError(
            MissReason.CORRUPT,
            f"header of {header_bytes} bytes, at most {MAX_HEADER_BYTES} allowed",
        )
    if 8 + header_bytes > file_bytes:
        raise EntryFormatError(
            MissReason.TRUNCATED, f"header of {header_bytes} bytes in a file of {file_bytes}"
        )
    raw = bytearray(header_bytes)
    _fill(readinto, memoryview(raw))
    return parse_header(bytes(raw), payload_bytes=file_bytes - 8 - header_bytes)


def read_entry(readinto: ReadInto, header: Header) -> Entry:
    """The entry behind `header`, from the payload's first byte on. Raises `EntryFormatError`.

    All tensors are views of one buffer. Bytes are digested while they are read. `OSError` where
    the system can't read, or hasn't the memory.
    """
    try:
        buffer = torch.empty(header.payload_bytes, dtype=torch.uint8)
    except RuntimeError as error:  # PyTorch's way to say that memory ran out
        raise OSError(errno.ENOMEM, f"no memory for {header.payload_bytes} bytes") from error
    found = _read_and_digest(readinto, buffer.numpy().data)
    if found != header.payload_sha256:
        raise EntryFormatError(MissReason.CORRUPT, "payload doesn't match its SHA-256")
    tensors = {
        spec.name: buffer[spec.start : spec.end].view(spec.dtype).reshape(spec.shape)
        for spec in header.specs
    }
    return Entry(header.key, header.model, header.tenant, tensors, header.attributes)


def parse_header(raw: bytes, payload_bytes: int) -> Header:
    """The header in `raw`, checked against itself and the size of the payload behind it."""
    try:
        parsed = json.loads(raw.decode("ascii"))
        metadata = parsed["__metadata__"]
        found = (metadata["format"], metadata["format_version"])
    except (ValueError, TypeError, KeyError, RecursionError) as error:
        reason, what = MissReason.CORRUPT, "header isn't JSON"
        if isinstance(error, TypeError | KeyError):
            reason, what = MissReason.FOREIGN, "no Kamera metadata in the header"
        raise EntryFormatError(reason, what) from None
    if found != (FORMAT_NAME, FORMAT_VERSION):
        raise EntryFormatError(
            MissReason.FOREIGN,
            f"format {found[0]!r:.40} {found[1]!r:.40}, expected {FORMAT_NAME} {FORMAT_VERSION}",
        )
    try:
        return _checked_header(raw, parsed, metadata, payload_bytes)
    except EntryFormatError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        detail = f"header has a wrong field ({type(error).__name__}: {error!s:.120})"
        raise EntryFormatError(MissReason.CORRUPT, detail) from None


def _checked_header(
    raw: bytes, parsed: dict[str, Any], metadata: dict[str, Any], payload_bytes: int
) -> Header:
    if metadata.keys() != _METADATA_FIELDS or not all(type(v) is str for v in metadata.values()):
        raise EntryFormatError(
            MissReason.CORRUPT, "header has other metadata fields than it should"
        )
    claimed = metadata["header_sha256"]
    if raw != _canonical(parsed):
        raise EntryFormatError(MissReason.CORRUPT, "header isn't in canonical form")
    metadata["header_sha256"] = _BLANK
    if hashlib.sha256(_canonical(parsed)).hexdigest() != claimed:
        raise EntryFormatError(MissReason.CORRUPT, "header doesn't match its SHA-256")
    specs = tuple(_spec(name, row) for name, row in parsed.items() if name != "__metadata__")
    specs = tuple(sorted(specs, key=lambda spec: _order(spec.dtype, spec.name)))
    end = 0
    for spec in specs:
        if spec.start != end:
            raise EntryFormatError(
                MissReason.CORRUPT, f"tensor {spec.name!r} overlaps or leaves a gap"
            )
        end = spec.end
    if end > payload_bytes:
        raise EntryFormatError(
            MissReason.TRUNCATED, f"payload of {payload_bytes} bytes, the header says {end}"
        )
    if end < payload_bytes:
        raise EntryFormatError(MissReason.CORRUPT, f"{payload_bytes - end} bytes after the payload")
    tenant, attributes = json.loads(metadata["tenant"]), json.loads(metadata["attributes"])
    if not isinstance(tenant, str | None) or type(attributes) is not dict:
        raise EntryFormatError(MissReason.CORRUPT, "tenant or attributes of a wrong type")
    header = Header(
        key=EntryKey(metadata["kind"], metadata["key"]),
        model=metadata["model"],
        tenant=tenant,
        attributes=attributes,
        payload_sha256=metadata["payload_sha256"],
        specs=specs,
        payload_bytes=payload_bytes,
    )
    empty = {spec.name: torch.empty(0, dtype=spec.dtype) for spec in specs}
    Entry(header.key, header.model, header.tenant, empty, header.attributes)  # checks every field
    return header


def _spec(name: str, row: dict[str, Any]) -> TensorSpec:
    """One row of the tensor table, with its sizes checked against each other."""
    dtype, shape, (start, end) = _DTYPES[row["dtype"]], row["shape"], row["data_offsets"]
    if row.keys() != {"dtype", "shape", "data_offsets"} or type(shape) is not list:
        raise EntryFormatError(
            MissReason.CORRUPT, f"tensor {name!r} has other fields than it should"
        )
    if len(shape) > MAX_DIMS or not all(type(n) is int and 0 <= n < 1 << 63 for n in shape):
        raise EntryFormatError(MissReason.CORRUPT, f"tensor {name!r} has an impossible shape")
    size = dtype.itemsize
    for dim in shape:
        size *= dim
    if type(start) is not int or type(end) is not int or start < 0 or end - start != size:
        raise EntryFormatError(MissReason.CORRUPT, f"tensor {name!r} has impossible offsets")
    return TensorSpec(name, dtype, tuple(shape), start, end)


def _order(dtype: torch.dtype, name: str) -> tuple[int, bytes]:
    """The payload's order: wide elements first, so that each tensor is aligned, then by name."""
    return -dtype.itemsize, name.encode("utf-8")


def _canonical(header: dict[str, Any]) -> bytes:
    """The one JSON text of a header, padded with spaces to whole 8 bytes."""
    text = json.dumps(header, sort_keys=True, separators=(",", ":"), allow_nan=False)
    padded = (8 + len(text) + 7) // 8 * 8 - 8
    return text.ljust(padded).encode("ascii")


def _read_and_digest(readinto: ReadInto, view: memoryview) -> str:
    """Fill `view` and return its SHA-256. A large payload is digested beside the reading of it."""
    sha = hashlib.sha256()
    if len(view) <= READ_BYTES:
        _fill(readinto, view)
        sha.update(view)
        return sha.hexdigest()
    with ThreadPoolExecutor(max_workers=1, thread_name_prefix="kamera-digest") as digester:
        for start in range(0, len(view), READ_BYTES):
            piece = view[start : start + READ_BYTES]
            _fill(readinto, piece)
            digester.submit(sha.update, piece)
    return sha.hexdigest()


def _fill(readinto: ReadInto, view: memoryview) -> None:
    done = 0
    while done < len(view):
        count = readinto(view[done:])
        if not count:
            raise EntryFormatError(MissReason.TRUNCATED, "the file ended while it was read")
        done += count
