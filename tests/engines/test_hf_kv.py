"""KV out of the model, moved, composed and put back: against plain Transformers forwards."""

from typing import Any

import pytest
import torch
from hf_reference import full_forward, kl, prompt_positions, raw_request, relative

from kamera.channels import ChunkKV, concat
from kamera.chunk import Chunk
from kamera.engines.contract import Prefilled, Prompt
from kamera.engines.hf import HFEngine
from kamera.errors import ConfigError
from kamera.patch import apply, deficit, form_patch

QUESTION = "which digit goes with the shape?"


def request(picture: Any, question: str = QUESTION, first: int = 0) -> list[dict[str, Any]]:
    """Three images of unequal grids, text in front and between."""
    shown = picture(first, 140, 56), picture(1, 56, 112), picture(2, 84, 84)
    parts: list[dict[str, Any]] = [{"type": "text", "text": "Frames: "}]
    parts += [{"type": "image", "image": image} for image in shown]
    return [{"role": "user", "content": [*parts, {"type": "text", "text": question}]}]


def see(engine: HFEngine, chunks: tuple[Chunk, ...]) -> dict[str, torch.Tensor]:
    return {c.media.digest: engine.see(c) for c in chunks if c.media is not None}


def starts(chunks: tuple[Chunk, ...]) -> list[int]:
    found = [0]
    for chunk in chunks:
        found.append(found[-1] + chunk.extent)
    return found


def canonical(engine: HFEngine, chunk: Chunk) -> ChunkKV:
    solo = engine.prefill([chunk], see(engine, (chunk,)), start=0).kv
    return solo.to_canonical(chunk.layout.at(0), engine.spec)


def one_by_one(engine: HFEngine, prompt: Prompt) -> tuple[ChunkKV, int]:
    """Every chunk prefilled behind the KV of those before it."""
    context, start = None, 0
    for chunk in prompt.chunks:
        kv = engine.prefill([chunk], see(engine, (chunk,)), start=start, context=context).kv
        context = kv if context is None else concat([context, kv])
        start += chunk.extent
    assert context is not None
    return context, start


@pytest.fixture(scope="module")
def wide_engine(tiny: Any) -> HFEngine:
    """The same checkpoint in float64: says how far float32 itself is from the truth."""
    return HFEngine.from_pretrained(tiny, dtype="float64")


def test_prefill_in_one_forward_is_the_models_own(engine: HFEngine, picture: Any) -> None:
    raw, made = raw_request(engine, request(picture)), engine.prompt(request(picture))
    logits, kv = full_forward(engine, raw)
    vision = see(engine, made.chunks)
    mine = engine.prefill([*made.chunks, made.tail], vision, start=0)
    assert relative(mine.logits, logits) <= 1e-5
    for name in ("k", "v"):
        assert mine.kv.tensors[name].shape == kv.tensors[name].shape
        assert relative(mine.kv.tensors[name], kv.tensors[name]) <= 1e-5


def test_composed_kv_is_as_close_to_the_truth_as_one_forward(
    engine: HFEngine, wide_engine: HFEngine, picture: Any
) -> None:
    raw, made = raw_request(engine, request(picture)), engine.prompt(request(picture))
    logits, kv = full_forward(engine, raw)
    truth, true_kv = full_forward(wide_engine, raw)
    context, start = one_by_one(engine, made)
    tail = engine.prefill([made.tail], {}, start=start, context=context)
    assert relative(tail.logits, truth) <= 2 * relative(logits, truth)
    assert kl(logits, tail.logits) <= 1e-8
    composed = concat([context, tail.kv])
    for name in ("k", "v"):
        noise = relative(kv.tensors[name], true_kv.tensors[name])
        assert relative(composed.tensors[name], true_kv.tensors[name]) <= 2 * noise


def test_logits_of_this_model_do_depend_on_the_window(engine: HFEngine, picture: Any) -> None:
    """The exactness tests mean something only where a wrong window is seen at once."""
    right, _ = full_forward(engine, raw_request(engine, request(picture)))
    wrong, _ = full_forward(engine, raw_request(engine, request(picture, first=7)))
    assert kl(right, wrong) > 1e-2


