"""Reading a spec: from the module's own buffer, and refused with the true reason otherwise."""

import dataclasses
from types import SimpleNamespace

import pytest
import torch
from rope_models import LAYERED, MODELS

from kamera.errors import ConfigError, UnsupportedRopeError
from kamera.rope import PerLayerRope, RopeSpec, read_rope_spec
from kamera.rope.axes import interleaved_axes

INV_FREQ = torch.logspace(0, -5, 8)


def fake(rope_parameters=None, head_dim=16, **module):
    rotary = SimpleNamespace(**{"inv_freq": INV_FREQ, **module})
    return rotary, SimpleNamespace(rope_parameters=rope_parameters or {}, head_dim=head_dim)


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


@pytest.mark.parametrize("module", [{}, {"rope_type": "axial"}])
def test_an_unknown_scheme_is_refused(module):
    parameters = {} if module else {"rope_type": "axial"}
    with pytest.raises(UnsupportedRopeError, match="'axial' isn't known to be a pure rotation"):
        read_rope_spec(*fake(parameters, **module))


def test_fewer_frequencies_than_half_a_head_are_partial_rotary():
    spec = read_rope_spec(*fake(inv_freq=INV_FREQ[:4]))
    assert (spec.rotary_dim, spec.head_dim) == (8, 16)


def test_mla_rotates_heads_of_qk_rope_head_dim():
    rotary, config = fake(head_dim=192)
    config.qk_rope_head_dim = 16
    assert read_rope_spec(rotary, config).head_dim == 16


def test_the_config_tells_interleaved_axes_of_a_module_that_cannot_be_asked():
    spec = read_rope_spec(*fake({"mrope_section": [2, 3, 3], "mrope_interleaved": True}))
    assert spec.axes == (0, 1, 2, 0, 1, 2, 0, 1)  # the head ends before w has its third
    for section in ([2, 3, 3], [4, 2, 2], [6, 1, 1], [8, 0, 0], [0, 4, 4]):
        axes = interleaved_axes(section, 8)
        from_model = [0] * 8
        for axis in (1, 2):
            for pair in range(8)[axis : section[axis] * 3 : 3]:
                from_model[pair] = axis
        assert list(axes) == from_model


def test_a_layout_that_was_given_is_kept():
    assert read_rope_spec(*fake(), layout="pairs").layout == "pairs"


@pytest.mark.parametrize(
    ("parameters", "module", "config", "bound"),
    [
        ({"rope_type": "longrope", "original_max_position_embeddings": 64}, {}, {}, 64),
        ({"rope_type": "longrope"}, {}, {"original_max_position_embeddings": 48}, 48),
        ({"rope_type": "dynamic"}, {"original_max_seq_len": 64}, {}, 63),
        ({"rope_type": "dynamic"}, {}, {"max_position_embeddings": 32}, 31),
    ],
)
def test_a_scheme_with_a_switch_reads_the_frequencies_below_it(parameters, module, config, bound):
    rotary, text = fake(parameters, original_inv_freq=INV_FREQ / 2, **module)
    vars(text).update(config)
    spec = read_rope_spec(rotary, text)
    assert spec.max_positions == bound
    assert torch.equal(spec.inv_freq_tensor(), INV_FREQ / 2)


@pytest.mark.parametrize("scheme", ["dynamic", "longrope"])
def test_a_switch_at_an_unknown_length_is_refused(scheme):
    with pytest.raises(ConfigError, match=f"max_position_embeddings at which {scheme} RoPE"):
        read_rope_spec(*fake({"rope_type": scheme}))


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


def by_type(layer_types=("near", "far", "near"), **module):
    parameters = {"near": {"rope_type": "default"}, "far": {"rope_type": "linear"}, "none": None}
    buffers = {"near_inv_freq": INV_FREQ, "far_inv_freq": INV_FREQ / 8, **module}
    rotary, config = fake(parameters, rope_type={"near": "default", "far": "linear"}, **buffers)
    config.layer_types = list(layer_types)
    return rotary, config


def test_layer_types_become_one_spec_for_each_layer():
    rope = read_rope_spec(*by_type(far_attention_scaling=1.5))
    assert isinstance(rope, PerLayerRope)
    assert rope.layers == (0, 1, 0)
    assert [spec.scheme for spec in rope.specs] == ["default", "linear"]
    assert [spec.attention_scaling for spec in rope.specs] == [1.0, 1.5]
    assert torch.equal(rope.layer(1).inv_freq_tensor(), INV_FREQ / 8)


