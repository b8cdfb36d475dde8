"""An entry as bytes: one safetensors file that carries its own name, owner and digests.

Writing and reading are done here and not by the safetensors package, because a reader must check
names, sizes and digests before it allocates, and a writer must give the same bytes each time. Every
file is a valid safetensors file all the same. `docs/file-format.md` is the specification.
"""

import errno
import hashlib
import json
import re
from collections.abc import Callable
from typing import Any, NamedTuple, Protocol, runtime_checkable

import numpy as np
import numpy.typing as npt
import torch
import xxhash

from kamera.errors import ConfigError, FormatError
from kamera.identity.encoding import array_bytes
from kamera.store.contract import MissReason
from kamera.store.entry import DTYPE_NAMES, Entry, EntryKey, checked_fields
from kamera.store.pieces import PIECE_BYTES, ReadAt, ShortFileError, fill, read_pieces

__all__ = [
    "FORMAT_NAME",
    "FORMAT_VERSION",
    "MAX_HEADER_BYTES",
    "EntryFormatError",
    "Header",
    "check_payload",
    "encode_entry",
    "parse_header",
    "read_entry",
    "read_header",
]

FORMAT_NAME = "kamera-entry"
FORMAT_VERSION = "2"
MAX_HEADER_BYTES = 4 * 1024 * 1024
MAX_DIMS = 8
FIRST_BYTES = 4096
"""What is read at once of a file: nearly always its whole header."""
LINE_BYTES = 64
"""Of the processor's cache."""
_BLANK = "0" * 64
_BLANK_FIELD = f'"header_sha256":"{_BLANK}"'.encode()
_DTYPES = {name: dtype for dtype, name in DTYPE_NAMES.items()}
_METADATA_FIELDS = {
    "format",
    "format_version",
    "kind",
    "key",
    "model",
    "tenant",
    "attributes",
    "header_sha256",
}
_canonical_text = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False).encode


@runtime_checkable
class _Digester(Protocol):
    def update(self, data: Any, /) -> None: ...
    def hexdigest(self) -> str: ...


_PAYLOAD_DIGESTS: dict[str, tuple[str, Callable[[], _Digester]]] = {
    "1": ("payload_sha256", hashlib.sha256),
    "2": ("payload_xxh3_128", xxhash.xxh3_128),
}
"""By format version: the field of the payload's digest, and what computes it. 1 is only read."""
_FIELDS_OF = {
    version: frozenset({*_METADATA_FIELDS, field})
    for version, (field, _) in _PAYLOAD_DIGESTS.items()
}


class EntryFormatError(FormatError):
    """Bytes that aren't the entry that was looked for, with the reason of the miss to count."""

    def __init__(self, reason: MissReason, detail: str) -> None:
        super().__init__(detail)
        self.reason = reason
        self.inode: int | None = None  # of the file, once it is known


class TensorSpec(NamedTuple):
    """One tensor's place in the payload; `start` and `end` are bytes from the payload's start."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    start: int
    end: int


class Header(NamedTuple):
    """A header whose digest and whose tensor table were checked."""

    key: EntryKey
    model: str
    tenant: str | None
    attributes: dict[str, Any]
    format_version: str
    payload_digest: str
    specs: tuple[TensorSpec, ...]
    payload_start: int
    payload_bytes: int


def encode_entry(entry: Entry) -> list[bytes | memoryview]:
    """The file as buffers to be written in order. They alias the entry's tensors."""
    names = sorted(entry.tensors, key=lambda name: _order(entry.tensors[name].dtype, name))
    payload = [array_bytes(entry.tensors[name]) for name in names]
    digest_field, new_digester = _PAYLOAD_DIGESTS[FORMAT_VERSION]
    digester = new_digester()
    table: dict[str, object] = {}
    start = 0
    for name, data in zip(names, payload, strict=True):
        digester.update(data)
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
        digest_field: digester.hexdigest(),
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


