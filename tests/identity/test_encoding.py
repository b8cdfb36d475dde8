"""Two different values never share their bytes; equal values always do."""

import struct

import numpy as np
import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st

from kamera.errors import ConfigError
from kamera.identity import digest, encode
from kamera.identity.encoding import MAX_DEPTH

SCALARS = (
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(max_size=8)
    | st.binary(max_size=8)
)
VALUES = st.recursive(
    SCALARS,
    lambda inner: (
        st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=4), inner, max_size=4)
    ),
    max_leaves=10,
)


def typed(value: object) -> object:
    """`value` so that == tells 1, True and 1.0, and 0.0 and -0.0, apart."""
    if isinstance(value, list):
        return ("list", [typed(item) for item in value])
    if isinstance(value, dict):
        return ("dict", {key: typed(item) for key, item in value.items()})
    if isinstance(value, float):
        return ("float", struct.pack("<d", value))
    return (type(value).__name__, value)


@given(VALUES, VALUES)
def test_values_differ_exactly_where_their_bytes_do(left: object, right: object) -> None:
    assert (encode(left) == encode(right)) == (typed(left) == typed(right))


@given(st.lists(st.text(max_size=3), min_size=2, max_size=5))
def test_moving_a_character_between_neighbours_changes_the_bytes(words: list[str]) -> None:
    words[0] += "x"
    moved = [words[0][:-1], "x" + words[1], *words[2:]]
    assert encode(words) != encode(moved)


def test_golden_bytes() -> None:
    assert encode({"b": [1, True], "a": None}).hex() == (
        "4d" "3a00000000000000"
        "53" "0100000000000000" "61"
        "4e" "0000000000000000"
        "53" "0100000000000000" "62"
        "4c" "1400000000000000"
        "49" "0100000000000000" "01"
        "42" "0100000000000000" "01"
    )  # fmt: skip


@pytest.mark.parametrize(
    ("left", "right"),
    [
        (["ab", "c"], ["a", "bc"]),
        (["a", ["b"]], [["a"], "b"]),
        ([], [[]]),
        ([], {}),
        (None, []),
        ("1", b"1"),
        (0.0, -0.0),
        (255, -1),
        (np.zeros((30, 100), np.uint8), np.zeros((100, 30), np.uint8)),
        (np.zeros(4, np.float32), np.zeros(4, np.int32)),
        (torch.zeros(4, dtype=torch.float16), torch.zeros(4, dtype=torch.bfloat16)),
        (np.zeros(()), np.zeros(1)),
        (np.zeros((0, 2)), np.zeros((2, 0))),
    ],
)
def test_look_alikes_differ(left: object, right: object) -> None:
    assert encode(left) != encode(right)


def test_one_true_one_point_zero_and_the_string_one_are_four_values() -> None:
    assert len({encode(value) for value in (1, True, 1.0, "1")}) == 4


def test_nan_is_its_bits() -> None:
    assert encode(float("nan")) == encode(float("nan"))


def test_the_order_of_a_dicts_keys_is_nothing() -> None:
    assert encode({"a": 1, "b": 2}) == encode({"b": 2, "a": 1})


def test_a_tuple_is_a_list() -> None:
    assert encode((1, (2,))) == encode([1, [2]])


@pytest.mark.parametrize("dtype", ["uint8", "int64", "float16", "float32", "float64", "bool"])
@pytest.mark.parametrize("shape", [(), (0,), (3, 5)])
def test_torch_and_numpy_agree(dtype: str, shape: tuple[int, ...]) -> None:
    array = np.arange(np.prod(shape)).reshape(shape).astype(dtype)
    assert encode(array) == encode(torch.from_numpy(array.copy()))


def test_memory_order_and_byte_order_are_nothing() -> None:
    array = np.arange(6, dtype="<i4").reshape(2, 3)
    assert encode(np.asfortranarray(array)) == encode(array) == encode(array.astype(">i4"))
    assert encode(torch.from_numpy(array).t().contiguous().t()) == encode(array)


@pytest.mark.parametrize(
    "value",
    [
        object(),
        {1, 2},
        1j,
        {1: "a"},
        np.float32(1.0),
        np.array(["a"]),
        np.array([object()]),
        np.ma.masked_array([1], [True]),
        torch.zeros(2, device="meta"),
        torch.zeros(2, dtype=torch.complex64),
        torch.eye(2).to_sparse(),
        "\ud800",
    ],
)
def test_other_types_are_refused(value: object) -> None:
    with pytest.raises(ConfigError, match="can't be part of an identity"):
        encode([value])


def test_a_list_that_holds_itself_is_refused() -> None:
    loop: list[object] = []
    loop.append(loop)
    with pytest.raises(ConfigError, match=str(MAX_DEPTH)):
        encode(loop)


def test_domain_and_version_separate_equal_values() -> None:
    digests = {digest("a", 1, "x"), digest("b", 1, "x"), digest("a", 2, "x"), digest("a", 1, "y")}
    assert len(digests) == 4


def test_golden_digest() -> None:
    value = {"ids": [1, 2], "pixels": np.arange(4, dtype=np.uint8)}
    assert (
        digest("kamera.test", 1, value)
        == "844ec6f3860908648072116c69a088a20db4d3a37b61238f3f456867ddb15e32"
    )
