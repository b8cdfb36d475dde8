"""The bytes of an entry's file, and what a reader makes of hostile ones."""

import hashlib
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import safetensors
import safetensors.torch
import torch
from hypothesis import given
from hypothesis import strategies as st
from xxhash import xxh3_128_hexdigest

from kamera.errors import ConfigError
from kamera.store import DiskStore, Entry, EntryKey, Miss, MissReason
from kamera.store.file_format import (
    MAX_HEADER_BYTES,
    EntryFormatError,
    encode_entry,
    parse_header,
    read_entry,
    read_header,
)

MODEL = "a" * 64
KEY = EntryKey("patch", "b" * 64)
ENTRY = Entry(
    key=KEY,
    model=MODEL,
    tenant="acme",
    tensors={
        "u": torch.tensor([[1.0, -2.0]], dtype=torch.bfloat16),
        "scale": torch.tensor(0.5),
        "mask": torch.tensor([True]),
    },
    attributes={"rank": 1, "antecedents": ["c", None]},
)
FILE = b"".join(encode_entry(ENTRY))
HEADER_BYTES = int.from_bytes(FILE[:8], "little")
HEADER, PAYLOAD = FILE[8 : 8 + HEADER_BYTES], FILE[8 + HEADER_BYTES :]


def read(data: bytes) -> Entry:
    def read_at(view: memoryview, offset: int) -> int:
        part = data[offset : offset + len(view)]
        view[: len(part)] = part
        return len(part)

    return read_entry(read_at, read_header(read_at, len(data)))


def forge(change: Callable[[dict[str, Any]], None], payload: bytes = PAYLOAD) -> bytes:
    """The file with a changed header, its digests made good again: only its sense is wrong."""
    header = json.loads(HEADER)
    header["__metadata__"]["header_sha256"] = "0" * 64
    change(header)
    text = json.dumps(header, sort_keys=True, separators=(",", ":"))
    raw = text.ljust((len(text) + 7) // 8 * 8).encode()
    if "header_sha256" in header.get("__metadata__", {}):
        header["__metadata__"]["header_sha256"] = hashlib.sha256(raw).hexdigest()
    text = json.dumps(header, sort_keys=True, separators=(",", ":"))
    raw = text.ljust((len(text) + 7) // 8 * 8).encode()
    return len(raw).to_bytes(8, "little") + raw + payload


def golden_header(version: str, payload_digest: str, header_sha256: str) -> str:
    return (
        '{"__metadata__":{"attributes":"{\\"antecedents\\":[\\"c\\",null],\\"rank\\":1}",'
        f'"format":"kamera-entry","format_version":"{version}",'
        f'"header_sha256":"{header_sha256}",'
        f'"key":"{"b" * 64}","kind":"patch","model":"{MODEL}",{payload_digest},'
        '"tenant":"\\"acme\\""},'
        '"mask":{"data_offsets":[8,9],"dtype":"BOOL","shape":[1]},'
        '"scale":{"data_offsets":[0,4],"dtype":"F32","shape":[]},'
        '"u":{"data_offsets":[4,8],"dtype":"BF16","shape":[1,2]}}'
    )


def test_golden_header() -> None:
    text = golden_header(
        "2",
        '"payload_xxh3_128":"09439c128c8c06c64a5021fe0b42948f"',
        "ba7adce9b6834fd855c9d8d41f4980f35abd63642c8ad9ef797a48b94e11e67a",
    )
    assert HEADER.decode().rstrip(" ") == text
    assert len(HEADER) % 8 == 0
    assert len(HEADER) - len(text) < 8


def old_file() -> bytes:
    """The same entry as version 1 wrote it, with a SHA-256 of the payload."""
    text = golden_header(
        "1",
        '"payload_sha256":"e4e2ff7993cf036893f3c9de5b8fb2fb617d9f22ce7b8b49a2fa7e482b3d7eac"',
        "a666197c7cc125af6f40ecdd0b4933c339e000e48fc71220f4bf7d0af5f14f45",
    )
    raw = text.ljust((len(text) + 7) // 8 * 8).encode()
    return len(raw).to_bytes(8, "little") + raw + PAYLOAD


def test_a_file_of_version_1_is_read_and_verified() -> None:
    entry = read(old_file())
    assert (entry.key, entry.model, entry.attributes) == (KEY, MODEL, ENTRY.attributes)
    for name, tensor in ENTRY.tensors.items():
        assert torch.equal(entry.tensors[name], tensor)
    for position in range(len(old_file())):
        data = bytearray(old_file())
        data[position] ^= 1 << position % 8
        with pytest.raises(EntryFormatError):
            read(bytes(data))


@pytest.mark.parametrize("field", ["payload_sha256", "payload_xxh3_128"])
def test_a_version_with_the_others_digest_is_refused(field: str) -> None:
    """Neither digest is taken in the other's place, and there are never two of them."""

    def swap(header: dict[str, Any]) -> None:
        header["__metadata__"]["format_version"] = "1" if field == "payload_xxh3_128" else "2"
        header["__metadata__"][field] = header["__metadata__"].pop("payload_xxh3_128")

    with pytest.raises(EntryFormatError) as caught:
        read(forge(swap))
    assert caught.value.reason is MissReason.CORRUPT


def test_golden_payload() -> None:
    assert PAYLOAD.hex() == "0000003f" "803f00c0" "01"  # fmt: skip
    assert (
        hashlib.sha256(FILE).hexdigest()
        == "71d8253468914ee11f6d7b8475bbbe4300b64c9f1225b48d4865d794c6d643a7"
    )


def test_the_same_entry_has_the_same_bytes_in_any_order_of_its_dicts() -> None:
    backwards = Entry(
        key=KEY,
        model=MODEL,
        tenant="acme",
        tensors=dict(reversed(ENTRY.tensors.items())),
        attributes=dict(reversed(ENTRY.attributes.items())),
    )
    assert b"".join(encode_entry(backwards)) == FILE


def test_an_entry_of_empty_tensors_alone_comes_back() -> None:
    # Such is a patch whose budget has room for no direction at all.
    tensors = {
        "k.u": torch.empty(0, dtype=torch.int8),
        "k.scale": torch.empty(0),
        "v": torch.empty(2, 0, 3),
    }
    entry = Entry(EntryKey("patch", "b" * 64), "a" * 64, None, tensors, {})
    back = read(b"".join(encode_entry(entry)))
    assert {name: (t.dtype, t.shape) for name, t in back.tensors.items()} == {
        name: (t.dtype, t.shape) for name, t in tensors.items()
    }


def test_the_safetensors_package_reads_our_files(tmp_path: Path) -> None:
    path = tmp_path / "entry.safetensors"
    path.write_bytes(FILE)
    with safetensors.safe_open(path, framework="pt") as file:
        assert file.metadata()["format"] == "kamera-entry"
        for name, tensor in ENTRY.tensors.items():
            assert torch.equal(file.get_tensor(name), tensor)


def test_tensors_are_aligned_for_their_dtype() -> None:
    for tensor in read(FILE).tensors.values():
        assert tensor.data_ptr() % tensor.element_size() == 0


def test_forging_nothing_gives_the_file_back() -> None:
    assert forge(lambda header: None) == FILE


@pytest.mark.parametrize("length", [*range(12), len(FILE) - len(PAYLOAD) - 1, len(FILE) - 1])
def test_a_shorter_file_is_truncated(length: int) -> None:
    with pytest.raises(EntryFormatError) as caught:
        read(FILE[:length])
    assert caught.value.reason is MissReason.TRUNCATED


def test_a_flipped_bit_in_any_byte_is_found() -> None:
    for position in range(len(FILE)):
        data = bytearray(FILE)
        data[position] ^= 1 << position % 8
        with pytest.raises(EntryFormatError):
            read(bytes(data))


@given(st.binary(max_size=200))
def test_any_bytes_are_refused_in_one_way(data: bytes) -> None:
    with pytest.raises(EntryFormatError):
        read(data)
    with pytest.raises(EntryFormatError):
        read(len(data).to_bytes(8, "little") + data)


JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=4),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3)
    ),
    max_leaves=5,
)