def test_layers_that_all_rotate_alike_are_one_spec():
    assert isinstance(read_rope_spec(*by_type(("near", "near"))), RopeSpec)


def test_layer_types_that_do_not_fit_are_refused():
    rotary, config = by_type(("near", "none"))
    with pytest.raises(UnsupportedRopeError, match="'none' have no rotary parameters"):
        read_rope_spec(rotary, config)
    del config.layer_types
    with pytest.raises(ConfigError, match="expected layer_types beside rope_parameters"):
        read_rope_spec(rotary, config)


def test_heads_of_different_sizes_are_refused_with_the_reason():
    model = dataclasses.replace(LAYERED["gemma4"], extra={"head_dim": 32, "global_head_dim": 64})
    sizes = "{'sliding_attention': 32, 'full_attention': 64}"
    with pytest.raises(UnsupportedRopeError, match=f"differ between layer types .*{sizes}"):
        model.read()


# The probe: what the config doesn't tell is asked of the module.


@pytest.mark.parametrize("name", MODELS)
def test_a_layout_that_is_not_the_model_s_is_caught(name):
    rotary, config = MODELS[name].build()
    right = MODELS[name].layout
    assert read_rope_spec(rotary, config, layout=right).layout == right
    wrong = "half" if right == "pairs" else "pairs"
    message = f"isn't the {wrong} layout|which the half layout can't use"
    with pytest.raises(
        UnsupportedRopeError, match=f"{type(rotary).__name__} isn't what .*{message}"
    ):
        read_rope_spec(rotary, config, layout=wrong)


@pytest.mark.parametrize("name", [name for name in MODELS if MODELS[name].axes])
def test_axes_that_are_not_the_model_s_are_caught(name):
    rotary, config = MODELS[name].build()
    forward = type(rotary).forward
    swapped = [0, 2, 1]
    rotary.forward = lambda x, position_ids: forward(rotary, x, position_ids[swapped])
    with pytest.raises(UnsupportedRopeError, match="differ from those of inv_freq"):
        read_rope_spec(rotary, config)


def test_a_config_that_claims_interleaved_axes_of_a_sectioned_module_is_caught():
    rotary, config = MODELS["qwen2_5_vl"].build()
    config.rope_parameters["mrope_interleaved"] = True
    with pytest.raises(UnsupportedRopeError, match="over the axes thwthw"):
        read_rope_spec(rotary, config)


@pytest.mark.parametrize("pair", [0, 9, 15])
def test_a_frequency_that_is_not_the_one_in_use_is_caught(pair):
    rotary, config = MODELS["llama"].build()
    used = rotary.inv_freq.clone()
    rotary.forward = lambda x, position_ids: tables(position_ids, used)
    assert read_rope_spec(rotary, config).num_pairs == 16
    used[pair] *= 1.01
    with pytest.raises(UnsupportedRopeError, match="differ from those of inv_freq"):
        read_rope_spec(rotary, config)


def tables(position_ids, inv_freq, form="halves"):
    freqs = position_ids[..., None].float() * inv_freq
    if form == "complex":
        return torch.polar(torch.ones_like(freqs), freqs)
    if form != "plain":
        halves = torch.cat([freqs, freqs], dim=-1)
        freqs = halves if form == "halves" else freqs.repeat_interleave(2, dim=-1)
    return freqs.cos(), freqs.sin()


class Foreign(torch.nn.Module):
    """A rotary module of this file, which has no apply function to ask."""

    inv_freq = INV_FREQ

    def __init__(self, form):
        super().__init__()
        self.form = form

    def forward(self, x, position_ids):
        return tables(position_ids, self.inv_freq, self.form)


@pytest.mark.parametrize(
    ("form", "layout"), [("halves", "half"), ("neighbours", "pairs"), ("complex", "pairs")]
)
def test_without_an_apply_function_the_table_suggests_the_layout(form, layout):
    config = fake()[1]
    assert read_rope_spec(Foreign(form), config).layout == layout
    assert read_rope_spec(Foreign(form), config, layout=layout).layout == layout


def test_without_an_apply_function_a_given_layout_wins_where_the_table_allows_it():
    config = fake()[1]
    for form in ("halves", "plain", "complex"):
        for layout in ("half", "pairs"):
            assert read_rope_spec(Foreign(form), config, layout=layout).layout == layout
    with pytest.raises(UnsupportedRopeError, match="gives neighbours one angle"):
        read_rope_spec(Foreign("neighbours"), config, layout="half")
    with pytest.raises(UnsupportedRopeError, match=r"doesn't look like .*; pass layout="):
        read_rope_spec(Foreign("plain"), config)
