"""The specification names everything that the code writes, reads and answers."""

from pathlib import Path

import pytest

from kamera.identity.digests import MAX_TENANT_BYTES
from kamera.store import ENTRY_KINDS, MissReason, directory, file_format, index
from kamera.store.entry import DTYPE_NAMES, MAX_NAME_LEN

TEXT = (Path(__file__).parents[2] / "docs" / "file-format.md").read_text(encoding="utf-8")


@pytest.mark.parametrize(
    "word",
    [
        *(reason.value for reason in MissReason),
        *ENTRY_KINDS,
        *DTYPE_NAMES.values(),
        *file_format._METADATA_FIELDS,
        file_format.FORMAT_NAME,
        *file_format._PAYLOAD_DIGESTS,
        *(name for name, _ in file_format._PAYLOAD_DIGESTS.values()),
    ],
)
def test_the_specification_names(word: str) -> None:
    assert f"`{word}`" in TEXT


@pytest.mark.parametrize(
    "number",
    [
        file_format.MAX_HEADER_BYTES,
        index.MAX_REMEMBERED,
        MAX_TENANT_BYTES,
        MAX_NAME_LEN,
        file_format.MAX_DIMS,
        directory.MAX_QUARANTINED,
        directory.MAX_QUARANTINED_BYTES,
    ],
)
def test_the_specification_has_the_limits(number: int) -> None:
    assert f"{number:,}" in TEXT


@pytest.mark.parametrize("table", ["entries", "evicted", "pins", "totals"])
def test_the_specification_has_the_index_columns(table: str, tmp_path: Path) -> None:
    opened = index.Index(tmp_path / "index.sqlite")
    columns = [row[1] for row in opened._db.execute(f"PRAGMA table_info({table})")]
    opened.close()
    assert f"{table:<7} ({', '.join(columns)})" in TEXT
