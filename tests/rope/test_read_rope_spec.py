"""Reading a spec: from the module's own buffer, and refused with the true reason otherwise."""

from types import SimpleNamespace

import pytest
import torch
from transformers import Qwen3VLTextConfig
from transformers.models.cohere.configuration_cohere import CohereConfig
from transformers.models.cohere.modeling_cohere import CohereRotaryEmbedding
from transformers.models.qwen2_5_vl.configuration_qwen2_5_vl import Qwen2_5_VLTextConfig
from transformers.models.qwen2_5_vl.modeling_qwen2_5_vl import Qwen2_5_VLRotaryEmbedding
from transformers.models.qwen3_vl.modeling_qwen3_vl import Qwen3VLTextRotaryEmbedding

from kamera.errors import ConfigError, UnsupportedRopeError
from kamera.rope import read_rope_spec

INV_FREQ = torch.logspace(0, -5, 8)


def fake(rope_parameters=None, head_dim=16, **module):
    rotary = SimpleNamespace(**{"inv_freq": INV_FREQ, **module})
    return rotary, SimpleNamespace(rope_parameters=rope_parameters or {}, head_dim=head_dim)


def sizes():
    return {
        "hidden_size": 128,
        "num_attention_heads": 4,
        "num_key_value_heads": 2,
        "vocab_size": 64,
    }


def test_sections_become_one_axis_for_each_pair():
    spec = read_rope_spec(*fake({"rope_type": "default"}, mrope_section=[2, 3, 3]))
    assert spec.num_axes == 3
    assert spec.axes == (0, 0, 1, 1, 1, 2, 2, 2)


def test_more_than_three_sections_wrap_around_the_axes():
    spec = read_rope_spec(*fake({"mrope_section": [1, 1, 1, 2, 2, 1]}))
    assert spec.axes == (0, 1, 2, 0, 0, 1, 1, 2)


def test_frequencies_are_the_buffer_whatever_theta_says():
    spec = read_rope_spec(*fake({"rope_type": "default", "rope_theta": 123.0}))
    assert torch.equal(spec.inv_freq_tensor(), INV_FREQ)


def test_a_bf16_buffer_is_read_as_the_model_widens_it():
    rotary, config = fake(inv_freq=INV_FREQ.bfloat16())
    assert torch.equal(
        read_rope_spec(rotary, config).inv_freq_tensor(), INV_FREQ.bfloat16().float()
    )


def test_head_dim_falls_back_to_hidden_size_over_heads():
    rotary, _ = fake()
    config = SimpleNamespace(rope_parameters={}, hidden_size=64, num_attention_heads=4)
    assert read_rope_spec(rotary, config).head_dim == 16


@pytest.mark.parametrize(
    ("parameters", "module", "message"),
    [
        ({"rope_type": "dynamic"}, {}, "dynamic NTK changes every frequency"),
        ({"rope_type": "longrope"}, {}, "switches between two sets"),
        ({"rope_type": "proportional"}, {}, "proportional"),
        ({"rope_type": "default"}, {"rope_type": "dynamic"}, "dynamic NTK"),
        ({"rope_type": "axial"}, {}, "'axial' isn't known to be a pure rotation"),
        ({"mrope_section": [2, 3, 3], "mrope_interleaved": True}, {}, "interleaved M-RoPE"),
        ({}, {"inv_freq": INV_FREQ[:4]}, "partial rotary.*8 of 16"),
        ({"full_attention": {"rope_type": "default"}}, {}, "one RoPE base per layer type"),
        ({}, {"rope_type": {"full_attention": "default"}}, "one RoPE base per layer type"),
    ],
)
def test_a_scheme_that_is_not_there_is_refused_with_its_reason(parameters, module, message):
    with pytest.raises(UnsupportedRopeError, match=message):
        read_rope_spec(*fake(parameters, **module))


@pytest.mark.parametrize(
    ("rotary", "config", "message"),
    [
        (SimpleNamespace(), fake()[1], "inv_freq: expected a tensor"),
        (SimpleNamespace(inv_freq=INV_FREQ.to("meta")), fake()[1], "meta device"),
        (fake()[0], SimpleNamespace(head_dim=16), "get_text_config"),
        (fake()[0], SimpleNamespace(rope_parameters={}), "expected head_dim"),
        (fake()[0], fake({"mrope_section": [2, 3, 4]})[1], "add up to N=8"),
    ],
)
def test_an_attribute_that_cannot_be_right_is_refused(rotary, config, message):
    with pytest.raises(ConfigError, match=message):
        read_rope_spec(rotary, config)


def test_the_real_qwen2_5_vl_module_is_sectioned():
    parameters = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [4, 6, 6]}
    config = Qwen2_5_VLTextConfig(**sizes(), rope_parameters=parameters)
    spec = read_rope_spec(Qwen2_5_VLRotaryEmbedding(config), config)
    assert spec.axes == (0,) * 4 + (1,) * 6 + (2,) * 6


def test_qwen3_vl_is_refused_even_when_its_config_does_not_say_interleaved():
    parameters = {"rope_type": "default", "rope_theta": 1e6, "mrope_section": [6, 5, 5]}
    config = Qwen3VLTextConfig(**sizes(), head_dim=32, rope_parameters=parameters)
    with pytest.raises(UnsupportedRopeError, match="axes or pairs that interleave"):
        read_rope_spec(Qwen3VLTextRotaryEmbedding(config), config)


def test_a_module_that_interleaves_its_pairs_is_caught_by_the_probe():
    config = CohereConfig(**sizes(), rope_parameters={"rope_type": "default", "rope_theta": 1e4})
    with pytest.raises(UnsupportedRopeError, match="CohereRotaryEmbedding isn't the half layout"):
        read_rope_spec(CohereRotaryEmbedding(config), config)
