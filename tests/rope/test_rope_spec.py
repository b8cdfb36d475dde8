"""RopeSpec: validated when made, refuses what isn't there, and has an exact fingerprint."""

import dataclasses
import json

import pytest
import torch
from rope_reference import make_spec

from kamera.errors import ConfigError
from kamera.rope import RopeSpec


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("inv_freq", (), "got none"),
        ("inv_freq", (float("nan"),) * 8, "finite"),
        ("inv_freq", (-1.0,) * 8, "finite >= 0"),
        ("inv_freq", (0.1,) * 8, "float32"),
        ("axes", (0,) * 7, "N=8 pairs, got 7"),
        ("axes", (3,) * 8, "expected 0..2, got 3"),
        ("num_axes", 2, r"expected one of \(1, 3\), got 2"),
        ("head_dim", 14, "2N=16 rotated channels, got 14"),
        ("attention_scaling", 0.0, "finite > 0"),
        ("max_positions", 0, "max_positions: expected >= 1, got 0"),
    ],
)
def test_a_field_that_cannot_be_right_is_refused(field, value, message):
    with pytest.raises(ConfigError, match=message):
        dataclasses.replace(make_spec(), **{field: value})


@pytest.mark.usefixtures("unchecked")
def test_an_unknown_layout_is_refused():
    with pytest.raises(ConfigError, match="expected one of \\('half', 'pairs'\\), got 'thirds'"):
        dataclasses.replace(make_spec(), layout="thirds")


def test_partial_rotary_is_the_frequencies_of_fewer_channels_than_the_head_has():
    spec = dataclasses.replace(make_spec(), head_dim=32)
    assert (spec.rotary_dim, spec.head_dim) == (16, 32)


def test_the_frequencies_keep_the_bits_of_the_buffer():
    buffer = 1.0 / (1e6 ** (torch.arange(0, 16, 2) / 16))
    spec = dataclasses.replace(make_spec(), inv_freq=tuple(buffer.tolist()))
    assert torch.equal(spec.inv_freq_tensor(), buffer)


def test_every_field_reaches_the_fingerprint():
    spec = make_spec()
    changes = {
        "inv_freq": (0.5, *spec.inv_freq[1:]),
        "axes": (1, *spec.axes[1:]),
        "attention_scaling": 1.25,
        "scheme": "yarn",
        "layout": "pairs",
        "head_dim": 32,
        "max_positions": 4096,
    }
    prints = [json.dumps(spec.fingerprint(), sort_keys=True)]
    for field, value in changes.items():
        changed = dataclasses.replace(spec, **{field: value})
        prints.append(json.dumps(changed.fingerprint(), sort_keys=True))
    assert len(set(prints)) == len(prints)
    bounded = dataclasses.replace(spec, max_positions=4096)
    assert set(bounded.fingerprint()) == {field.name for field in dataclasses.fields(RopeSpec)}


def test_the_fingerprint_of_a_spec_of_version_0_1_0_has_not_changed():
    """The digests of stores that were written before `max_positions` was a field stay valid."""
    spec = RopeSpec((1.0, 0.5), (0, 0), num_axes=1, head_dim=4)
    assert spec.fingerprint() == {
        "attention_scaling": "0x1.0000000000000p+0",
        "axes": [0, 0],
        "head_dim": 4,
        "inv_freq": ["0x1.0000000000000p+0", "0x1.0000000000000p-1"],
        "layout": "half",
        "num_axes": 1,
        "scheme": "default",
    }


def test_neighbouring_float32_frequencies_have_different_fingerprints():
    spec = make_spec()
    value = torch.tensor(spec.inv_freq[3])
    neighbour = torch.nextafter(value, torch.tensor(1.0)).item()
    near = dataclasses.replace(spec, inv_freq=(*spec.inv_freq[:3], neighbour, *spec.inv_freq[4:]))
    assert near.fingerprint() != spec.fingerprint()
