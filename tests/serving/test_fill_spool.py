"""The spool `<store>/wanted`, as the connector writes it and as anyone else might."""

import json
import os
from pathlib import Path

import pytest

from kamera.engines.vllm.fill.wanted import Spool, Wanted


def write(store: Path, name: str, value: object, modified_at: float | None = None) -> Path:
    folder = store / "wanted"
    folder.mkdir(mode=0o700, exist_ok=True)
    path = folder / f"{name}.json"
    path.write_text(value if isinstance(value, str) else json.dumps(value))
    if modified_at is not None:
        os.utime(path, (modified_at, modified_at))
    return path


def text(*token_ids: int, salt: str | None = None) -> dict[str, object]:
    return {"version": 1, "kind": "text", "token_ids": list(token_ids), "cache_salt": salt}


def spool(store: Path) -> Spool:
    return Spool(store, retry_s=60.0, max_tries=3)


def test_no_folder_is_nothing_wanted(tmp_path: Path) -> None:
    found = spool(tmp_path)
    found.refresh()
    assert found.due(0.0) == []


def test_what_is_wanted_comes_oldest_first(tmp_path: Path) -> None:
    write(tmp_path, "young", text(1, 2), 200.0)
    write(
        tmp_path, "old", {"version": 1, "kind": "image", "mm_hash": "h", "cache_salt": "t"}, 100.0
    )
    found = spool(tmp_path)
    found.refresh()
    assert found.due(0.0) == [
        Wanted("old.json", "t", mm_hash="h"),
        Wanted("young.json", None, token_ids=(1, 2)),
    ]


def test_a_try_is_repeated_after_a_while_and_given_up_in_the_end(tmp_path: Path) -> None:
    write(tmp_path, "a", text(1))
    found = spool(tmp_path)
    found.refresh()
    (wanted,) = found.due(0.0)
    assert not found.tried(wanted, 0.0)
    assert found.due(59.0) == []
    assert found.due(60.0) == [wanted]
    assert found.tried(wanted, 60.0)
    assert found.tried(wanted, 120.0)
    assert found.due(1e9) == []
    assert (found.num_wanted, found.num_given_up) == (1, 1)


def test_a_file_that_is_gone_was_served_and_may_come_back(tmp_path: Path) -> None:
    path = write(tmp_path, "a", text(1))
    found = spool(tmp_path)
    found.refresh()
    for now in (0.0, 60.0, 120.0):
        found.tried(found.due(now)[0], now)
    path.unlink()
    found.refresh()
    assert (found.num_wanted, found.num_given_up) == (0, 0)
    write(tmp_path, "a", text(1))
    found.refresh()
    assert len(found.due(121.0)) == 1


@pytest.mark.parametrize(
    "value",
    [
        "",
        "{",
        "[" * 100_000,
        "[]",
        json.dumps({**text(1), "version": 2}),
        json.dumps({**text(1), "version": None}),
        json.dumps({**text(1), "cache_salt": 3}),
        json.dumps(text()),
        json.dumps({**text(1), "token_ids": [1, -1]}),
        json.dumps({**text(1), "token_ids": [1, 2**31]}),
        json.dumps({**text(1), "token_ids": [1, 1.5]}),
        json.dumps({**text(1), "token_ids": [True]}),
        json.dumps({**text(1), "token_ids": "12"}),
        json.dumps({"version": 1, "kind": "image", "mm_hash": None, "cache_salt": None}),
        json.dumps({"version": 1, "kind": "image", "mm_hash": "", "cache_salt": None}),
    ],
)
def test_a_file_that_is_not_valid_is_counted_and_not_read_again(tmp_path: Path, value: str) -> None:
    path = write(tmp_path, "bad", value)
    write(tmp_path, "good", text(1))
    found = spool(tmp_path)
    found.refresh()
    found.refresh()
    assert [wanted.name for wanted in found.due(0.0)] == ["good.json"]
    assert found.num_unreadable == 1
    path.unlink()
    found.refresh()
    assert found.num_unreadable == 0


def test_links_folders_and_unfinished_files_are_passed_over(tmp_path: Path) -> None:
    elsewhere = tmp_path / "elsewhere.json"
    elsewhere.write_text(json.dumps(text(1)))
    real = write(tmp_path, "real", text(2))
    (real.parent / "link.json").symlink_to(elsewhere)
    (real.parent / "folder.json").mkdir()
    (real.parent / ".hidden.json").write_text(json.dumps(text(3)))
    (real.parent / "tmpabc.tmp").write_text(json.dumps(text(4)))
    os.mkfifo(real.parent / "pipe.json")
    found = spool(tmp_path)
    found.refresh()
    assert [wanted.token_ids for wanted in found.due(0.0)] == [(2,)]


def test_a_file_that_is_too_large_is_not_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("kamera.engines.vllm.fill.wanted.MAX_FILE_BYTES", 100)
    write(tmp_path, "large", text(*range(1000)))
    write(tmp_path, "small", text(1))
    found = spool(tmp_path)
    found.refresh()
    assert [wanted.name for wanted in found.due(0.0)] == ["small.json"]
