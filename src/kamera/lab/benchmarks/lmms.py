"""Kamera as a model of lmms-eval: `--model kamera`.

lmms-eval stands beside Kamera in an environment of its own (docs/lab/benchmarks.md says which).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from lmms_eval.api.model import lmms
from loguru import logger
from PIL import Image

from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.lab.benchmarks.contract import BenchmarkItem, Part
from kamera.lab.benchmarks.media import Film, ImageFile, LoadedImage
from kamera.lab.benchmarks.window import Shown, request_of
from kamera.session import Session, SessionSettings
from kamera.store import open_store

MAX_NEW_TOKENS = 16
"""Where a task doesn't say."""


class Kamera(lmms):
    """Greedy answers from a session, or from a plain prefill to compare with.

    Args:
        pretrained: a local checkpoint's folder.
        arm: `kamera`, or `re-prefill`.
        store: a folder, so that a later run finds what this one stored; None for memory.
        rank: of the patches; None for the session's default.
        num_frames: of a video; each is an image chunk.
    """

    is_simple = False

    def __init__(
        self,
        pretrained: str,
        arm: str = "kamera",
        store: str | None = None,
        rank: int | None = None,
        num_frames: int = 8,
        dtype: str = "auto",
        device: str | None = None,
        batch_size: int | str | None = 1,
        max_batch_size: int | None = None,
    ) -> None:
        super().__init__()
        if arm not in ("kamera", "re-prefill"):
            raise ConfigError(f"Invalid arm: expected kamera or re-prefill, got {arm!r}")
        if str(batch_size) != "1" or max_batch_size not in (None, 1):
            raise ConfigError(f"Invalid batch_size: expected 1, got {batch_size!r}")
        self.arm, self.num_frames = arm, num_frames
        self.engine = HFEngine.from_pretrained(pretrained, dtype=dtype, device=device or "cpu")
        self.store = open_store(store)
        self.settings = SessionSettings.of({} if rank is None else {"rank": rank})
        self.num_prefilled = self.num_shown = 0

    def generate_until(self, requests: Sequence[Any]) -> list[str]:
        """One answer a request, in their order."""
        answers = [self._answer(*request.args) for request in requests]
        logger.info(f"{self.arm}: {self.num_prefilled} of {self.num_shown} tokens prefilled")
        return answers

    def generate_until_multi_round(self, requests: Sequence[Any]) -> list[str]:
        """Not offered."""
        raise NotImplementedError("Kamera answers one round: choose a task of type generate_until")

    def loglikelihood(self, requests: Sequence[Any]) -> list[tuple[float, bool]]:
        """Not offered."""
        raise NotImplementedError("Kamera generates: choose a task of type generate_until")

    def _answer(
        self,
        _context: str,
        doc_to_messages: Any,
        wanted: Mapping[str, Any],
        doc_id: int,
        task: str,
        split: str,
    ) -> str:
        messages = doc_to_messages(self.task_dict[task][split][doc_id])
        item = item_of(messages, f"{task} {doc_id}", self.num_frames)
        if wanted.get("do_sample") and wanted.get("temperature", 1.0) > 0:
            raise ConfigError(
                f"{task} samples: Kamera decodes greedily. Pass --gen_kwargs do_sample=False"
            )
        text = self._generate(item, int(wanted.get("max_new_tokens") or MAX_NEW_TOKENS))
        until = wanted.get("until") or []
        for stop in [until] if isinstance(until, str) else until:
            text = text.partition(stop)[0] if stop else text
        return text.strip()

    def _generate(self, item: BenchmarkItem, max_new_tokens: int) -> str:
        request = request_of(self.engine, item, Shown())
        self.num_shown += sum(chunk.num_tokens for chunk in request.cached)
        if self.arm == "re-prefill":
            media = [chunk for chunk in request.cached if chunk.media is not None]
            vision = {c.media.digest: self.engine.see(c) for c in media if c.media is not None}
            context = self.engine.prefill(request.cached, vision, start=0).kv
            self.num_prefilled += sum(chunk.num_tokens for chunk in request.cached)
            return self.engine.generate(
                request.tail,
                start=request.tail_start,
                context=context,
                max_new_tokens=max_new_tokens,
            ).text
        # A session for each request: the store is what they share, so that nothing else piles up.
        session = Session(self.engine, self.store, self.settings)
        self.num_prefilled += session.show(request.chunks).num_prefilled
        return session.generate(request.tail, max_new_tokens=max_new_tokens).text


def item_of(messages: Sequence[Mapping[str, Any]], name: str, num_frames: int) -> BenchmarkItem:
    """A chat request of one user turn as parts and a question.

    Raises:
        ConfigError: other turns, a kind of content that isn't text, image or video, or no text behind
            the media.
    """
    if [message["role"] for message in messages] != ["user"]:
        raise ConfigError(
            f"{name}: expected one user message, got {[message['role'] for message in messages]}"
        )
    parts = [_part(content, name, num_frames) for content in messages[0]["content"]]
    if not parts or not isinstance(parts[-1], str):
        raise ConfigError(f"{name}: expected a question behind the images, got none")
    return BenchmarkItem(name, "all", tuple(parts[:-1]), parts[-1], (), ("",), "")


def _part(content: Mapping[str, Any], name: str, num_frames: int) -> Part:
    kind = content["type"]
    if kind == "text":
        return str(content["text"])
    if kind == "image":
        image = content["url"]
        return LoadedImage(image) if isinstance(image, Image.Image) else ImageFile(Path(image))
    if kind == "video":
        return Film(Path(content["url"]), num_frames)
    raise ConfigError(f"{name}: expected text, image or video, got {kind!r}")
