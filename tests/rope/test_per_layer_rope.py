"""PerLayerRope: each layer by its own spec, in one call."""

import dataclasses
import json

import pytest
import torch
from rope_reference import make_spec

from kamera.errors import ConfigError, UnsupportedRopeError
from kamera.identity import digest
from kamera.rope import PerLayerRope, relocate, rotate, unrotate

LOCAL, FAR = make_spec(1), dataclasses.replace(make_spec(1, scaling=1.139), scheme="yarn")
ROPE = PerLayerRope.of([LOCAL, LOCAL, FAR, LOCAL, FAR])


def draw(dtype=torch.float32, num_layers=5):
    generator = torch.Generator().manual_seed(0)
    x = torch.randn(num_layers, 7, 2, 16, generator=generator).to(dtype)
    return x, torch.randint(0, 30000, (7, 1), generator=generator)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("turn", [rotate, unrotate, relocate])
def test_every_layer_is_turned_by_its_own_spec(turn, dtype):
    x, positions = draw(dtype)
    got = turn(x, positions, ROPE)
    assert got.dtype == dtype
    for layer, spec in enumerate([LOCAL, LOCAL, FAR, LOCAL, FAR]):
        assert torch.equal(got[layer], turn(x[layer], positions, spec))
        assert ROPE.layer(layer) == spec
    assert turn(x, positions, ROPE, torch.float64).dtype == torch.float64


def test_layers_of_one_type_share_a_spec():
    assert ROPE.specs == (LOCAL, FAR)
    assert ROPE.layers == (0, 0, 1, 0, 1)
    assert [ROPE.layers_of(index) for index in (0, 1)] == [[0, 1, 3], [2, 4]]
    assert (ROPE.num_layers, ROPE.num_axes, ROPE.head_dim) == (5, 1, 16)
    assert ROPE.scheme == "default+yarn"


def test_which_layer_uses_which_spec_reaches_the_fingerprint():
    other = PerLayerRope.of([LOCAL, FAR, LOCAL, LOCAL, FAR])
    prints = [json.dumps(rope.fingerprint(), sort_keys=True) for rope in (ROPE, other)]
    assert prints[0] != prints[1]
    keys = {digest("test", 1, rope.fingerprint()) for rope in (ROPE, other, LOCAL, FAR)}
    assert len(keys) == 4
    assert ROPE.fingerprint()["specs"] == [LOCAL.fingerprint(), FAR.fingerprint()]


def test_the_lowest_bound_of_any_layer_holds_for_all():
    bounded = dataclasses.replace(FAR, max_positions=100)
    rope = PerLayerRope.of([LOCAL, bounded])
    assert (ROPE.max_positions, rope.max_positions) == (None, 100)
    ROPE.check_reach(10**6)
    rope.check_reach(100)
    with pytest.raises(UnsupportedRopeError, match="position 100 is beyond"):
        rope.check_reach(101)
    x, positions = draw(num_layers=2)
    with pytest.raises(UnsupportedRopeError, match="is beyond"):
        rotate(x, positions * 0 + 100, rope)


@pytest.mark.parametrize(
    ("specs", "layers", "message"),
    [
        ((LOCAL,), (), "an index of each of the 1 specs"),
        ((LOCAL, FAR), (0, 0), "an index of each of the 2 specs"),
        ((LOCAL,), (0, 1), "an index of each of the 1 specs"),
        (
            (LOCAL, make_spec(3)),
            (0, 1),
            r"one \(P, D\) for all layers, got \[\(1, 16\), \(3, 16\)\]",
        ),
    ],
)
def test_layers_and_specs_that_do_not_fit_are_refused(specs, layers, message):
    with pytest.raises(ConfigError, match=message):
        PerLayerRope(specs, layers)


@pytest.mark.usefixtures("unchecked")
@pytest.mark.parametrize("shape", [(4, 7, 2, 16), (7, 2, 16), (1, 5, 7, 2, 16)])
def test_keys_that_are_not_all_layers_are_refused(shape):
    with pytest.raises(ConfigError, match=r"expected \[L=5, T, H, D=16\] for a rotary scheme per"):
        rotate(torch.zeros(shape), draw()[1], ROPE)
