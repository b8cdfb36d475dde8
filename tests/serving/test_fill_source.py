"""Which images a body shows, and when two are the same."""

import json

import pytest
from fill_doubles import chat

from kamera.engines.vllm.fill.body import images_of
from kamera.engines.vllm.fill.source import ImageSource, TextSource


def test_images_come_in_the_order_of_the_messages_with_the_requests_salt() -> None:
    found = images_of(chat("data:a", "http://b", cache_salt="t1", mm_processor_kwargs={"k": 1}))
    assert [(image.url, image.cache_salt) for image in found] == [
        ("data:a", "t1"),
        ("http://b", "t1"),
    ]
    assert found[0].mm_processor_kwargs == {"k": 1}


def test_an_image_url_may_be_a_bare_string() -> None:
    part = {"type": "image_url", "image_url": "data:x"}
    body = json.dumps({"messages": [{"role": "user", "content": [part]}]}).encode()
    assert [image.url for image in images_of(body)] == ["data:x"]


@pytest.mark.parametrize(
    "body",
    [
        b"",
        b"image",
        b"\xff\xfeimage",
        b'["image_url"]',
        b'{"messages": "image_url"}',
        b'{"messages": [null, 3, {"content": "image_url"}]}',
        b'{"messages": [{"content": [null, "image_url", {"image_url": null}]}]}',
        b'{"messages": [{"content": [{"image_url": {"url": ["image"]}}, {"image_url": {}}]}]}',
        b'{"messages": [{"content": [{"type": "image_url", "image_url": {"url": ""}}]}]}',
        b'{"image": ' + b"[" * 100_000,
    ],
)
def test_a_body_that_shows_no_image_gives_none(body: bytes) -> None:
    assert images_of(body) == []


@pytest.mark.parametrize("asked", ["solo", {"reuse": False}])
def test_a_client_that_wants_no_reuse_fills_nothing(asked: object) -> None:
    assert images_of(chat("data:a", kv_transfer_params={"kamera": asked})) == []


@pytest.mark.parametrize("params", [None, [], {}, {"kamera": {"patch": "none"}}, {"other": "solo"}])
def test_other_parameters_of_a_transfer_change_nothing(params: object) -> None:
    assert len(images_of(chat("data:a", kv_transfer_params=params))) == 1


def test_a_text_alone_is_not_parsed(monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(_: object) -> None:
        raise AssertionError("parsed")

    monkeypatch.setattr(json, "loads", refuse)
    assert images_of(b'{"messages": [{"role": "user", "content": "hello"}]}') == []


@pytest.mark.parametrize(
    "other",
    [
        ImageSource("data:b"),
        ImageSource("data:a", cache_salt="t"),
        ImageSource("data:a", cache_salt=""),
        ImageSource("data:a", mm_processor_kwargs={"k": 1}),
        ImageSource("data:a", media_io_kwargs={"k": 1}),
        TextSource((1, 2)),
    ],
)
def test_a_source_that_differs_in_anything_has_another_digest(other: ImageSource) -> None:
    assert ImageSource("data:a").digest == ImageSource("data:a").digest
    assert ImageSource("data:a").digest != other.digest


def test_a_texts_digest_is_of_its_tokens_and_its_salt() -> None:
    digests = {
        TextSource(ids, salt).digest
        for ids in ((1, 2), (12,), (1, 2, 3))
        for salt in (None, "", "t")
    }
    assert len(digests) == 9


def test_a_lone_surrogate_in_a_url_is_no_error() -> None:
    assert len(ImageSource("data:\ud800").digest) == 64
