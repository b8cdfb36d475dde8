"""`ServedModel`: what the connector needs to know of vLLM's model, or why it can't serve it."""

from __future__ import annotations

import json
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from kamera.engines.vllm.chunking import Wrapping
from kamera.engines.vllm.families import FAMILIES, EngineFamily
from kamera.engines.vllm.pool import Shapes
from kamera.engines.vllm.rotary import read_rotary
from kamera.engines.vllm.version import TESTED
from kamera.errors import KameraError, UnsupportedModelError
from kamera.identity import ModelKey, Shard, weights_digest
from kamera.rope import Rope
from kamera.support import examine


@dataclass(frozen=True)
class ServedModel:
    """A model that the connector serves, as this engine holds it.

    Attributes:
        family: how it writes its media.
        spec: its rotary scheme.
        shapes: what a token has in a layer of one worker.
        num_shards: workers that hold different KV: the tensor-parallel size, 1 for a replicated latent.
    """

    family: EngineFamily
    spec: Rope
    shapes: Shapes
    num_shards: int

    @classmethod
    def of(cls, vllm_config: Any, kv_cache_config: Any) -> ServedModel:
        """The engine's model.

        Raises:
            UnsupportedModelError: it can't be served; the message says why.
        """
        model = vllm_config.model_config
        _check_parallel(vllm_config.parallel_config)
        _check_cache(vllm_config, kv_cache_config)
        family = _family(model.hf_config)
        num_shards = 1 if model.use_mla else vllm_config.parallel_config.tensor_parallel_size
        return cls(family, read_rotary(vllm_config), _shapes(vllm_config), num_shards)

    def keys(self, vllm_config: Any, epoch: str = "") -> tuple[ModelKey, ...]:
        """The key of each shard. Reads every weight file once.

        `epoch` tells apart the KV of before and after a reset of the caches.
        """
        model = vllm_config.model_config
        layers = model.get_num_layers(vllm_config.parallel_config)
        layout: dict[str, Any] = {"kind": "mla" if model.use_mla else "attention"}
        layout |= {"num_layers": layers, **{n: list(s) for n, s in self.shapes.channels.items()}}
        key = ModelKey(
            model_id=epoch,
            model_type=self.family.model_type,
            weights_digest=weights_digest(_folder(model)),
            dtype=str(model.dtype).removeprefix("torch."),
            quantization=model.quantization,
            rope=self.spec.fingerprint(),
            layout=layout,
            shard=Shard(0, 1, 0, layers, 0, 1),
            adapter=None,
            numerics=f"vllm-{TESTED}/{vllm_config.device_config.device_type}",
        )
        return tuple(replace(key, shard=shard) for shard in self._shards(layers))

    def wrapping(self, vllm_config: Any) -> Wrapping:
        """The wrapper tokens as ids of this model's tokenizer."""
        config = vllm_config.model_config.hf_config
        family = self.family
        ids = _ids(vllm_config, (*family.before, *family.after))
        vision = getattr(config, "vision_config", None)
        return Wrapping(
            before=ids[: len(family.before)],
            after=ids[len(family.before) :],
            num_axes=self.spec.num_axes,
            placeholder=getattr(config, family.placeholder) if family.placeholder else None,
            merge=int(getattr(vision, "spatial_merge_size", 1)) if family.grid else 1,
        )

    def _shards(self, layers: int) -> list[Shard]:
        heads = next(iter(self.shapes.channels.values()))[0]
        return [
            Shard(rank, self.num_shards, 0, layers, rank * heads, (rank + 1) * heads)
            for rank in range(self.num_shards)
        ]


def _family(config: Any) -> EngineFamily:
    family = FAMILIES.get(config.model_type)
    verdict = examine(json.loads(json.dumps(config.to_dict(), default=str)))
    if verdict.status == "refused":
        raise UnsupportedModelError(
            "; ".join(f"{reason.what}: {reason.why}" for reason in verdict.reasons)
        )
    if family is None:
        raise UnsupportedModelError(
            f"model type {config.model_type!r} has no row in the connector's table: expected one of "
            f"{', '.join(sorted(FAMILIES))}"
        )
    return family


def _check_parallel(parallel: Any) -> None:
    for name in ("pipeline_parallel_size", "decode_context_parallel_size"):
        if getattr(parallel, name, 1) != 1:
            raise UnsupportedModelError(
                f"{name}={getattr(parallel, name)}: the connector serves tensor parallelism alone"
            )


def _check_cache(vllm_config: Any, kv_cache_config: Any) -> None:
    dtype = vllm_config.cache_config.cache_dtype
    if str(dtype) not in ("auto", str(vllm_config.model_config.dtype).removeprefix("torch.")):
        raise UnsupportedModelError(
            f"kv_cache_dtype={dtype}: keys that are quantised can't be rotated without another rounding; "
            "expected auto"
        )
    groups = kv_cache_config.kv_cache_groups
    if len(groups) != 1:
        raise UnsupportedModelError(
            f"the KV cache has {len(groups)} groups of layers of different kinds: expected one group"
        )
    spec = groups[0].kv_cache_spec
    if getattr(spec, "sliding_window", None) is not None or not hasattr(spec, "head_size"):
        raise UnsupportedModelError(
            f"layers of {type(spec).__name__} with a window: expected full attention in every layer"
        )
    found = len(groups[0].layer_names)
    expected = vllm_config.model_config.get_num_layers(vllm_config.parallel_config)
    if found != expected:
        raise UnsupportedModelError(
            f"the KV cache has {found} layers and the model {expected}: a draft model's KV can't be composed "
            "with it; expected no draft model, or one without KV of its own (ngram)"
        )


def _shapes(vllm_config: Any) -> Shapes:
    model, parallel = vllm_config.model_config, vllm_config.parallel_config
    if model.use_mla:
        text = model.hf_text_config
        return Shapes({"c_kv": (1, text.kv_lora_rank), "k_pe": (1, text.qk_rope_head_dim)})
    size = (model.get_num_kv_heads(parallel), model.get_head_size())
    return Shapes({"k": size, "v": size})


def _folder(model: Any) -> Path:
    """The checkpoint's folder: a path, or the local snapshot of a hub's."""
    folder = Path(model.model)
    if folder.is_dir():
        return folder
    from huggingface_hub import snapshot_download

    return Path(snapshot_download(model.model, revision=model.revision, local_files_only=True))


def _ids(vllm_config: Any, tokens: tuple[str, ...]) -> tuple[int, ...]:
    if not tokens:
        return ()
    from vllm.tokenizers import cached_tokenizer_from_config

    tokenizer = cached_tokenizer_from_config(vllm_config.model_config)
    ids: list[int] = []
    for token in tokens:
        found = tokenizer.encode(token, add_special_tokens=False)
        if len(found) != 1:
            raise KameraError(
                f"the tokenizer reads the wrapper {token!r} as {found}: expected one token"
            )
        ids += found
    return tuple(ids)
