"""One solo request through vLLM's own renderer and engine client (vLLM 0.32)."""

from __future__ import annotations

import uuid
from typing import Any

from kamera.engines.vllm.fill.companion import Sent
from kamera.engines.vllm.fill.source import ImageSource, Source, TextSource

LOWEST_PRIORITY = 2**31 - 1
"""Where the server schedules by priority, clients' requests (0 by default) go before solo ones."""


class VllmSender:
    """Sends solo requests of one chunk each, marked for the connector, with one token of output."""

    def __init__(self, engine_client: Any) -> None:
        self._engine = engine_client
        policy = engine_client.vllm_config.scheduler_config.policy
        self._priority = LOWEST_PRIORITY if policy == "priority" else 0

    @property
    def is_alive(self) -> bool:
        """False once the engine is gone for good."""
        return not self._engine.errored

    async def send(self, source: Source) -> Sent:
        """Render the chunk, generate one token, and wait for it. Cancelling it aborts the request."""
        engine_input = await rendered(self._engine.renderer, self._engine.model_config, source)
        answer = self._engine.generate(
            engine_input,
            solo_params(),
            f"kamera-solo-{uuid.uuid4().hex}",
            priority=self._priority,
        )
        async for _ in answer:
            pass
        hashes = (engine_input.get("mm_hashes") or {}).values()
        mm_hash = next((h for of_modality in hashes for h in of_modality), None)
        return Sent(len(engine_input["prompt_token_ids"]), mm_hash)


def solo_params() -> Any:
    """Sampling parameters of a solo request: one token, marked for the connector."""
    from vllm import SamplingParams

    return SamplingParams(
        max_tokens=1,
        temperature=0.0,
        detokenize=False,
        extra_args={"kv_transfer_params": {"kamera": "solo"}},
    )


async def rendered(renderer: Any, model_config: Any, source: Source) -> Any:
    """vLLM's engine input whose whole prompt is the one chunk: no start token, no turn's header.

    An image goes through the same parser, media connector, processor and processor cache as one in a
    chat request, with the model's own placeholder text; only the chat template is left out.
    """
    if isinstance(source, TextSource):
        prompt: dict[str, Any] = {"prompt_token_ids": list(source.token_ids)}
    else:
        prompt = await _image_prompt(model_config, source)
    if source.cache_salt is not None:
        prompt["cache_salt"] = source.cache_salt
    # A completion's default would put the start token in front.
    params = renderer.default_cmpl_tok_params.with_kwargs(add_special_tokens=False)
    (engine_input,) = await renderer.render_cmpl_async([prompt], params)
    return engine_input


async def _image_prompt(model_config: Any, source: ImageSource) -> dict[str, Any]:
    from vllm.multimodal.media.connector import merge_media_io_kwargs
    from vllm.renderers.chat_utils import AsyncMultiModalItemTracker

    media_io = merge_media_io_kwargs(
        model_config.multimodal_config.media_io_kwargs, _plain(source.media_io_kwargs)
    )
    tracker = AsyncMultiModalItemTracker(model_config, media_io_kwargs=media_io)
    parser = tracker.create_parser(_plain(source.mm_processor_kwargs))
    parser.parse_image(source.url)
    (placeholders,) = parser.mm_placeholder_storage().values()
    (marker,) = placeholders
    mm_data, mm_uuids = await tracker.resolve_items()
    prompt: dict[str, Any] = {
        "prompt": marker,
        "multi_modal_data": mm_data,
        "multi_modal_uuids": mm_uuids,
        "media_io_kwargs": media_io or {},
    }
    if source.mm_processor_kwargs:
        prompt["mm_processor_kwargs"] = dict(source.mm_processor_kwargs)
    return prompt


def _plain(kwargs: Any) -> dict[str, Any] | None:
    return dict(kwargs) if kwargs else None
