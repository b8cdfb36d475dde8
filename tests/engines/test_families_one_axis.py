"""Every family with one position axis, tiny and random, against plain Transformers forwards.

Truth is the same model's own forward in float64; float32's own error against it is the bound.
"""

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
from checkpoints import IMAGES, ONE_AXIS, build
from hf_reference import relative
from torch import Tensor

from kamera.channels import ChunkKV, concat
from kamera.chunk import Chunk
from kamera.engines.hf import HFEngine
from kamera.engines.hf import cache as kv_cache

FAMILIES = list(ONE_AXIS)
Engines = Callable[..., HFEngine]
SIZES = [(84, 56), (60, 130)]


@pytest.fixture(scope="module")
def engines(tmp_path_factory: pytest.TempPathFactory) -> Engines:
    """An engine by family and dtype, made once."""
    made: dict[tuple[str, str], HFEngine] = {}
    root = tmp_path_factory.mktemp("one-axis")

    def load(name: str, dtype: str = "float32") -> HFEngine:
        if (name, dtype) not in made:
            folder: Path = root / name
            made[name, dtype] = engine = HFEngine.from_pretrained(
                folder if folder.is_dir() else build(name, folder), dtype=dtype
            )
            if dtype == "float64":  # torch's grouped product of experts has no float64
                engine.model.set_experts_implementation("eager")
        return made[name, dtype]

    return load


def chunks_of(engine: HFEngine, picture: Any, seed: int = 0) -> list[Chunk]:
    """Text, image, text, image, text; a text model has text where the images are. Over 40 tokens."""
    texts = ["what color is the shape? It isn't the ", " and beside it", " where is the ball?"]
    parts = [engine.text_chunk(text) for text in texts]
    if engine.family.modalities:
        media = [engine.image_chunk(picture(seed + i, *size)) for i, size in enumerate(SIZES)]
    else:
        media = [engine.text_chunk(f"{seed} a plain span of text"), engine.text_chunk(f"{seed}!")]
    return [parts[0], media[0], parts[1], media[1], parts[2]]


def see(engine: HFEngine, chunks: list[Chunk]) -> dict[str, Tensor]:
    return {c.media.digest: engine.see(c) for c in chunks if c.media is not None}


def model_inputs(
    engine: HFEngine, chunks: list[Chunk], picture: Any, seed: int = 0
) -> dict[str, Any]:
    """What the family's own processor would give the model for the whole prompt."""
    ids = torch.tensor([[i for chunk in chunks for i in chunk.key.token_ids]])
    inputs: dict[str, Any] = {"input_ids": ids, "attention_mask": torch.ones_like(ids)}
    if not engine.family.modalities:
        return inputs
    pictures = [picture(seed + i, *size) for i, size in enumerate(SIZES)]
    nested = [pictures] if engine.family.model_type in ("smolvlm", "idefics3") else pictures
    modality = engine.family.modalities[0]
    out = engine.processors["image"](images=nested, return_tensors="pt", **modality.options)
    unused = {"rows", "cols", "num_patches", "num_crops", "batch_num_images"}
    inputs |= {name: value for name, value in out.items() if name not in unused}
    if engine.family.model_type == "gemma3":
        inputs["token_type_ids"] = (ids == engine.model.config.image_token_id).long()
    return inputs


@torch.inference_mode()
def own_forward(engine: HFEngine, inputs: dict[str, Any]) -> tuple[Tensor, Any]:
    """The model as its users run it: last logits, and the cache that it made itself."""
    out = engine.model(**inputs, use_cache=True)
    return out.logits[0, -1], out.cache


def worst(kv: ChunkKV, cache: Any, channels: Any) -> float:
    """Largest relative error of a layer's channel; a sliding layer's cache holds the last tokens alone."""
    errors = []
    for number, layer in enumerate(cache.layers):
        for channel, slot in zip(channels, ("keys", "values"), strict=True):
            kept = getattr(layer, slot)[0].transpose(0, 1)
            errors.append(relative(kv.tensors[channel.name][number, -len(kept) :], kept))
    return max(errors)


def behind_one_another(engine: HFEngine, chunks: list[Chunk]) -> ChunkKV:
    """Every chunk prefilled behind the KV of those before it."""
    context, start = None, 0
    for chunk in chunks:
        made = engine.prefill([chunk], see(engine, [chunk]), start=start, context=context).kv
        context = made if context is None else concat([context, made])
        start += chunk.extent
    assert context is not None
    return context


def floats(inputs: dict[str, Any], dtype: torch.dtype) -> dict[str, Any]:
    return {k: v.to(dtype) if v.is_floating_point() else v for k, v in inputs.items()}


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16"])
def test_prefill_in_one_go_and_chunk_by_chunk_are_the_models_own_forward(
    engines: Engines, picture: Any, name: str, dtype: str
) -> None:
    engine, wide = engines(name, dtype), engines(name, "float64")
    chunks = chunks_of(engine, picture)
    inputs = model_inputs(engine, chunks, picture)
    truth, true_cache = own_forward(wide, floats(inputs, torch.float64))
    logits, cache = own_forward(engine, floats(inputs, engine.model.dtype))
    channels = engine.backbone.channels
    true_kv = wide.prefill(chunks, see(wide, chunks), start=0).kv
    assert worst(true_kv, true_cache, channels) <= 1e-6, "in float64 the norms alone are narrower"
    rounding = max(relative(logits, truth), worst(true_kv, cache, channels))

    whole = engine.prefill(chunks, see(engine, chunks), start=0)
    assert relative(whole.logits, truth) <= 2 * rounding
    assert worst(whole.kv, true_cache, channels) <= 2 * rounding
    context = behind_one_another(engine, chunks[:-1])
    start = sum(chunk.extent for chunk in chunks[:-1])
    tail = engine.prefill(chunks[-1:], {}, start=start, context=context)
    assert relative(tail.logits, truth) <= 2 * rounding
    assert worst(concat([context, tail.kv]), true_cache, channels) <= 2 * rounding
    # of the plain forward alone: a model that blows rounding up would make the bound say nothing
    assert rounding <= (1e-4 if dtype == "float32" else 0.2)