@pytest.mark.parametrize("offset", [1, 37, 1000])
def test_kv_alone_at_an_offset_is_the_canonical_relocated(
    engine: HFEngine, picture: Any, offset: int
) -> None:
    chunk = engine.image_chunk(picture(0, 140, 56))
    vision = see(engine, (chunk,))
    there = engine.prefill([chunk], vision, start=offset).kv
    moved = canonical(engine, chunk).at(chunk.layout.at(offset), engine.spec)
    # a solo chunk attends to itself alone: only the float32 rounding of the model's angles differs
    tolerance = 1e-5 * (1 + offset / 16)
    for name in ("k", "v"):
        assert relative(moved.tensors[name], there.tensors[name]) <= tolerance
    wrong = canonical(engine, chunk).at(chunk.layout.at(offset + 1), engine.spec)
    assert relative(wrong.tensors["k"], there.tensors["k"]) > 0.1


@pytest.mark.parametrize("offset", [1, 4096, 30000])
def test_layer_0_is_exact_at_any_offset(engine: HFEngine, picture: Any, offset: int) -> None:
    """Layer 0 has attended to nothing: its keys differ by R(p) alone, its values not at all."""
    chunk = engine.image_chunk(picture(0, 140, 56))
    there = engine.prefill([chunk], see(engine, (chunk,)), start=offset).kv
    moved = canonical(engine, chunk).at(chunk.layout.at(offset), engine.spec)
    assert moved.tensors["v"][0].equal(there.tensors["v"][0])
    assert relative(moved.tensors["k"][0], there.tensors["k"][0]) <= 5e-7


@pytest.mark.parametrize("offset", [1, 30000])
def test_values_keep_their_bytes_when_a_chunk_moves(
    engine: HFEngine, picture: Any, offset: int
) -> None:
    chunk = engine.image_chunk(picture(0))
    stored = canonical(engine, chunk)
    moved = stored.at(chunk.layout.at(offset), engine.spec)
    assert moved.tensors["v"].equal(stored.tensors["v"])
    assert not moved.tensors["k"].equal(stored.tensors["k"])


def test_a_wrong_shift_or_another_image_is_seen_at_layer_0(engine: HFEngine, picture: Any) -> None:
    made = engine.prompt(request(picture))
    _, kv = full_forward(engine, raw_request(engine, request(picture)))
    chunk, start = made.chunks[2], starts(made.chunks)[2]
    before = sum(c.num_tokens for c in made.chunks[:2])
    real = kv.slice_tokens(before, before + chunk.num_tokens)
    stored = canonical(engine, chunk)

    def error(of: ChunkKV, at: int, name: str) -> float:
        placed = of.at(chunk.layout.at(at), engine.spec)
        return relative(placed.tensors[name][0], real.tensors[name][0])

    assert error(stored, start, "k") <= 5e-7
    assert error(stored, start + 1, "k") > 0.1
    assert error(stored, before, "k") > 0.1, "a token index isn't a position"
    other = canonical(engine, engine.image_chunk(picture(9, 56, 112)))
    assert other.num_tokens == chunk.num_tokens
    assert error(other, start, "v") > 0.1


def blocked_forward(engine: HFEngine, made: Prompt, blind: int) -> tuple[ChunkKV, ChunkKV]:
    """One forward over the chunks in which chunk `blind` can't see what stands before it."""
    vision = see(engine, made.chunks)
    raw_ids = torch.tensor([[i for c in made.chunks for i in c.key.token_ids]])
    total = raw_ids.shape[1]
    begin = sum(c.num_tokens for c in made.chunks[:blind])
    end = begin + made.chunks[blind].num_tokens
    mask = torch.full((total, total), torch.finfo(torch.float32).min).triu(1)
    mask[begin:end, :begin] = torch.finfo(torch.float32).min
    embeds = engine.model.get_input_embeddings()(raw_ids)
    pads = raw_ids[0] == engine.model.config.image_token_id
    embeds[0, pads] = torch.cat([vision[c.media.digest] for c in made.chunks if c.media])
    with torch.inference_mode():
        out = engine.model.model.language_model(
            inputs_embeds=embeds,
            attention_mask=mask[None, None],
            position_ids=prompt_positions(made)[:, None, :total],
            use_cache=True,
        )
    layers = out.cache.layers if hasattr(out, "cache") else out.past_key_values.layers
    kv = ChunkKV(
        {
            "k": torch.stack([layer.keys[0].transpose(0, 1) for layer in layers]),
            "v": torch.stack([layer.values[0].transpose(0, 1) for layer in layers]),
        }
    )
    return kv.slice_tokens(0, begin), kv.slice_tokens(begin, end)


