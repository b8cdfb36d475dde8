"""vLLM's requests read into chunks: what each shows, what it asks of us, and why one is left untouched."""

from __future__ import annotations

import contextlib
import logging
from collections.abc import Mapping, Sequence
from typing import Any

from torch import Tensor

from kamera.engines.vllm.chunking import Item, Run, Wrapping, identity_of
from kamera.engines.vllm.families import IMAGE_MODALITIES, EngineFamily
from kamera.engines.vllm.media_memo import MediaMemo
from kamera.engines.vllm.media_names import MediaNames
from kamera.engines.vllm.metadata import Owner
from kamera.engines.vllm.tracked import Tracked
from kamera.errors import ConfigError
from kamera.identity import ModelKey, digest

logger = logging.getLogger("vllm.kamera")

PARAMETER = "kamera"
"""The key of ours in a request's `kv_transfer_params`: "solo", or a mapping of OPTIONS."""
OPTIONS = ("reuse", "patch", "chunks")
TENANT_VERSION = 1
MAX_CHUNKS = 256
"""Most chunks of a request: each is named by all in front of it, so the work grows with the square."""


class RequestReader:
    """Reads requests to one served model. It remembers which media it has seen under which name."""

    def __init__(self, family: EngineFamily, wrapping: Wrapping, tenant: str | None) -> None:
        self.family, self.tenant = family, tenant
        self._wrapping = wrapping
        self._memo = MediaMemo()
        self._names = MediaNames()

    def read(self, request: Any, keys: Sequence[ModelKey]) -> Tracked:
        """Cut into chunks under each shard's key, or with the reason why it is left untouched."""
        models, tenant = tuple(key.digest for key in keys), self.tenant
        try:
            named_twice = self._named_twice(request)
            asked, tenant = _asked(request.kv_transfer_params), self._tenant_of(request.cache_salt)
            passed = _passed(request, asked) or named_twice
            runs = [] if passed else self._runs(request, asked)
            chunks = tuple(self._keyed(request, runs, key, tenant) for key in keys)
        except ConfigError as error:
            passed, runs, chunks = f"unsupported: {error}", [], ()
            logger.warning("Kamera: request %s is left untouched: %s", request.request_id, error)
        except Exception:  # an error here would end the engine, and every client's request with it
            passed, runs, chunks = "unsupported: it could not be read", [], ()
            logger.exception("Kamera: request %s is left untouched", request.request_id)
        owner = Owner(models, tenant)
        if not passed and not runs:
            passed = "no media"
        if passed:
            return Tracked(request, passed, owner)
        return Tracked(
            request,
            "",
            owner,
            chunks,
            ends=tuple(run.end for run in runs),
            hashes=tuple(_hash(request, run) for run in runs),
            salt=request.cache_salt,
            blind=asked.get("patch") == "none",
        )

    def _runs(self, request: Any, asked: Mapping[str, Any]) -> list[Run]:
        ids, items = request.prompt_token_ids, []
        for feature in sorted(request.mm_features, key=lambda f: f.mm_position.offset):
            if feature.modality not in IMAGE_MODALITIES:
                break  # what follows is the tail
            items.append(self._item(feature))
        whole = asked.get("solo") or asked.get("chunks")
        if whole and len(items) < len(request.mm_features):
            raise ConfigError("media other than images can't be part of a chunk")
        if not asked.get("solo"):
            return self._wrapping.cut(ids, items, asked.get("chunks", ()))[:MAX_CHUNKS]
        if len(items) > 1:
            raise ConfigError("a solo request shows one chunk: expected at most one image")
        return [Run(0, len(ids), items[0] if items else None)]

    def _named_twice(self, request: Any) -> str:
        """Why no item's KV can be trusted to be its own; "" when each name stands for one content.

        Looked at for every request, also one that is left untouched: it fills vLLM's caches, too.
        """
        found = ""
        for feature in request.mm_features:
            if feature.data is None:
                continue  # it is where vLLM put it when it was first seen
            content = f"unnamed {feature.modality}"
            if feature.modality in IMAGE_MODALITIES:
                with contextlib.suppress(ConfigError):
                    content = self._item(feature).identity.digest
            if not self._names.is_one(feature.identifier, content):
                found = "media name: the same uuid was given to two contents"
        return found

    def _item(self, feature: Any) -> Item:
        if feature.data is None:
            raise ConfigError(
                "the processed media isn't with the request, so its content can't be named"
            )
        place = feature.mm_position
        inputs = {
            name: field.data
            for name, field in feature.data.items()
            if isinstance(field.data, Tensor)
        }
        if len(inputs) < len(feature.data):
            raise ConfigError(
                "the processed media isn't all tensors, so its content can't be named"
            )
        identity = self._memo.get(feature.data, lambda: identity_of(inputs))
        grid = inputs[self.family.grid] if self.family.grid else None
        return Item(place.offset, place.length, identity, grid)

    def _keyed(
        self, request: Any, runs: Sequence[Run], key: ModelKey, tenant: str | None
    ) -> tuple[Any, ...]:
        ids = request.prompt_token_ids
        return tuple(self._wrapping.chunk(run, ids, key, tenant) for run in runs)

    def _tenant_of(self, salt: str | None) -> str | None:
        if salt is None:
            return self.tenant
        return digest("kamera.vllm.tenant", TENANT_VERSION, [self.tenant, salt])


def _asked(parameters: Any) -> dict[str, Any]:
    asked = parameters.get(PARAMETER) if isinstance(parameters, Mapping) else None
    if asked is None:
        return {}
    if asked == "solo":
        return {"solo": True}
    if not isinstance(asked, Mapping) or not set(asked) <= set(OPTIONS):
        raise ConfigError(
            f"kv_transfer_params['{PARAMETER}'] must be \"solo\" or hold some of {', '.join(OPTIONS)}, got "
            f"{asked!r:.80}"
        )
    if type(asked.get("reuse", True)) is not bool:
        raise ConfigError(f"reuse must be true or false, got {asked['reuse']!r:.80}")
    if asked.get("patch", "auto") not in ("auto", "none"):
        raise ConfigError(f'patch must be "auto" or "none", got {asked["patch"]!r:.80}')
    if not isinstance(asked.get("chunks", []), list):
        raise ConfigError(
            f"chunks must be a list of lengths in tokens, got {asked['chunks']!r:.80}"
        )
    return dict(asked)


def _passed(request: Any, asked: Mapping[str, Any]) -> str:
    """Why a request isn't looked at; "" when it is."""
    if asked.get("reuse", True) is not True:
        return "asked for without reuse"
    if request.lora_request is not None:
        return "LoRA: an adapter's weights aren't named by their content here"
    if request.prompt_embeds is not None or request.prompt_token_ids is None:
        return "prompt embeddings: there are no tokens to name"
    return ""


def _hash(request: Any, run: Run) -> str | None:
    if run.item is None:
        return None
    at = run.item.offset
    return next(
        (f.mm_hash or f.identifier for f in request.mm_features if f.mm_position.offset == at), None
    )
