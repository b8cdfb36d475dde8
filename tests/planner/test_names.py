"""Names that grow with the window are the names of the whole."""

from hypothesis import given
from hypothesis import strategies as st

from kamera.planner import Front, PatchRecord, context_of, made_of, served_name

texts = st.text(max_size=3)


@given(st.lists(st.tuples(texts, texts), max_size=6))
def test_a_front_is_named_as_its_parts_are(parts: list[tuple[str, str]]) -> None:
    front = Front()
    for count in range(len(parts) + 1):
        chunks = [chunk for chunk, _ in parts[:count]]
        names = [name for _, name in parts[:count]]
        assert front.behind == context_of(chunks)
        assert front.context == ("" if names == chunks else context_of(names))
        if count < len(parts):
            front.add(*parts[count])


@given(st.lists(texts, max_size=4), st.lists(texts, max_size=4))
def test_different_parts_have_different_names(a: list[str], b: list[str]) -> None:
    assert (context_of(a) == context_of(b)) == (a == b)
    assert (served_name("c", *a) == served_name("c", *b)) == (a == b)


def test_a_patchs_kv_is_named_by_its_kind_rank_and_antecedents() -> None:
    named = {
        made_of(PatchRecord("exact", ("a", "b"), 8)),
        made_of(PatchRecord("orbit", ("a", "b"), 8)),
        made_of(PatchRecord("exact", ("a", "b"), 16)),
        made_of(PatchRecord("exact", ("b", "a"), 8)),
        made_of(PatchRecord("served", ("a", "b"), 8, "context")),
        made_of(PatchRecord("served", ("a", "b"), 8, "other")),
    }
    assert len(named) == 6
    assert made_of(PatchRecord("exact", ("a",), 8), context_of(["a"])) == made_of(
        PatchRecord("exact", ("a",), 8)
    )