def test_a_chunk_that_cannot_see_its_antecedent_is_its_canonical_moved(
    engine: HFEngine, picture: Any
) -> None:
    made = engine.prompt(request(picture))
    for blind in (1, 2, 3):
        with torch.no_grad():
            before, masked = blocked_forward(engine, made, blind)
        chunk, start = made.chunks[blind], starts(made.chunks)[blind]
        moved = canonical(engine, chunk).at(chunk.layout.at(start), engine.spec)
        seeing = engine.prefill([chunk], see(engine, (chunk,)), start=start, context=before).kv
        for name in ("k", "v"):
            assert relative(moved.tensors[name], masked.tensors[name]) <= 1e-5
            assert relative(seeing.tensors[name], masked.tensors[name]) > 0.1, "A isn't felt"


def test_a_full_rank_patch_gives_back_what_was_absorbed(engine: HFEngine, picture: Any) -> None:
    made = engine.prompt(request(picture))
    kv = engine.prefill(made.chunks, see(engine, made.chunks), start=0).kv
    token, logits_kv = 0, []
    for chunk, start in zip(made.chunks, starts(made.chunks), strict=False):
        part = kv.slice_tokens(token, token + chunk.num_tokens)
        token += chunk.num_tokens
        positions, stored = chunk.layout.at(start), canonical(engine, chunk)
        delta = deficit(part.to_canonical(positions, engine.spec), stored)
        placed = apply(stored, form_patch(delta, "0" * 64), positions, engine.spec)
        for name in ("k", "v"):
            assert relative(placed.tensors[name], part.tensors[name]) <= 1e-6
        logits_kv.append(placed)
    start = starts(made.chunks)[-1]
    full = engine.prefill([*made.chunks, made.tail], see(engine, made.chunks), start=0)

    def ask(context: ChunkKV) -> Prefilled:
        return engine.prefill([made.tail], {}, start=start, context=context)

    assert kl(full.logits, ask(concat(logits_kv)).logits) <= 1e-6
    blind = [
        canonical(engine, c).at(c.layout.at(s), engine.spec)
        for c, s in zip(made.chunks, starts(made.chunks), strict=False)
    ]
    assert kl(full.logits, ask(concat(blind)).logits) > 1e-2


def ulps(got: torch.Tensor, expected: torch.Tensor) -> int:
    """The largest distance in representable bfloat16 numbers."""

    def ordered(x: torch.Tensor) -> torch.Tensor:
        bits = x.contiguous().view(torch.int16).int()
        return torch.where(bits < 0, -(bits & 0x7FFF), bits)

    return int((ordered(got) - ordered(expected)).abs().max())


def test_a_full_rank_patch_in_bf16_is_within_one_ulp(bf16_engine: HFEngine, picture: Any) -> None:
    engine = bf16_engine
    made = engine.prompt(request(picture))
    kv = engine.prefill(made.chunks, see(engine, made.chunks), start=0).kv
    assert kv.dtype == torch.bfloat16
    token = 0
    for chunk, start in zip(made.chunks, starts(made.chunks), strict=False):
        part = kv.slice_tokens(token, token + chunk.num_tokens)
        token += chunk.num_tokens
        positions, stored = chunk.layout.at(start), canonical(engine, chunk)
        assert stored.dtype == torch.bfloat16
        wide = part.to_canonical(positions, engine.spec, torch.float32)
        patch = form_patch(deficit(wide, stored), "0" * 64)
        placed = apply(stored, patch, positions, engine.spec)
        for name in ("k", "v"):
            real, got = part.tensors[name], placed.tensors[name]
            # near zero an ULP is far below the float32 noise of sum and rotation
            near_zero = real.float().abs() < 1e-4 * real.float().abs().max()
            assert ulps(got[~near_zero], real[~near_zero]) <= 1
            assert (got - real)[near_zero].abs().max() <= 1e-5 * real.abs().max()


def test_the_model_key_tells_dtype_and_weights_apart(
    engine: HFEngine, bf16_engine: HFEngine, other_tiny: Any, tiny: Any
) -> None:
    other, again = HFEngine.from_pretrained(other_tiny), HFEngine.from_pretrained(str(tiny))
    assert again.model_key == engine.model_key
    keys = {e.model_key.digest for e in (engine, bf16_engine, other)}
    assert len(keys) == 3


