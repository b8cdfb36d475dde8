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
    assert set(engine.texts) <= {ours.text, *ours.texts}
    assert set(ours.texts) <= set(engine.texts)
