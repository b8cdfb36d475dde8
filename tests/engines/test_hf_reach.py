"""A RoPE scheme that switches: the engine runs no forward beyond the switch."""

import pytest
import torch
from transformers import DynamicCache

from kamera.engines.hf.backbone import Backbone
from kamera.engines.hf.families import family_of
from kamera.errors import UnsupportedRopeError
from kamera.lab.conformance.build import build_model
from kamera.lab.conformance.models import case_of_scheme


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