@pytest.mark.parametrize("messages", ["images", "text"])
def test_greedy_tokens_on_composed_kv_are_those_of_generate(
    engine: HFEngine, picture: Any, messages: str
) -> None:
    """A call with other images before it leaves stale rope_deltas in the model: they must not matter."""
    chat = request(picture)
    if messages == "text":
        chat = [{"role": "user", "content": QUESTION}]
    raw, made = raw_request(engine, chat), engine.prompt(chat)
    engine.model.model.rope_deltas = None
    expected = engine.model.generate(
        **raw.inputs(), max_new_tokens=12, do_sample=False, eos_token_id=None
    )[0, raw.input_ids.shape[1] :]
    stale = raw_request(engine, request(picture, "?")[:1] * 2)
    full_forward(engine, stale)
    assert engine.model.model.rope_deltas is not None
    context, start = one_by_one(engine, made) if made.chunks else (None, 0)
    got = engine.generate(made.tail, start=start, context=context, max_new_tokens=12)
    stop = [i for i, t in enumerate(expected.tolist()) if t in engine._stop_ids()]
    wanted = expected.tolist()[: stop[0] + 1] if stop else expected.tolist()
    assert list(got.token_ids) == wanted
    assert got.text == engine.tokenizer.decode(wanted, skip_special_tokens=True)
    assert got.logits.argmax() == got.token_ids[0]
    assert len(set(wanted)) > 2, "a constant answer can't tell positions apart"


def test_decoding_feels_its_positions(engine: HFEngine, picture: Any) -> None:
    """The negative of the test above: from a wrong start, other tokens."""
    made = engine.prompt(request(picture))
    context, start = one_by_one(engine, made)
    right = engine.generate(made.tail, start=start, context=context, max_new_tokens=12)
    wrong = engine.generate(made.tail, start=start + 9, context=context, max_new_tokens=12)
    assert right.token_ids != wrong.token_ids


def test_decoding_stops_at_the_end_token_and_keeps_it(
    engine: HFEngine, picture: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = engine.prompt(request(picture))
    context, start = one_by_one(engine, made)
    free = engine.generate(made.tail, start=start, context=context, max_new_tokens=8).token_ids
    index = next(i for i in range(2, 8) if free[i] not in free[:i])
    for ends in (free[index], [511, free[index]]):
        monkeypatch.setattr(engine.model.generation_config, "eos_token_id", ends)
        stopped = engine.generate(made.tail, start=start, context=context, max_new_tokens=8)
        assert stopped.token_ids == free[: index + 1]


def test_generate_refuses_no_tokens(engine: HFEngine) -> None:
    with pytest.raises(ConfigError, match="max_new_tokens"):
        engine.generate(engine.text_chunk("?"), start=0, context=None, max_new_tokens=0)


def test_context_is_not_written_to(engine: HFEngine, picture: Any) -> None:
    made = engine.prompt(request(picture))
    context, start = one_by_one(engine, made)
    before = {name: tensor.clone() for name, tensor in context.tensors.items()}
    engine.generate(made.tail, start=start, context=context, max_new_tokens=4)
    engine.prefill([made.tail], {}, start=start, context=context)
    for name, tensor in context.tensors.items():
        assert tensor.equal(before[name])


def test_vision_runs_are_counted_and_only_in_see(engine: HFEngine, picture: Any) -> None:
    before = engine.num_vision_runs
    made = engine.prompt(request(picture))
    assert engine.num_vision_runs == before
    vision = see(engine, made.chunks)
    assert engine.num_vision_runs == before + 3
    engine.prefill([*made.chunks, made.tail], vision, start=0)
    assert engine.num_vision_runs == before + 3
    with pytest.raises(ConfigError, match="no image"):
        engine.see(made.tail)
    assert engine.num_vision_runs == before + 3


def test_vision_embeddings_are_the_models_own(engine: HFEngine, picture: Any) -> None:
    chunk = engine.image_chunk(picture(0, 140, 56))
    assert chunk.media is not None
    out = engine.processors["image"](images=[picture(0, 140, 56)], return_tensors="pt")
    with torch.inference_mode():
        own = engine.model.model.get_image_features(out["pixel_values"], out["image_grid_thw"])
    assert engine.see(chunk).equal(own.pooler_output[0])
    assert len(engine.see(chunk)) == chunk.num_tokens - 2
