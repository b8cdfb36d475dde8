"""A request's tokens and media become chunks by content, with their wrappers, and a tail."""

import pytest
from connector_doubles import END, PAD, START, WRAPPING, FakeModel, image, shown

from kamera.engines.vllm.chunking import Item, Run, Wrapping, identity_of
from kamera.errors import ConfigError
from kamera.positions import wrapped_media_layout

KEY = FakeModel().keys(None)[0]


def items(request):
    return [
        Item(
            f.mm_position.offset,
            f.mm_position.length,
            identity_of({name: field.data for name, field in f.data.items()}),
            f.data["image_grid_thw"].data,
        )
        for f in request.mm_features
    ]


def cut(request):
    return WRAPPING.cut(request.prompt_token_ids, items(request))


def test_media_take_their_wrappers_and_the_tail_is_left():
    runs = cut(shown("a", [1, 2]))
    assert [(run.begin, run.end) for run in runs] == [(0, 4), (4, 12), (12, 20)]
    assert [run.item is None for run in runs] == [True, False, False]


def test_text_between_media_is_a_chunk():
    request = shown("a", [1])
    second = image(2, len(request.prompt_token_ids) + 1)
    request.prompt_token_ids += [START, *[PAD] * 6, END, 77]
    request.mm_features.append(second)
    runs = cut(request)
    assert [(run.begin, run.end) for run in runs] == [(0, 4), (4, 12), (12, 17), (17, 25)]


@pytest.mark.parametrize(
    ("around", "expected"), [((3, END), (1, 8)), ((START, 3), (0, 7)), ((3, 3), (1, 7))]
)
def test_a_wrapper_that_isnt_there_is_not_taken(around, expected):
    ids = [around[0], *[PAD] * 6, around[1], 5]
    run = WRAPPING.cut(ids, [Item(1, 6, items(shown("a", [1]))[0].identity)])[-1]
    assert (run.begin, run.end) == expected


def test_positions_are_the_families_own():
    request = shown("a", [1])
    run = cut(request)[1]
    chunk = WRAPPING.chunk(run, request.prompt_token_ids, KEY, None)
    expected = wrapped_media_layout((0,), 2, 3, 1, 1)
    assert chunk.layout.local.equal(expected.local)
    assert chunk.extent == expected.extent == 1 + 3 + 1


def test_pixels_and_tokens_and_tenant_name_a_chunk_and_nothing_else_does():
    def digest(pixels, tenant=None, prefix=4):
        request = shown("any", [pixels], prefix=prefix)
        run = cut(request)[1]
        return WRAPPING.chunk(run, request.prompt_token_ids, KEY, tenant).digest

    assert digest(1) == digest(1) == digest(1, prefix=9)
    assert len({digest(1), digest(2), digest(1, "t"), digest(1, "")}) == 4


def test_a_grid_of_another_size_than_the_placeholders_is_refused():
    request = shown("a", [1])
    item = items(request)[0]
    wrong = Item(item.offset, item.length, item.identity, item.grid * 2)
    with pytest.raises(ConfigError, match=r"Invalid media layout|steps in time"):
        WRAPPING.chunk(Run(4, 12, wrong), request.prompt_token_ids, KEY, None)


def test_counts_cut_a_text():
    plain = Wrapping((), (), num_axes=1)
    runs = plain.cut(range(10), [], [3, 4])
    assert [(run.begin, run.end) for run in runs] == [(0, 3), (3, 7)]


@pytest.mark.parametrize("counts", [[10], [3, 0], [3, -1]])
def test_counts_that_cant_be_right_are_refused(counts):
    with pytest.raises(ConfigError, match="chunk lengths"):
        Wrapping((), (), num_axes=1).cut(range(10), [], counts)
