"""The two halves together: what a request gets from the store, and what is kept of it."""

import threading
import time

import pytest
import torch
from connector_doubles import BLOCK, Engine, Request, image, shown, solo


def learned(engine, pixels, name="first"):
    """The engine has seen the window, and each image alone."""
    engine.run(shown(name, pixels))
    for value in pixels:
        engine.run(solo(f"{name}-solo-{value}", value))


def test_the_second_sight_is_served_and_equals_prefill():
    engine = Engine()
    learned(engine, [1, 2])
    request = shown("second", [1, 2])
    assert engine.run(request) == 20
    found, expected = engine.in_blocks(request), engine.kv_of(request)
    for name in ("k", "v"):
        torch.testing.assert_close(found.tensors[name], expected.tensors[name], rtol=0, atol=2e-5)


def test_blind_lacks_what_the_patch_gives_back():
    engine = Engine()
    learned(engine, [1, 2])
    request = shown("blind", [1, 2], kamera={"patch": "none"})
    assert engine.run(request) == 20
    missed = (engine.in_blocks(request).tensors["v"] - engine.kv_of(request).tensors["v"]).abs()
    assert float(missed.max()) > 0.5


def test_without_canonicals_nothing_is_served_and_the_reason_is_said():
    engine = Engine()
    engine.run(shown("first", [1, 2]))
    engine.sums()
    assert engine.run(shown("second", [1, 2])) == 4
    sums = engine.sums()
    assert sums["chunks_served/leading"] == 1
    assert sums["chunks_missed/no canonical yet: it comes from a solo request"] == 1
    assert sums["chunks_missed/behind a chunk that isn't held"] == 1


def test_the_canonical_may_come_before_or_after():
    before, after = Engine(), Engine()
    before.run(solo("s", 1))
    before.run(shown("first", [1]))
    after.run(shown("first", [1]))
    after.run(solo("s", 1))
    assert before.run(shown("x", [1])) == after.run(shown("x", [1])) == 12


def test_another_image_is_a_miss():
    engine = Engine()
    learned(engine, [1, 2])
    assert engine.run(shown("other", [1, 3])) == 12


def test_another_salt_is_a_miss_and_the_same_salt_a_hit():
    engine = Engine()
    engine.run(shown("first", [1], salt="a"))
    engine.run(solo("s", 1, salt="a"))
    assert engine.run(shown("b", [1], salt="b")) == 0
    assert engine.run(shown("none", [1])) == 0
    assert engine.run(shown("a", [1], salt="a")) == 12


def test_composed_blocks_are_never_under_a_plain_name():
    engine = Engine(min_tokens=5)
    learned(engine, [1, 2])
    request = shown("second", [1, 2])
    plain = list(request.block_hashes)
    engine.run(request)
    assert len(request.block_hashes) == len(plain)
    assert not set(request.block_hashes) & set(plain)
    untouched = shown("third", [7, 8])
    engine.run(untouched)
    assert untouched.block_hashes == plain


def test_slots_below_the_computed_tokens_are_never_written():
    engine = Engine()
    learned(engine, [1, 2, 3])
    request = shown("second", [1, 2, 3])
    block = engine.next_block
    slots = engine.pool.slots([block], 0, BLOCK)
    before = engine.pool.read(slots)
    assert engine.run(request, num_local=BLOCK) == 28 - BLOCK
    after = engine.pool.read(slots)
    assert all(before.tensors[n].equal(after.tensors[n]) for n in ("k", "v"))
    rest = engine.pool.read(engine.pool.slots(engine.blocks["second"], BLOCK, 28))
    expected = engine.kv_of(request).slice_tokens(BLOCK, 28)
    torch.testing.assert_close(rest.tensors["k"], expected.tensors["k"], rtol=0, atol=2e-5)


def test_a_lost_entry_is_prefilled_once_and_counted():
    engine = Engine()
    learned(engine, [1, 2])
    request = shown("second", [1, 2])
    matched, _ = engine.scheduler.match(request, 0)
    assert matched == 20
    held = engine.store.keys()
    for key in [key for key in held if key.kind == "patch"]:
        engine.store.delete(key)
    engine.blocks["second"] = [40, 41]
    engine.scheduler.allocated(request, [40, 41], matched)
    engine.worker.start(engine.scheduler.jobs({}, engine))
    engine.worker.settle()
    assert engine.worker.finished() == {"second"}
    assert engine.worker.failed_blocks() == {40, 41}
    engine.scheduler.loads_failed(engine.worker.failed())
    assert engine.scheduler.match(request, 0) == (0, False)
    sums = engine.sums()
    assert sums["loads_failed"] == 1
    assert sums["chunks_missed/load failed"] == 3


