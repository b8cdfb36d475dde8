"""A RoPE scheme that switches: the engine runs no forward beyond the switch."""

import pytest
import torch
from transformers import DynamicCache, LlamaConfig, LlamaForCausalLM

from kamera.engines.hf.backbone import Backbone
from kamera.engines.hf.families import family_of
from kamera.errors import UnsupportedRopeError

LONGROPE = {
    "rope_type": "longrope",
    "rope_theta": 1e4,
    "short_factor": [1.0] * 8,
    "long_factor": [4.0] * 8,
    "factor": 4.0,
    "original_max_position_embeddings": 64,
}
DYNAMIC = {"rope_type": "dynamic", "rope_theta": 1e4, "factor": 4.0}


@pytest.mark.parametrize(
    ("parameters", "length", "reach"), [(LONGROPE, 256, 64), (DYNAMIC, 64, 63)]
)
def test_a_forward_beyond_the_switch_is_refused(parameters, length, reach):
    torch.manual_seed(0)
    config = LlamaConfig(
        vocab_size=32,
        hidden_size=32,
        intermediate_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        num_key_value_heads=1,
        max_position_embeddings=length,
        rope_parameters=parameters,
    )
    backbone = Backbone(LlamaForCausalLM(config), family_of(config))
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