@pytest.mark.parametrize("name", FAMILIES)
def test_logits_depend_on_what_stands_in_the_window(
    engines: Engines, picture: Any, name: str
) -> None:
    """Without it the exactness tests would say nothing."""
    engine = engines(name)
    one, other = chunks_of(engine, picture), chunks_of(engine, picture, seed=5)
    first = engine.prefill(one, see(engine, one), start=0).logits
    second = engine.prefill(other, see(engine, other), start=0).logits
    assert relative(second, first) > 1e-2


@pytest.mark.parametrize("name", FAMILIES)
def test_kv_put_back_generates_what_the_model_generates(
    engines: Engines, picture: Any, name: str
) -> None:
    engine = engines(name)
    chunks = chunks_of(engine, picture)
    inputs = model_inputs(engine, chunks, picture)
    own = engine.model.generate(**inputs, max_new_tokens=5, do_sample=False)
    context = behind_one_another(engine, chunks[:-1])
    start = sum(chunk.extent for chunk in chunks[:-1])
    made = engine.generate(chunks[-1], start=start, context=context, max_new_tokens=5)
    assert list(made.token_ids) == own[0, inputs["input_ids"].shape[1] :].tolist()


def layer_mask(engine: HFEngine, ids: Tensor, kind: str, hidden: tuple[range, range]) -> Tensor:
    """[1, 1, T, T] of a layer: causal, images both ways, in the window; `hidden[0]` can't see `hidden[1]`."""
    total = len(ids)
    ask, seen = torch.arange(total)[:, None], torch.arange(total)
    allowed = seen <= ask
    if engine.family.model_type == "gemma3":
        soft = ids == engine.model.config.image_token_id
        number = (soft & ~soft.roll(1)).cumsum(0) * soft
        allowed = allowed | ((number[:, None] == number) & (number > 0))
    if kind == "sliding_attention":
        allowed = allowed & (seen > ask - engine.backbone.text_config.sliding_window)
    asking, blocked = (torch.isin(torch.arange(total), torch.tensor(list(r))) for r in hidden)
    return (allowed & ~(asking[:, None] & blocked))[None, None]


@torch.inference_mode()
def blind_forward(engine: HFEngine, chunks: list[Chunk], number: int) -> ChunkKV:
    """KV of chunk `number` in one forward of the plain decoder in which it can't see what is before it."""
    ids = torch.tensor([i for chunk in chunks for i in chunk.key.token_ids])
    begin = sum(chunk.num_tokens for chunk in chunks[:number])
    end = begin + chunks[number].num_tokens
    hidden = range(begin, end), range(begin)
    text = engine.backbone.text_config
    kinds = set(getattr(text, "layer_types", None) or ["full_attention"])
    masks = {kind: layer_mask(engine, ids, kind, hidden) for kind in kinds}
    embeds = engine.model.get_input_embeddings()(ids.clamp(max=text.vocab_size - 1))[None]
    if engine.family.modalities:
        pads = ids == engine.model.config.image_token_id
        embeds[0, pads] = torch.cat([engine.see(c) for c in chunks if c.media is not None])
    cache = kv_cache.write(None, engine.backbone.channels)
    mask = masks if len(masks) > 1 else next(iter(masks.values()))
    engine.backbone.decoder(
        inputs_embeds=embeds,
        attention_mask=mask,
        position_ids=torch.arange(len(ids))[None],
        cache=cache,
        use_cache=True,
    )
    return kv_cache.read(cache, 0, engine.backbone.channels).slice_tokens(begin, end)


@pytest.mark.parametrize("name", FAMILIES)
@pytest.mark.parametrize("number", [1, 3])
def test_a_chunk_that_sees_nothing_before_it_is_its_canonical_moved(
    engines: Engines, picture: Any, name: str, number: int
) -> None:
    engine = engines(name)
    chunks = chunks_of(engine, picture)
    chunk, start = chunks[number], sum(c.extent for c in chunks[:number])
    masked = blind_forward(engine, chunks, number)
    solo = engine.prefill([chunk], see(engine, [chunk]), start=0).kv
    stored = solo.to_canonical(chunk.layout.at(0), engine.spec)
    moved = stored.at(chunk.layout.at(start), engine.spec)
    seeing = behind_one_another(engine, chunks[: number + 1]).slice_tokens(
        sum(c.num_tokens for c in chunks[:number]),
        sum(c.num_tokens for c in chunks[: number + 1]),
    )
    for channel in engine.backbone.channels:
        # 1e-5: float32 rounding of a few layers, as the forwards above measure it
        assert relative(moved.tensors[channel.name], masked.tensors[channel.name]) <= 1e-5
        assert relative(seeing.tensors[channel.name], masked.tensors[channel.name]) > 1e-2


@pytest.mark.parametrize("name", list(IMAGES))
def test_counting_placeholders_needs_no_tower(engines: Engines, picture: Any, name: str) -> None:
    engine = engines(name)
    token = engine.family.modalities[0].token_id(engine.model.config)
    for size in [(42, 42), (56, 56), (30, 170), (170, 30), (333, 200), (20, 20), (57, 56)]:
        chunk = engine.image_chunk(picture(3, *size))
        assert chunk.key.token_ids.count(token) == len(engine.see(chunk))