def test_after_a_preemption_the_same_plan_is_loaded_again():
    engine = Engine()
    learned(engine, [1, 2])
    request = shown("second", [1, 2])
    engine.run(request)
    first = engine.in_blocks(request)
    engine.pool.write(first, engine.pool.slots([0, 0], 0, 20))  # what else there was is gone
    request.num_computed_tokens = 0
    assert engine.run(request) == 20
    assert engine.in_blocks(request).tensors["k"].equal(first.tensors["k"])


def test_a_survivor_is_served_from_the_patch_behind_what_left():
    engine = Engine()
    learned(engine, [1, 2, 3])
    engine.run(shown("slid", [2, 3]))
    assert engine.sums()["chunks_served/survivor"] == 2
    forgetful = Engine(keep_survivors=False)
    learned(forgetful, [1, 2, 3])
    forgetful.run(shown("slid", [2, 3]))
    assert "chunks_served/survivor" not in forgetful.sums()


def test_behind_a_survivor_a_patch_is_of_that_context_alone():
    engine = Engine()
    learned(engine, [1, 2])
    engine.run(solo("s3", 3))
    engine.run(shown("slid", [2, 3]))
    engine.sums()
    engine.run(shown("again", [2, 3]))
    assert engine.sums()["chunks_served/served"] == 1
    engine.scheduler._formed[0].known.clear()  # a fresh server knows no survivor
    engine.run(shown("plain", [2, 3]))
    assert "chunks_served/served" not in engine.sums()


def test_reading_alone_adds_nothing():
    engine = Engine(fill="off")
    learned(engine, [1, 2])
    assert engine.store.keys() == []
    assert "chunks_captured" not in engine.sums()


def test_after_a_reset_nothing_old_is_read():
    engine = Engine()
    learned(engine, [1, 2])
    assert engine.scheduler.reset()
    assert engine.run(shown("second", [1, 2])) == 0
    learned(engine, [1, 2], "again")
    assert engine.run(shown("third", [1, 2])) == 20


def test_chunked_prefill_captures_a_chunk_when_its_last_token_is_computed():
    engine = Engine()
    request = shown("first", [1, 2])
    engine.scheduler.match(request, 0)
    engine.blocks["first"] = [1, 2]
    engine.scheduler.allocated(request, [1, 2], 0)
    ends = []
    for begin, count in ((0, 7), (7, 4), (11, 1), (12, 13)):
        request.num_computed_tokens = begin
        jobs = engine.scheduler.jobs({"first": count}, engine)
        ends += [(begin + count, job.begin + job.chunks[0].num_tokens) for job in jobs.captures]
    assert ends == [(7, 4), (12, 12), (25, 20)]


@pytest.mark.parametrize(
    ("request_", "reason"),
    [
        (shown("text", []), "no media"),
        (shown("off", [1], kamera={"reuse": False}), "asked for without reuse"),
        (shown("bad", [1], kamera={"resue": False}), "unsupported"),
        (shown("bad", [1], kamera=3), "unsupported"),
        (shown("bad", [1], kamera={"reuse": "no"}), "unsupported"),
        (shown("bad", [1], kamera={"patch": "some"}), "unsupported"),
        (shown("bad", [1], kamera={"chunks": [2]}), "unsupported"),
        (shown("bad", [1], kamera={"chunks": "2"}), "unsupported"),
    ],
)
def test_what_isnt_served_passes_untouched(request_, reason):
    engine = Engine()
    plain = list(request_.block_hashes)
    assert engine.run(request_) == 0
    assert engine.sums() == {f"requests_passed/{reason}": 1}
    assert request_.block_hashes == plain


def test_lora_and_missing_pixels_pass_untouched():
    engine = Engine()
    adapted, unseen = shown("lora", [1]), shown("unseen", [1])
    adapted.lora_request = object()
    unseen.mm_features[0].data = None
    assert engine.run(adapted) == engine.run(unseen) == 0
    assert engine.sums() == {"requests_passed/LoRA": 1, "requests_passed/unsupported": 1}


def test_a_video_ends_the_chunks():
    engine = Engine()
    request = shown("film", [1])
    film = image(2, len(request.prompt_token_ids) + 1)
    film.modality = "video"
    request.mm_features.append(film)
    request.prompt_token_ids += [9] * 8
    assert engine.scheduler._track(request).num_chunks == 2


