"""rotate, unrotate and relocate against the plain reference, and as algebra."""

import jaxtyping
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from rope_reference import make_spec, pair_ulp, reference_rotate

from kamera.errors import ConfigError
from kamera.rope import relocate, rotate, unrotate

SEEDS = st.integers(0, 2**31)
AXES = st.sampled_from([1, 3])
few = settings(max_examples=20, deadline=None)


def draw(seed, num_axes, num_tokens=5, heads=3, head_dim=16, furthest=30000):
    generator = torch.Generator().manual_seed(seed)
    x = torch.randn(2, num_tokens, heads, head_dim, generator=generator)
    positions = torch.randint(0, furthest, (num_tokens, num_axes), generator=generator)
    return x, positions


def plain_torch(x, positions, spec):
    """RoPE as models write it, all in x's dtype: the error that a user already accepts."""
    angles = positions.float()[:, list(spec.axes)] * torch.tensor(spec.inv_freq)
    angles = torch.cat([angles, angles], dim=-1)[:, None, :]
    first, second = x.chunk(2, dim=-1)
    turned = torch.cat([-second, first], dim=-1)
    return x * angles.cos().to(x.dtype) + turned * angles.sin().to(x.dtype)


@pytest.mark.parametrize("num_axes", [1, 3])
@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16])
@pytest.mark.parametrize("num_tokens", [1, 97])
def test_error_is_at_most_twice_plain_torch(num_axes, dtype, num_tokens):
    spec = make_spec(num_axes, head_dim=24)
    x, positions = draw(0, num_axes, num_tokens, heads=1, head_dim=24)
    x = x[0].to(dtype)
    reference = reference_rotate(x, positions, spec)
    ours = (rotate(x, positions, spec).double() - reference).abs().max()
    theirs = (plain_torch(x, positions, spec).double() - reference).abs().max()
    assert ours <= 2 * theirs


@pytest.mark.parametrize("num_axes", [1, 3])
def test_float64_keys_are_rotated_in_float64(num_axes):
    spec = make_spec(num_axes)
    x, positions = draw(1, num_axes)
    x = x.double()
    got = rotate(x, positions, spec)
    assert got.dtype == torch.float64
    for layer in range(2):
        wanted = reference_rotate(x[layer], positions, spec)
        torch.testing.assert_close(got[layer], wanted, rtol=0, atol=1e-14)


@few
@given(SEEDS, AXES, st.sampled_from([torch.float32, torch.bfloat16, torch.float16]))
def test_zero_positions_are_the_identity_bit_for_bit(seed, num_axes, dtype):
    x, positions = draw(seed, num_axes)
    x = x.to(dtype)
    x[0, 0, 0, :4] = torch.tensor([-0.0, 0.0, float("inf"), -0.0])
    positions[::2] = 0
    bits = torch.int32 if dtype == torch.float32 else torch.int16
    for turn in (rotate, unrotate):
        out = turn(x, positions, make_spec(num_axes))
        assert torch.equal(out[:, ::2].view(bits), x[:, ::2].view(bits))


@few
@given(SEEDS, AXES, st.sampled_from([1.0, 1.139, 0.7]))
def test_unrotate_takes_rotate_back(seed, num_axes, scaling):
    x, positions = draw(seed, num_axes)
    spec = make_spec(num_axes, scaling=scaling)
    back = unrotate(rotate(x, positions, spec), positions, spec)
    assert (back - x).abs().max() <= 5e-7 * x.abs().max()


@few
@given(SEEDS, AXES, st.integers(-64, 64), st.integers(-64, 64))
def test_two_shifts_equal_their_sum(seed, num_axes, first, second):
    x, positions = draw(seed, num_axes, furthest=64)
    spec = make_spec(num_axes)
    twice = rotate(rotate(x, positions * 0 + first, spec), positions * 0 + second, spec)
    once = rotate(x, positions * 0 + first + second, spec)
    # Angles are float32: each of the three rounds by up to half an ULP of 128 radians.
    assert (twice - once).abs().max() <= 2e-5 * x.abs().max()


@few
@given(SEEDS, st.integers(1, 1000))
def test_each_axis_turns_its_own_pairs_alone(seed, step):
    spec = make_spec(3)
    x, positions = draw(seed, 3)
    positions[:] = torch.tensor([7, 1009, 20011])  # t, h, w all apart
    base = rotate(x, positions, spec)
    for axis in range(3):
        moved = positions.clone()
        moved[:, axis] += step
        changed = (rotate(x, moved, spec) != base).flatten(0, 2).any(dim=0)
        own = torch.tensor([a == axis for a in spec.axes] * 2)
        assert not changed[~own].any()
        assert changed[own].any()


