"""Names of patches: as specified, and one for each thing that is named, in whichever way it is asked for."""

import hashlib
from itertools import permutations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kamera.errors import ConfigError
from kamera.identity import PatchNames, encode

A, B, C, D = (hashlib.sha256(name.encode()).hexdigest() for name in "abcd")
windows = st.lists(st.sampled_from([A, B, C, D]), max_size=7)
NAMES = PatchNames(16)


def plain(kind: str, kept: int | str, *parts: bytes) -> str:
    """As the docstring says it."""
    head = encode(["kamera.patch", 2, kind, kept])
    return hashlib.sha256(head + b"".join(parts)).hexdigest()


@given(windows, st.data())
def test_names_of_a_window_are_those_of_each_chunk(window: list[str], data: st.DataObject) -> None:
    places = data.draw(st.sets(st.sampled_from(range(len(window))))) if window else set()
    asked = sorted(places)
    contexts = {place: hashlib.sha256(b"%d" % place).hexdigest() for place in asked}
    raw = [bytes.fromhex(digest) for digest in window]
    assert list(NAMES.exact(window, asked)) == [
        plain("exact", 16, *raw[:place], raw[place]) for place in asked
    ]
    assert list(NAMES.orbit(window, asked)) == [
        plain("orbit", 16, raw[place], *sorted(raw[:place])) for place in asked
    ]
    assert list(NAMES.served(window, contexts)) == [
        plain("served", 16, *raw[: place + 1], bytes.fromhex(contexts[place])) for place in asked
    ]


def test_an_orbit_has_one_name_and_its_orders_have_their_own() -> None:
    windows = [(*order, D) for order in permutations([A, B, C])]
    assert len({name for window in windows for name in NAMES.orbit(window, [3])}) == 1
    assert len({name for window in windows for name in NAMES.exact(window, [3])}) == 6


def test_what_differs_has_another_name() -> None:
    named = [
        name
        for names in (PatchNames(16), PatchNames(8), PatchNames("16"))
        for name in (
            *names.exact([A, B], [0, 1]),
            *names.exact([B, A], [1]),
            *names.exact([A, A, B], [2]),
            *names.orbit([A, B], [0, 1]),
            *names.orbit([B, A], [1]),
            *names.orbit([A, A, B], [2]),
            *names.served([A, B], {0: C, 1: C}),
            *names.served([B, A], {1: C}),
            *names.served([A, B], {0: D}),
            *names.served([A, B, C], {1: D, 2: D}),
        )
    ]
    assert len(set(named)) == len(named)


@pytest.mark.parametrize("bad", ["short", "g" * 64, A[:-2], A + "00", "a" * 62 + "  "])
def test_what_is_no_digest_is_refused(bad: str) -> None:
    for window in ([A, bad], [bad, A]):
        with pytest.raises(ConfigError, match="Not digests"):
            list(NAMES.exact(window, [1]))
        with pytest.raises(ConfigError, match="Not digests"):
            list(NAMES.orbit(window, [1]))
        with pytest.raises(ConfigError, match="Not digests"):
            list(NAMES.served(window, {1: A}))
    with pytest.raises(ConfigError, match="Not digests"):
        list(NAMES.served([A, B], {1: bad}))
