"""Settings, the spool, what waits, and the memo of media."""

import gc
import json
from types import SimpleNamespace

import pytest
import torch
from connector_doubles import FakeModel, Media, drawn

from kamera.chunk import Chunk
from kamera.engines.vllm.chunking import identity_of
from kamera.engines.vllm.media_memo import MediaMemo
from kamera.engines.vllm.media_names import MediaNames
from kamera.engines.vllm.model import _check_cache
from kamera.engines.vllm.settings import ConnectorSettings
from kamera.engines.vllm.spool import Spool
from kamera.engines.vllm.waiting import Conditioned, Waiting
from kamera.errors import ConfigError, UnsupportedModelError
from kamera.identity import ChunkKey
from kamera.library import Library
from kamera.positions import text_layout
from kamera.store import MemoryStore

KEY = FakeModel().keys(None)[0]


def text(*ids: int) -> Chunk:
    return Chunk(ChunkKey(KEY, None, "text", ids), text_layout(len(ids), 3))


@pytest.mark.parametrize(
    ("values", "message"),
    [
        ({"rnak": 8}, "did you mean 'rank'"),
        ({"rank": 0}, "Invalid rank"),
        ({"rank": True}, "Invalid rank"),
        ({"fill": "lazy"}, "Invalid fill"),
        ({"store": ""}, "Invalid store"),
        ({"min_tokens": 0}, "Invalid min_tokens"),
    ],
)
def test_settings_that_cant_be_right_are_refused(values, message):
    with pytest.raises(ConfigError, match=message):
        ConnectorSettings.of(values)


def test_the_spool_says_what_is_wanted_until_it_is_there(tmp_path):
    spool = Spool(tmp_path / "store")
    chunk = text(1, 2, 3)
    spool.ask(chunk, "salt", None)
    spool.ask(chunk, "salt", None)
    (path,) = spool.folder.iterdir()
    assert path.name == f"{chunk.digest}.json"
    assert json.loads(path.read_text()) == {
        "version": 1, "kind": "text", "token_ids": [1, 2, 3], "cache_salt": "salt",
    }  # fmt: skip
    assert spool.folder.stat().st_mode & 0o777 == 0o700
    Spool(tmp_path / "store").done(chunk.digest)  # another start of the server knows it too
    assert list(spool.folder.iterdir()) == []


def test_a_canonical_that_comes_isnt_asked_for_until_it_should_be_there(tmp_path, monkeypatch):
    spool = Spool(tmp_path)
    spool.ask(text(1), None, None)
    spool.coming(text(1).digest)
    spool.ask(text(1), None, None)
    assert list(spool.folder.iterdir()) == []
    monkeypatch.setattr("kamera.engines.vllm.spool.COMING_S", 0.0)
    spool.ask(text(1), None, None)
    assert len(list(spool.folder.iterdir())) == 1


def test_the_spool_is_bounded_and_a_failing_disk_is_no_error(tmp_path, monkeypatch):
    monkeypatch.setattr("kamera.engines.vllm.spool.MAX_FILES", 2)
    spool = Spool(tmp_path)
    for i in range(4):
        spool.ask(text(i), None, None)
    assert {p.stem for p in spool.folder.iterdir()} == {text(2).digest, text(3).digest}
    monkeypatch.setattr("kamera.engines.vllm.spool.MAX_FILES", 9)
    spool.folder.rename(tmp_path / "gone")
    spool.ask(text(77), None, None)


def test_what_waits_is_bounded_the_oldest_leave():
    library = Library(MemoryStore(1 << 20), KEY.digest, None, 8)
    kv = drawn(4)
    waiting = Waiting(max_bytes=2 * kv.num_bytes)
    chunks = [text(i) for i in range(3)]
    dropped = [waiting.add(Conditioned(library, chunk, (), "", kv)) for chunk in chunks]
    assert dropped == [0, 0, 1]
    assert waiting.take(chunks[0].digest) == []
    assert [one.chunk for one in waiting.take(chunks[2].digest)] == [chunks[2]]
    assert waiting.num_bytes == kv.num_bytes
    waiting.clear()
    assert waiting.num_bytes == 0


def test_the_memo_knows_objects_not_values():
    memo, made = MediaMemo(), []

    def make():
        made.append(identity_of({"pixel_values": torch.ones(3)}))
        return made[-1]

    first, second = Media(), Media()
    assert memo.get(first, make) is memo.get(first, make)
    assert memo.get(second, make) is not memo.get(first, make)
    assert len(made) == 2
    del first, second
    gc.collect()
    assert len(memo) == 0


def test_a_draft_models_layers_are_refused():
    """They stand among the model's own in the cache, and aren't rotated as these are."""
    spec = SimpleNamespace(head_size=8, sliding_window=None)
    config = SimpleNamespace(
        cache_config=SimpleNamespace(cache_dtype="auto"),
        model_config=SimpleNamespace(dtype=torch.float32, get_num_layers=lambda parallel: 2),
        parallel_config=None,
    )

    def cache(*names: str) -> SimpleNamespace:
        group = SimpleNamespace(kv_cache_spec=spec, layer_names=list(names))
        return SimpleNamespace(kv_cache_groups=[group])

    _check_cache(config, cache("a", "b"))
    with pytest.raises(UnsupportedModelError, match="draft model"):
        _check_cache(config, cache("a", "b", "drafted"))


def test_a_media_name_is_of_one_content_for_good(monkeypatch):
    monkeypatch.setattr("kamera.engines.vllm.media_names.MAX_NAMES", 2)
    names = MediaNames()
    assert [names.is_one("x", content) for content in ("a", "a", "b", "a")] == [
        True,
        True,
        False,
        False,
    ]
    assert names.is_one("y", "a")
    assert names.is_one("z", "a")
    assert names.is_one("x", "c")  # forgotten: the oldest leave
