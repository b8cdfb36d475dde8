"""A template gives the digest of the whole value, whatever its texts are."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from kamera.errors import ConfigError
from kamera.identity import DigestTemplate, digest


def value_of(first: str, second: str) -> dict[str, object]:
    """The texts stand in another order than they are given in, among signs that a format could trip on."""
    return {"z": [first, 7, "%b"], "a": second, "%": None}


TEMPLATE = DigestTemplate("test", 3, value_of, 4, 6)
fours = st.text(alphabet="%\x01\x02bS", min_size=4, max_size=4)
sixes = st.text(alphabet="%\x01\x02bS", min_size=6, max_size=6)


@given(fours, sixes)
def test_a_template_gives_the_digest_of_the_value(first: str, second: str) -> None:
    assert TEMPLATE.digest(first, second) == digest("test", 3, value_of(first, second))


@pytest.mark.parametrize(
    "texts", [("four", "seven77"), ("four",), ("six666", "four"), ("fouré"[1:], "six666")]
)
def test_a_text_of_another_length_is_refused(texts: tuple[str, ...]) -> None:
    with pytest.raises(ConfigError, match="lengths"):
        TEMPLATE.digest(*texts)


def test_a_value_that_leaves_a_text_out_or_repeats_it_is_refused() -> None:
    with pytest.raises(ConfigError, match="each text once"):
        DigestTemplate("test", 1, lambda text: ["nothing"], 4)
    with pytest.raises(ConfigError, match="each text once"):
        DigestTemplate("test", 1, lambda text: [text, text], 4)