def read_header(read_at: ReadAt, file_bytes: int) -> Header:
    """The checked header of a file of `file_bytes` bytes, read from its start.

    Allocates at most `MAX_HEADER_BYTES`. Raises `EntryFormatError`.
    """
    if file_bytes < 8:
        raise EntryFormatError(MissReason.TRUNCATED, f"{file_bytes} bytes, a header length needs 8")
    first = bytearray(min(file_bytes, FIRST_BYTES))
    _fill(read_at, memoryview(first), 0)
    header_bytes = int.from_bytes(first[:8], "little")
    if not 2 <= header_bytes <= MAX_HEADER_BYTES:
        raise EntryFormatError(
            MissReason.CORRUPT,
            f"header of {header_bytes} bytes, at most {MAX_HEADER_BYTES} allowed",
        )
    end = 8 + header_bytes
    if end > file_bytes:
        raise EntryFormatError(
            MissReason.TRUNCATED, f"header of {header_bytes} bytes in a file of {file_bytes}"
        )
    if end > len(first):
        rest = bytearray(end - len(first))
        _fill(read_at, memoryview(rest), len(first))
        first += rest
    return parse_header(bytes(first[8:end]), payload_bytes=file_bytes - end)


def read_entry(read_at: ReadAt, header: Header) -> Entry:
    """The entry behind `header`. Raises `EntryFormatError`.

    All tensors lie in one buffer, in huge pages where the system has them: that is what the
    payload is read into, and the only copy of it. Bytes are digested while they are read. `OSError`
    where the system can't read, or hasn't the memory.
    """
    raw = _memory_for(header)
    _, new_digester = _PAYLOAD_DIGESTS[header.format_version]
    digester = new_digester()
    try:
        read_pieces(read_at, raw.data, header.payload_start, digester.update)
    except ShortFileError as error:
        raise EntryFormatError(MissReason.TRUNCATED, str(error)) from None
    _compare(digester, header)
    tensors = {spec.name: _tensor(raw, spec) for spec in header.specs}
    return Entry.of_checked(header.key, header.model, header.tenant, tensors, header.attributes)


def check_payload(read_at: ReadAt, header: Header) -> None:
    """`read_entry` without the entry: a piece of the payload is held at a time. Raises as that does."""
    _, new_digester = _PAYLOAD_DIGESTS[header.format_version]
    digester = new_digester()
    memory = memoryview(bytearray(min(header.payload_bytes, PIECE_BYTES)))
    for start in range(0, header.payload_bytes, PIECE_BYTES):
        piece = memory[: header.payload_bytes - start]
        _fill(read_at, piece, header.payload_start + start)
        digester.update(piece)
    _compare(digester, header)


def _compare(digester: _Digester, header: Header) -> None:
    if digester.hexdigest() != header.payload_digest:
        field, _ = _PAYLOAD_DIGESTS[header.format_version]
        raise EntryFormatError(MissReason.CORRUPT, f"payload doesn't match its {field}")


def _memory_for(header: Header) -> npt.NDArray[np.uint8]:
    """Memory for the payload that lies to a cache line as the payload lies in its file.

    The system copies up to twice as fast then: it moves whole lines.
    """
    try:
        memory = np.empty(header.payload_bytes + LINE_BYTES - 1, dtype=np.uint8)
    except MemoryError as error:
        raise OSError(errno.ENOMEM, f"no memory for {header.payload_bytes} bytes") from error
    start = (header.payload_start - memory.__array_interface__["data"][0]) % LINE_BYTES
    return memory[start : start + header.payload_bytes]


def _tensor(raw: npt.NDArray[np.uint8], spec: TensorSpec) -> torch.Tensor:
    if spec.start == spec.end:  # torch can't look at no bytes
        return torch.empty(spec.shape, dtype=spec.dtype)
    num_elements = (spec.end - spec.start) // spec.dtype.itemsize
    flat = torch.frombuffer(raw, dtype=spec.dtype, count=num_elements, offset=spec.start)
    return flat.view(spec.shape)


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
    known = type(found[1]) is str and found[1] in _PAYLOAD_DIGESTS
    if found[0] != FORMAT_NAME or not known:
        if found[0] == FORMAT_NAME and _is_newer(found[1]):
            raise EntryFormatError(
                MissReason.NEWER,
                f"the file is of format version {found[1]}, newer than this Kamera, which reads up to "
                f"{FORMAT_VERSION}: a newer Kamera wrote it, and reads it",
            )
        raise EntryFormatError(
            MissReason.FOREIGN,
            f"format {found[0]!r:.40} {found[1]!r:.40}, expected {FORMAT_NAME} of version "
            f"{' or '.join(_PAYLOAD_DIGESTS)}",
        )
    try:
        return _checked_header(raw, parsed, metadata, payload_bytes)
    except EntryFormatError:
        raise
    except (ValueError, TypeError, KeyError, AttributeError, RecursionError) as error:
        detail = f"header has a wrong field ({type(error).__name__}: {error!s:.120})"
        raise EntryFormatError(MissReason.CORRUPT, detail) from None