@few
@given(SEEDS, AXES)
def test_a_relocated_bf16_canonical_is_rounded_once(seed, num_axes):
    spec = make_spec(num_axes)
    x, positions = draw(seed, num_axes)
    canonical = x[0].bfloat16()
    got = relocate(canonical, positions, spec)
    exact = reference_rotate(canonical, positions, spec)
    error = (got.double() - exact).abs()
    assert (error <= 0.5001 * pair_ulp(exact)).all()


@few
@given(SEEDS, AXES)
def test_back_to_zero_and_out_again_stays_within_one_bf16_ulp(seed, num_axes):
    """R(p1) · R(−p0) through a bf16 canonical, against the correctly rounded bf16 rotation."""
    spec = make_spec(num_axes)
    x, source = draw(seed, num_axes)
    _, target = draw(seed + 1, num_axes)
    cached = x[0].bfloat16()
    got = relocate(unrotate(cached, source, spec), target, spec)
    wanted = reference_rotate(reference_rotate(cached, source, spec, sign=-1), target, spec)
    steps = (got.double() - wanted.bfloat16().double()).abs() / pair_ulp(wanted)
    assert steps.max() <= 1.0


def test_relocation_does_not_drift_over_a_thousand_slides_and_chaining_does():
    """Why the canonical is stored: a rotation chained in bf16 loses a little at every slide."""
    spec = make_spec(3)
    x, positions = draw(3, 3, furthest=4096)
    canonical = x.bfloat16()
    chained = relocate(canonical, positions, spec)
    worst = 0.0
    for slide in range(1, 1001):
        step = torch.ones_like(positions)
        chained = rotate(chained, step, spec)
        if slide % 50 == 0:
            here = positions + slide
            exact = rotate(canonical.double(), here, spec)
            error = (relocate(canonical, here, spec).double() - exact).abs() / pair_ulp(exact)
            worst = max(worst, error.max().item())
    drift = ((chained.double() - exact).abs() / pair_ulp(exact)).max().item()
    assert worst <= 0.5001  # the bound of one relocation, whatever the number of slides
    assert drift > 4.0


def test_relocation_takes_an_output_dtype_and_leaves_its_input_alone():
    spec = make_spec(3)
    x, positions = draw(4, 3)
    kept = x.clone()
    assert relocate(x, positions, spec, torch.bfloat16).dtype == torch.bfloat16
    assert torch.equal(
        relocate(x, positions, spec, torch.bfloat16), relocate(x, positions, spec).bfloat16()
    )
    assert torch.equal(x, kept)


@pytest.fixture
def unchecked_shapes():
    """Switch the tests' own shape checks off, to see the errors that a user gets."""
    jaxtyping.config.update("jaxtyping_disable", True)
    yield
    jaxtyping.config.update("jaxtyping_disable", False)


@pytest.mark.usefixtures("unchecked_shapes")
@pytest.mark.parametrize(
    ("x_shape", "positions", "message"),
    [
        ((5, 2, 16), torch.zeros(4, 3, dtype=torch.int64), r"\[T=5, P=3\], got \[4, 3\]"),
        ((5, 2, 16), torch.zeros(5, 1, dtype=torch.int64), r"\[T=5, P=3\], got \[5, 1\]"),
        ((5, 2, 16), torch.zeros(5, dtype=torch.int64), r"\[T=5, P=3\], got \[5\]"),
        ((5, 2, 16), torch.zeros(5, 3), "integer dtype, got torch.float32"),
        ((5, 2, 18), torch.zeros(5, 3, dtype=torch.int64), r"D=16\], got \[5, 2, 18\]"),
        ((5, 16), torch.zeros(5, 3, dtype=torch.int64), r"T, H, D=16\], got \[5, 16\]"),
    ],
)
def test_a_wrong_shape_says_what_was_expected(x_shape, positions, message):
    with pytest.raises(ConfigError, match=message):
        rotate(torch.zeros(x_shape), positions, make_spec(3))


@pytest.mark.usefixtures("unchecked_shapes")
def test_integer_keys_are_refused():
    with pytest.raises(ConfigError, match="floating dtype"):
        rotate(torch.zeros(5, 2, 16).long(), torch.zeros(5, 3).long(), make_spec(3))