def test_a_short_load_isnt_worth_it():
    engine = Engine(min_tokens=5)
    engine.run(shown("first", [1]))
    assert engine.run(shown("second", [1])) == 0
    left = "held, but in the engine's prefix cache or too short to load"
    assert engine.sums()[f"chunks_missed/{left}"] == 1


def test_what_cant_be_kept_harms_no_request():
    engine = Engine()
    engine.store.put = lambda entry: 1 / 0  # type: ignore[method-assign]
    engine.run(shown("first", [1]))
    assert engine.sums()["forming_failed"] >= 1


def test_what_is_there_isnt_asked_for(tmp_path):
    engine = Engine(store=str(tmp_path))  # the folder of the spool; entries stay in memory here
    engine.run(shown("first", [1, 2]))
    assert len(list((tmp_path / "wanted").iterdir())) == 2
    for value in (1, 2):
        engine.run(solo(f"solo-{value}", value))
    engine.run(shown("second", [1, 2]))
    assert list((tmp_path / "wanted").iterdir()) == []


def test_the_rest_of_one_chunk_isnt_composed_when_more_follows():
    engine = Engine()
    learned(engine, [1])
    engine.run(solo("s2", 2))
    grown = shown("grown", [1, 2])
    assert (
        engine.run(grown, num_local=9) == 0
    )  # the engine's prefix cache ends inside the first image
    assert engine.run(shown("later", [1, 2])) == 20
    assert engine.sums()["chunks_served/exact"] == 2


def test_a_head_from_the_prefix_cache_doesnt_change_the_context():
    engine = Engine()
    learned(engine, [1, 2])
    engine.run(solo("s3", 3))
    engine.run(shown("partly", [1, 2, 3]), num_local=9)
    engine.sums()
    assert engine.run(shown("whole", [1, 2, 3])) == 28
    assert engine.sums()["chunks_served/served"] == 1


def failing(engine, request, num_local=0):
    """The request's plan is made, then the store loses what it names, and the load fails."""
    matched, _ = engine.scheduler.match(request, num_local)
    held = engine.store.keys()
    for key in [key for key in held if key.kind == "patch"]:
        engine.store.delete(key)
    engine.blocks[request.request_id] = [40, 41]
    engine.scheduler.allocated(request, [40, 41], matched)
    engine.worker.start(engine.scheduler.jobs({}, engine))
    engine.worker.settle()
    engine.worker.finished()
    engine.scheduler.loads_failed(engine.worker.failed())
    return engine.worker.failed_blocks()


def test_a_load_that_fails_takes_no_block_that_others_share():
    engine = Engine()
    learned(engine, [1, 2, 3])
    assert failing(engine, shown("second", [1, 2, 3]), num_local=BLOCK) == {41}


def test_after_a_failed_load_the_blocks_have_their_plain_names_again():
    """Under the plan's salt lie blocks that another request composed: prefill mustn't go on from them."""
    engine = Engine()
    learned(engine, [1, 2])
    request = shown("second", [1, 2], salt="mine")
    engine.run(shown("third", [1, 2], salt="mine"))
    for value in (1, 2):
        engine.run(solo(f"mine-{value}", value, salt="mine"))
    plain = list(request.block_hashes)
    assert failing(engine, request)
    assert request.cache_salt == "mine"
    assert request.block_hashes == plain


def test_after_a_preemption_and_a_failed_load_nothing_is_kept():
    """Composed blocks may be among those that prefill goes on from: it isn't exact, whatever is in front."""
    engine = Engine()
    learned(engine, [1, 2])
    request = shown("second", [1, 2, 3])
    engine.run(request)
    salted = request.cache_salt
    request.num_computed_tokens = (
        0  # preempted; the first block is still in the prefix cache, composed
    )
    assert failing(engine, request, num_local=BLOCK) == {41}
    assert request.cache_salt == salted
    request.num_computed_tokens = BLOCK
    left = len(request.prompt_token_ids) - BLOCK
    assert engine.scheduler.jobs({"second": left}, engine).captures == []


def test_after_a_preemption_a_head_is_no_longer_exact():
    engine = Engine()
    engine.run(shown("first", [1, 2], prefix=8))
    for value in (1, 2):
        engine.run(solo(f"solo-{value}", value))
    request = shown("second", [1, 2, 3], prefix=8)
    assert (
        engine.run(request, num_local=BLOCK) == 8
    )  # the prefix and the first image are the engine's own
    tracked = engine.scheduler._track(request)
    assert tracked.contexts(0)[:3] == ["", "", ""]
    assert engine.scheduler.match(request, 0) == (24, True)
    assert tracked.contexts(0)[:2] == ["", ""]
    assert tracked.contexts(0)[2]


