"""How far a model reaches: no forward beyond a switch of its RoPE, a warning beyond its training."""

import logging
from types import SimpleNamespace

import pytest
import torch
from transformers import DynamicCache

from kamera.engines.hf.backbone import Backbone
from kamera.engines.hf.families import family_of
from kamera.engines.hf.trained import num_trained_positions
from kamera.errors import UnsupportedRopeError
from kamera.lab.conformance.build import build_model
from kamera.lab.conformance.models import case_of, case_of_scheme


@pytest.mark.parametrize(("scheme", "reach"), [("longrope", 2048), ("dynamic", 2047)])
def test_a_forward_beyond_the_switch_is_refused(scheme, reach):
    model = build_model(case_of_scheme(scheme))
    backbone = Backbone(model, family_of(model.config))
    ids, positions = list(range(1, 9)), torch.arange(8)[:, None]
    last = reach - 8
    kv, _ = backbone.prefill(ids, positions + last)
    start, _ = backbone.prefill(ids, positions)
    moved = start.to_canonical(positions, backbone.rope).at(positions + last, backbone.rope)
    keys, wanted = moved.tensors["k"][0], kv.tensors["k"][0]
    assert (keys - wanted).abs().max() <= 1e-6 * wanted.abs().max()
    spread = torch.tensor([*range(7), reach])[:, None]  # one late token turns the early ones too
    for beyond in (positions + last + 1, spread):
        with pytest.raises(UnsupportedRopeError, match=f"from position {reach} on"):
            backbone.prefill(ids, beyond)
        with pytest.raises(UnsupportedRopeError, match=f"from position {reach} on"):
            backbone.forward(ids, beyond, DynamicCache())


def test_a_forward_beyond_what_the_model_was_trained_on_is_warned_of_once(caplog):
    """It isn't refused: rotation goes on as before, and Transformers runs it too."""
    model = build_model(case_of("llama"))
    trained = model.config.max_position_embeddings
    ids, positions = list(range(1, 9)), torch.arange(8)[:, None]
    backbone = Backbone(model, family_of(model.config))
    caplog.set_level(logging.WARNING, "kamera")
    within, _ = backbone.prefill(ids, positions + trained - 8)
    assert caplog.messages == []
    for _ in range(2):
        beyond, _ = backbone.prefill(ids, positions + trained - 7)
    assert len(caplog.messages) == 1
    assert f"position {trained:,}: llama was trained on positions below {trained:,}" in caplog.text
    assert beyond.num_tokens == within.num_tokens


@pytest.mark.parametrize(
    ("scaling", "original", "num_trained"),
    [
        ({"rope_type": "default"}, None, 1000),
        ({"rope_type": "linear", "factor": 8.0}, None, 8000),
        ({"rope_type": "yarn", "factor": 4.0}, 1000, 4000),
        ({"rope_type": "yarn", "factor": 4.0}, 250, 1000),  # counted in already
        ({"rope_type": "yarn", "factor": None}, 250, 1000),
        ({"rope_type": "llama3", "factor": 8.0}, 125, 1000),
        ({"full_attention": {"rope_type": "linear", "factor": 8.0}}, None, 1000),
        (None, None, 1000),
    ],
)
def test_scaling_reaches_further_unless_it_is_counted_in(scaling, original, num_trained):
    if original is not None:
        scaling = {**scaling, "original_max_position_embeddings": original}
    config = SimpleNamespace(max_position_embeddings=1000, rope_parameters=scaling)
    assert num_trained_positions(config) == num_trained


def test_a_config_that_does_not_say_is_not_judged():
    assert num_trained_positions(SimpleNamespace()) is None
