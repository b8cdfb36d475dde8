"""The doctor's table and the engine's are one: a model that is called supported can be loaded."""

import pytest

from kamera.engines.hf.families import FAMILIES
from kamera.support import SERVED


@pytest.mark.parametrize("kind", sorted({*SERVED, *FAMILIES}))
def test_a_served_family_is_the_engine_s(kind: str) -> None:
    assert kind in FAMILIES, (
        "the engine has no such family: support/families.py says that it is served"
    )
    assert kind in SERVED, "the engine serves it: give it a row in support/families.py"
    ours, engine = SERVED[kind], FAMILIES[kind]
    assert ours.model_class == engine.model_class
    assert ours.modalities == ("text", *(modality.kind for modality in engine.modalities))


def test_every_family_that_may_hold_some_texts_serves_each_on_its_own() -> None:
    for family in SERVED.values():
        assert set(family.texts) <= set(FAMILIES)