def test_a_name_given_to_two_contents_keeps_and_serves_nothing():
    """vLLM keeps KV and embeddings under a client's uuid: the second may be computed on the first's."""
    engine = Engine()
    first, second = shown("first", [1], kamera={"reuse": False}), solo("s", 2)
    for request in (first, second):
        request.mm_features[0].identifier = "mine"
    engine.run(first)
    engine.run(second)
    assert engine.store.keys() == []
    assert engine.sums()["requests_passed/media name"] == 1
    engine.run(shown("again", [2]))  # under its own name it is as ever
    assert engine.sums()["chunks_captured"] == 2


@pytest.mark.parametrize("kamera", ["solo", {"chunks": [4]}])
def test_a_video_is_never_part_of_a_text_chunk(kamera):
    """A text chunk is named by its tokens, and a video's placeholders are the same for every video."""
    engine = Engine()
    request = shown("film", [1], prefix=0, tail=8, kamera=kamera)
    request.mm_features[0].modality = "video"
    engine.run(request)
    assert engine.sums() == {"requests_passed/unsupported": 1}


def test_a_request_has_a_bounded_number_of_chunks(monkeypatch):
    monkeypatch.setattr("kamera.engines.vllm.request_reader.MAX_CHUNKS", 3)
    engine = Engine()
    request = Request("many", list(range(100)), [], kamera={"chunks": [1] * 50})
    assert engine.scheduler._track(request).num_chunks == 3


def test_a_request_that_waits_isnt_planned_in_every_step():
    engine = Engine()
    learned(engine, [1, 2])
    request, asked = shown("second", [1, 2]), []
    steps, engine.scheduler._steps = (
        engine.scheduler._steps,
        lambda *a: asked.append(a) or steps(*a),
    )
    first = engine.scheduler.match(request, 0)
    engine.scheduler._track(request).planned_until = float("inf")
    assert engine.scheduler.match(request, 0) == first
    assert len(asked) == 1
    engine.scheduler._track(request).planned_until = 0.0
    assert engine.scheduler.match(request, 0) == first
    assert len(asked) == 2


def test_what_cant_be_read_is_left_untouched():
    engine = Engine()
    request = shown("odd", [1])
    request.mm_features[0].data.pop("image_grid_thw")
    engine.run(request)
    assert engine.sums() == {"requests_passed/unsupported": 1}


def test_copies_dont_pile_up_when_forming_lags():
    engine = Engine(pending_bytes=1)
    engine.worker._count_unformed(1)
    engine.run(shown("first", [1]))
    sums = engine.sums()
    assert "chunks_captured" not in sums
    assert sums["pending_dropped"] == 2
    engine.worker._count_unformed(-1)
    engine.run(solo("s", 2))
    assert engine.sums()["canonicals_kept"] == 1
    assert engine.worker._num_unformed_bytes == 0


def test_a_reset_takes_the_wishes_away(tmp_path):
    engine = Engine(store=str(tmp_path))
    engine.run(shown("first", [1, 2]))
    assert list((tmp_path / "wanted").iterdir())
    engine.scheduler.reset()
    assert list((tmp_path / "wanted").iterdir()) == []


def test_a_load_that_cant_begin_in_time_is_prefilled(monkeypatch):
    engine = Engine()
    learned(engine, [1, 2])
    monkeypatch.setattr("kamera.engines.vllm.worker.LOAD_DEADLINE_S", 0.0)
    held_up = threading.Event()
    engine.worker._loader.submit(held_up.wait)
    request = shown("late", [1, 2])
    matched, _ = engine.scheduler.match(request, 0)
    engine.blocks["late"] = [50, 51]
    engine.scheduler.allocated(request, [50, 51], matched)
    engine.worker.start(engine.scheduler.jobs({}, engine))
    time.sleep(0.01)
    assert engine.worker.finished() == {"late"}
    assert engine.worker.failed_blocks() == {50, 51}
    held_up.set()


def test_the_log_says_what_was_composed_and_why_the_rest_wasnt(caplog):
    engine = Engine(min_tokens=5)
    learned(engine, [1])
    with caplog.at_level("INFO", logger="vllm.kamera"):
        engine.run(shown("again", [1]))
        engine.run(shown("other", [2]))
    served, missed = (record.getMessage() for record in caplog.records)
    assert "again: 12 of 17 tokens composed; 0 text: leading" in served
    assert "1 image: exact (patch of rank" in served
    assert "other: 0 of 17 tokens composed; 0 text: prefill (held, but" in missed
    assert "1 image: prefill (no canonical yet" in missed
