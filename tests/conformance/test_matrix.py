"""The conformance matrix: one test a model and dtype, every check inside; any that isn't ok is named."""

import pytest

from kamera.lab.conformance.entry import Entry, entries
from kamera.lab.conformance.matrix import DTYPES, rows_of

ENTRIES = entries()


@pytest.mark.parametrize("dtype", DTYPES)
@pytest.mark.parametrize("entry", ENTRIES, ids=[entry.name for entry in ENTRIES])
def test_every_check_is_within_its_bound(entry: Entry, dtype: str) -> None:
    rows = list(rows_of(entry, dtype))
    assert len(rows) > 15
    assert [row.to_dict() for row in rows if not row.outcome.ok] == []