def _is_newer(version: object) -> bool:
    return (
        type(version) is str
        and re.fullmatch(r"[1-9][0-9]{0,8}", version) is not None
        and int(version) > int(FORMAT_VERSION)
    )


def _checked_header(
    raw: bytes, parsed: dict[str, Any], metadata: dict[str, Any], payload_bytes: int
) -> Header:
    digest_field, _ = _PAYLOAD_DIGESTS[metadata["format_version"]]
    fields_fit = metadata.keys() == _FIELDS_OF[metadata["format_version"]]
    if not fields_fit or set(map(type, metadata.values())) != {str}:
        raise EntryFormatError(
            MissReason.CORRUPT, "header has other metadata fields than it should"
        )
    claimed = metadata["header_sha256"]
    if raw != _canonical(parsed):
        raise EntryFormatError(MissReason.CORRUPT, "header isn't in canonical form")
    # In canonical form the field stands once: inside a string its quotes would be escaped.
    blank = raw.replace(f'"header_sha256":"{claimed}"'.encode(), _BLANK_FIELD, 1)
    if len(claimed) != len(_BLANK) or hashlib.sha256(blank).hexdigest() != claimed:
        raise EntryFormatError(MissReason.CORRUPT, "header doesn't match its SHA-256")
    del parsed["__metadata__"]
    specs = [_spec(name, row) for name, row in parsed.items()]
    specs.sort(key=lambda spec: _order(spec.dtype, spec.name))
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
    names = [spec.name for spec in specs]
    tenant, attributes = json.loads(metadata["tenant"]), json.loads(metadata["attributes"])
    if not (tenant is None or type(tenant) is str) or type(attributes) is not dict:
        raise EntryFormatError(MissReason.CORRUPT, "tenant or attributes of a wrong type")
    return Header(
        key=EntryKey(metadata["kind"], metadata["key"]),
        model=metadata["model"],
        tenant=tenant,
        attributes=checked_fields(metadata["model"], tenant, names, attributes),
        format_version=metadata["format_version"],
        payload_digest=metadata[digest_field],
        specs=tuple(specs),
        payload_start=8 + len(raw),
        payload_bytes=payload_bytes,
    )


def _spec(name: str, row: dict[str, Any]) -> TensorSpec:
    """One row of the tensor table, with its sizes checked against each other."""
    dtype, shape, (start, end) = _DTYPES[row["dtype"]], row["shape"], row["data_offsets"]
    if row.keys() != {"dtype", "shape", "data_offsets"} or type(shape) is not list:
        raise EntryFormatError(
            MissReason.CORRUPT, f"tensor {name!r} has other fields than it should"
        )
    if len(shape) > MAX_DIMS or not all(type(n) is int and 0 <= n < 1 << 63 for n in shape):
        raise EntryFormatError(MissReason.CORRUPT, f"tensor {name!r} has an impossible shape")
    size = extent = dtype.itemsize
    for dim in shape:
        size *= dim
        extent *= dim or 1
    if extent >= 1 << 63:  # of an empty tensor too: torch couldn't make it
        raise EntryFormatError(MissReason.CORRUPT, f"tensor {name!r} has an impossible shape")
    if type(start) is not int or type(end) is not int or start < 0 or end - start != size:
        raise EntryFormatError(MissReason.CORRUPT, f"tensor {name!r} has impossible offsets")
    return TensorSpec(name, dtype, tuple(shape), start, end)


def _order(dtype: torch.dtype, name: str) -> tuple[int, bytes]:
    """The payload's order: wide elements first, so that each tensor is aligned, then by name."""
    return -dtype.itemsize, name.encode("utf-8")


def _canonical(header: dict[str, Any]) -> bytes:
    """The one JSON text of a header, padded with spaces to whole 8 bytes."""
    text = _canonical_text(header)
    padded = (8 + len(text) + 7) // 8 * 8 - 8
    return text.ljust(padded).encode("ascii")


def _fill(read_at: ReadAt, view: memoryview, offset: int) -> None:
    try:
        fill(read_at, view, offset)
    except ShortFileError as error:
        raise EntryFormatError(MissReason.TRUNCATED, str(error)) from None