@given(st.sampled_from(["format", "kind", "key", "model", "tenant", "attributes"]), JSON)
def test_any_wrong_field_is_refused_in_one_way(field: str, value: Any) -> None:
    with pytest.raises(EntryFormatError):
        read(forge(lambda header: header["__metadata__"].update({field: value, "x": ""})))
    with pytest.raises(EntryFormatError):
        read(forge(lambda header: header["u"].update({"shape": value})))
    with pytest.raises(EntryFormatError):
        read(forge(lambda header: header["u"].update({"data_offsets": value})))


def test_a_deeply_nested_header_is_refused() -> None:
    with pytest.raises(EntryFormatError):
        parse_header(b"[" * 100_000, 0)


def test_a_header_that_would_be_too_large_is_refused() -> None:
    attributes = {"text": "x" * MAX_HEADER_BYTES}
    with pytest.raises(ConfigError, match="header is too large"):
        encode_entry(Entry(KEY, MODEL, None, {}, attributes))


def offsets(name: str, start: int, end: int) -> Callable[[dict[str, Any]], None]:
    return lambda header: header[name].update(data_offsets=[start, end])


def metadata(**changes: Any) -> Callable[[dict[str, Any]], None]:
    return lambda header: header["__metadata__"].update(changes)


SMALLER = PAYLOAD[:4] + PAYLOAD[8:]
OTHER_ENTRY = b"".join(
    encode_entry(Entry(EntryKey("patch", "d" * 64), MODEL, "acme", ENTRY.tensors, {}))
)
HOSTILE: dict[str, tuple[bytes, MissReason]] = {
    "empty": (b"", MissReason.TRUNCATED),
    "cut in the length": (FILE[:5], MissReason.TRUNCATED),
    "cut in the header": (FILE[:100], MissReason.TRUNCATED),
    "cut before the payload": (FILE[: -len(PAYLOAD)], MissReason.TRUNCATED),
    "cut in the payload": (FILE[:-1], MissReason.TRUNCATED),
    "bytes behind the payload": (FILE + b"\0", MissReason.CORRUPT),
    "bit flipped in the payload": (FILE[:-1] + b"\0", MissReason.CORRUPT),
    "bit flipped in the header": (FILE.replace(b"rank", b"rbnk"), MissReason.CORRUPT),
    "giant header length": (b"\xff" * 8 + FILE[8:], MissReason.CORRUPT),
    "header length of zero": (bytes(8) + FILE[8:], MissReason.CORRUPT),
    "zeros": (bytes(4096), MissReason.CORRUPT),
    "not JSON": (FILE[:8] + b"x" * (len(FILE) - 8), MissReason.CORRUPT),
    "plain safetensors": (safetensors.torch.save(ENTRY.tensors), MissReason.FOREIGN),
    "wrong magic": (forge(metadata(format="other-entry")), MissReason.FOREIGN),
    "other version": (forge(metadata(format_version="0")), MissReason.FOREIGN),
    "another entry's file": (OTHER_ENTRY, MissReason.FOREIGN),
    "another kind": (forge(metadata(kind="canonical")), MissReason.FOREIGN),
    "unknown kind": (forge(metadata(kind="exact")), MissReason.CORRUPT),
    "model isn't a digest": (forge(metadata(model="nano")), MissReason.CORRUPT),
    "tenant is a number": (forge(metadata(tenant="3")), MissReason.CORRUPT),
    "attributes aren't JSON": (forge(metadata(attributes="{'a': 1}")), MissReason.CORRUPT),
    "attributes are a list": (forge(metadata(attributes="[1]")), MissReason.CORRUPT),
    "attributes nest": (forge(metadata(attributes='{"a":{"b":1}}')), MissReason.CORRUPT),
    "attributes have NaN": (forge(metadata(attributes='{"a":NaN}')), MissReason.CORRUPT),
    "extra metadata": (forge(metadata(note="x")), MissReason.CORRUPT),
    "no metadata": (forge(lambda header: header.pop("__metadata__")), MissReason.FOREIGN),
    "offsets overlap": (forge(offsets("u", 2, 6)), MissReason.CORRUPT),
    "offsets leave a gap": (forge(offsets("mask", 9, 10), PAYLOAD + b"\0"), MissReason.CORRUPT),
    "offsets out of bounds": (
        forge(
            lambda header: header["mask"].update(shape=[1 << 40], data_offsets=[8, 8 + (1 << 40)])
        ),
        MissReason.TRUNCATED,
    ),
    "offsets backwards": (forge(offsets("u", 8, 4)), MissReason.CORRUPT),
    "shape isn't its bytes": (
        forge(lambda header: header["u"].update(shape=[3])),
        MissReason.CORRUPT,
    ),
    "negative shape": (
        forge(lambda header: header["u"].update(shape=[-1, -2])),
        MissReason.CORRUPT,
    ),
    "an empty tensor that can't be": (
        forge(
            lambda header: (
                header["u"].update(shape=[0, 1 << 62, 1 << 62], data_offsets=[4, 4]),
                header["mask"].update(data_offsets=[4, 5]),
                header["__metadata__"].update(payload_xxh3_128=xxh3_128_hexdigest(SMALLER)),
            ),
            SMALLER,
        ),
        MissReason.CORRUPT,
    ),
    "unknown dtype": (
        forge(lambda header: header["u"].update(dtype="F4")),
        MissReason.CORRUPT,
    ),
    "spaces in the JSON": (
        FILE[:8] + HEADER.rstrip(b" ").replace(b":", b": ", 1).ljust(HEADER_BYTES) + PAYLOAD,
        MissReason.CORRUPT,
    ),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_a_hostile_file_is_a_counted_miss_and_the_store_goes_on(name: str, tmp_path: Path) -> None:
    data, reason = HOSTILE[name]
    with DiskStore(tmp_path / "store", 1 << 20) as store:
        assert store.put(ENTRY)
        [path] = (tmp_path / "store" / "entries").glob("*/*")
        path.write_bytes(data)
        report = store.verify()
        assert [problem.reason for problem in report.problems] == [reason]
        found = store.get(KEY, model=MODEL, tenant="acme")
        assert isinstance(found, Miss)
        assert (found.reason, store.stats().misses[reason]) == (reason, 1)
        [aside] = (tmp_path / "store" / "quarantine").iterdir()
        assert aside.read_bytes() == data
        assert store.stats().quarantined == 1
        again = store.get(KEY, model=MODEL, tenant="acme")
        assert isinstance(again, Miss)
        assert again.reason is MissReason.UNKNOWN
        store.check_integrity()
        assert store.put(ENTRY)
        assert store.get(KEY, model=MODEL, tenant="acme")
