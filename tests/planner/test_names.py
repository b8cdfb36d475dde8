"""Names that grow with the window are the names of the whole."""

from hypothesis import given
from hypothesis import strategies as st

from kamera.planner import Front, PatchRecord, context_of, formed_name, served_name

texts = st.text(max_size=3)


@given(st.lists(st.tuples(texts, texts), max_size=6))
def test_a_front_is_named_as_its_parts_are(parts: list[tuple[str, str]]) -> None:
    front = Front()
    for count in range(len(parts) + 1):
        chunks = [chunk for chunk, _ in parts[:count]]
        names = [name for _, name in parts[:count]]
        assert front.context == ("" if names == chunks else context_of(names))
        if count < len(parts):
            front.add(*parts[count])


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_different_parts_have_different_names(a: list[str], b: list[str]) -> None:
    assert (context_of(a) == context_of(b)) == (a == b)
    assert (served_name("c", *a) == served_name("c", *b)) == (a == b)


@given(texts, texts, texts, texts)
def test_formed_kv_is_named_by_its_chunk_and_its_context(a: str, b: str, c: str, d: str) -> None:
    assert formed_name(a, "") == a
    if b and d:
        assert (formed_name(a, b) == formed_name(c, d)) == ((a, b) == (c, d))
        assert formed_name(a, b) != served_name(a, b)


def test_a_patch_names_the_kv_that_it_serves() -> None:
    exact = PatchRecord("the patch's own", "exact", ("a", "b"), 8)
    assert exact.kv_name("c") == "the patch's own"
    assert exact._replace(kind="orbit").kv_name("c") == "the patch's own"
    served = PatchRecord("the patch's own", "served", ("a", "b"), 8, "context")
    assert served.kv_name("c") == formed_name("c", "context")
