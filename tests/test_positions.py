"""Position layouts against a walk that counts token by token."""

import itertools

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kamera.errors import ConfigError
from kamera.positions import Grid, media_layout, text_layout, wrapped_media_layout


def walk(
    frames: list[int], height: int, width: int, before: int, after: int
) -> tuple[list[tuple[int, ...]], int]:
    """Text steps all axes; media stand at the counter; text resumes past the furthest position."""
    counter, found = 0, []
    for _ in range(before):
        found.append((counter,) * 3)
        counter += 1
    for step in frames:
        for row in range(height):
            for column in range(width):
                found.append((counter + step, counter + row, counter + column))
    counter = max([counter - 1, *(max(position) for position in found)]) + 1
    for _ in range(after):
        found.append((counter,) * 3)
        counter += 1
    return found, counter


sides = st.integers(1, 7)


gaps = st.lists(st.integers(0, 5), max_size=4)


@given(gaps=gaps, height=sides, width=sides, before=st.integers(0, 3), after=st.integers(0, 3))
def test_media_take_their_longest_axis_of_the_counter(
    gaps: list[int], height: int, width: int, before: int, after: int
) -> None:
    frames = [0, *itertools.accumulate(gaps)]
    layout = wrapped_media_layout(frames, height, width, before, after)
    local, extent = walk(frames, height, width, before, after)
    assert layout.local.tolist() == [list(p) for p in local]
    assert layout.extent == extent
    assert layout.local.dtype == torch.int64


@given(num_tokens=st.integers(1, 50), num_axes=st.sampled_from([1, 3]))
def test_text_counts_the_same_on_every_axis(num_tokens: int, num_axes: int) -> None:
    layout = text_layout(num_tokens, num_axes)
    assert layout.local.tolist() == [[i] * num_axes for i in range(num_tokens)]
    assert layout.extent == num_tokens


@given(start=st.integers(0, 10**9))
def test_a_chunk_moves_as_one(start: int) -> None:
    layout = wrapped_media_layout((0,), 2, 5, 1, 1)
    assert (layout.at(start) - layout.local).unique().tolist() == [start]
    assert layout.at(start)[0].tolist() == [start] * 3


def test_layouts_own_their_memory() -> None:
    """A broadcast view would alias all axes."""
    for layout in (text_layout(4, 3), wrapped_media_layout((0,), 2, 3, 1, 1)):
        assert layout.local.is_contiguous()


@pytest.mark.parametrize("num_tokens", [0, -1])
def test_an_empty_text_is_refused(num_tokens: int) -> None:
    with pytest.raises(ConfigError, match="num_tokens"):
        text_layout(num_tokens, 3)


@pytest.mark.parametrize("shape", [(0, 3, 1, 1), (3, 0, 1, 1), (2, 2, -1, 1), (2, 2, 1, -1)])
def test_an_impossible_image_is_refused(shape: tuple[int, int, int, int]) -> None:
    with pytest.raises(ConfigError, match="media layout"):
        wrapped_media_layout((0,), *shape)


@pytest.mark.parametrize("frames", [(), (1,), (0, 2, 1), (-1, 0)])
def test_frames_that_do_not_run_forward_from_zero_are_refused(frames: tuple[int, ...]) -> None:
    with pytest.raises(ConfigError, match="frames"):
        wrapped_media_layout(frames, 2, 2, 1, 1)


runs = st.lists(
    st.one_of(
        st.integers(1, 4),
        st.builds(
            Grid,
            st.lists(st.integers(0, 4), max_size=3).map(
                lambda gaps: (0, *itertools.accumulate(gaps))
            ),
            sides,
            sides,
        ),
    ),
    min_size=1,
    max_size=5,
)


@given(parts=runs)
def test_text_and_grids_stand_one_behind_the_other(parts: list[int | Grid]) -> None:
    """Texts are numbers of tokens; two grids in a row are kept apart by one token."""
    apart: list[int | Grid] = []
    for part in parts:
        if apart and isinstance(part, Grid) and isinstance(apart[-1], Grid):
            apart.append(1)
        apart.append(part)
    counter, expected, is_media = 0, [], []
    for part in apart:
        if isinstance(part, Grid):
            local, extent = walk(list(part.frames), part.height, part.width, 0, 0)
        else:
            local, extent = [(i,) * 3 for i in range(part)], part
        expected += [[counter + axis for axis in position] for position in local]
        is_media += [isinstance(part, Grid)] * len(local)
        counter += extent
    layout = media_layout(is_media, [part for part in apart if isinstance(part, Grid)])
    assert layout.local.tolist() == expected
    assert layout.extent == counter


@pytest.mark.parametrize(
    ("is_media", "grids"),
    [
        ([True] * 5, [Grid((0,), 2, 3)]),
        ([True] * 6, []),
        ([False], [Grid((0,), 2, 3)]),
        ([True] * 12, [Grid((0,), 2, 3)] * 2),
        ([], []),
    ],
)
def test_runs_that_are_not_the_grids_are_refused(is_media: list[bool], grids: list[Grid]) -> None:
    with pytest.raises(ConfigError, match="media layout"):
        media_layout(is_media, grids)
