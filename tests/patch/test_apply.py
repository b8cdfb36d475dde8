"""The operator whole: canonical + patch at a position against the conditioned KV it stands for."""

import pytest
import torch

from kamera.channels import ChunkKV
from kamera.errors import ConfigError
from kamera.patch import Factors, Patch, apply, deficit, fit_gram, fit_svd, form_patch, mean_deficit
from kamera.rope import PerLayerRope, RopeSpec

INV_FREQ = tuple(torch.logspace(0, -4, 8).tolist())
SPECS = {
    "1-D": RopeSpec(INV_FREQ, (0,) * 8, num_axes=1, head_dim=16),
    "M-RoPE": RopeSpec(INV_FREQ, (0, 0, 1, 1, 1, 2, 2, 2), num_axes=3, head_dim=16),
    "scaled": RopeSpec(INV_FREQ, (0,) * 8, 1, 16, attention_scaling=1.139, scheme="yarn"),
    "pairs, partial": RopeSpec(INV_FREQ[:6], (0,) * 6, num_axes=1, head_dim=16, layout="pairs"),
}
SPECS["two bases"] = PerLayerRope.of([SPECS["1-D"], SPECS["scaled"]])
CHANNELS = {"k, v": {"k": 16, "v": 16}, "c_kv, k_pe": {"c_kv": 24, "k_pe": 16}}
SIZES = [(97, 3), (13, 2)]  # T > F = 48, T < F = 32


@pytest.fixture(params=SPECS)
def spec(request):
    return SPECS[request.param]


@pytest.fixture(params=CHANNELS)
def sizes(request):
    """Each channel's D; those of MLA have one head."""
    return CHANNELS[request.param]


def positions_of(num_tokens, spec, start):
    steps = torch.arange(num_tokens)
    return start + torch.stack([steps, 2 * steps + 1, steps % 5], dim=-1)[:, : spec.num_axes]


def make_chunk(num_tokens, heads, dtype, seed, num_layers=2, sizes=CHANNELS["k, v"]):
    generator = torch.Generator().manual_seed(seed)
    tensors = {}
    for name, size in sizes.items():
        shape = (num_layers, num_tokens, 1 if "c_kv" in sizes else heads, size)
        tensors[name] = torch.randn(shape, generator=generator).to(dtype)
    return ChunkKV(tensors)


def conditioned_and_canonical(num_tokens, heads, dtype, spec, sizes=CHANNELS["k, v"]):
    """KV(B given A) as cached at p1, KV(B given nothing) as stored, and p1."""
    here = positions_of(num_tokens, spec, 1000)
    cached = make_chunk(num_tokens, heads, dtype, seed=1, sizes=sizes)
    canonical = make_chunk(num_tokens, heads, dtype, seed=2, sizes=sizes)
    return cached, canonical, here


@pytest.mark.parametrize(("num_tokens", "heads"), SIZES)
@pytest.mark.parametrize("fit", [fit_svd, fit_gram])
def test_a_full_rank_patch_reproduces_the_conditioned_kv_in_float32(
    num_tokens, heads, fit, spec, sizes
):
    cached, canonical, here = conditioned_and_canonical(
        num_tokens, heads, torch.float32, spec, sizes
    )
    delta = deficit(cached.to_canonical(here, spec), canonical)
    got = apply(canonical, form_patch(delta, "A", fit=fit), here, spec)
    for name, tensor in got.tensors.items():
        error = (tensor - cached.tensors[name]).abs().max() / cached.tensors[name].abs().max()
        assert error <= 1e-6


@pytest.mark.parametrize(("num_tokens", "heads"), SIZES)
def test_a_full_rank_patch_reproduces_the_conditioned_kv_to_a_bf16_ulp(
    num_tokens, heads, spec, sizes
):
    cached, canonical, here = conditioned_and_canonical(
        num_tokens, heads, torch.bfloat16, spec, sizes
    )
    delta = deficit(cached.to_canonical(here, spec, torch.float32), canonical)
    got = apply(canonical, form_patch(delta, "A"), here, spec)
    for name, tensor in got.tensors.items():
        wanted = cached.tensors[name].double()
        # The sum is float32: a value below 2^-12 of the largest is known to less than its own ULP.
        size = wanted.abs().clamp_min(wanted.abs().max() * 2**-12)
        ulp = torch.exp2(torch.floor(torch.log2(size)) - 7)
        assert ((tensor.double() - wanted).abs() <= ulp).all()
        assert (tensor.double() == wanted).double().mean() > 0.999


def test_the_patch_moves_with_the_chunk(spec, sizes):
    """Formed at one place, applied at another: the conditioned KV re-rotated."""
    cached, canonical, here = conditioned_and_canonical(21, 2, torch.float32, spec, sizes)
    conditioned = cached.to_canonical(here, spec)
    patch = form_patch(deficit(conditioned, canonical), "A")
    there = positions_of(21, spec, 30000)
    got, wanted = apply(canonical, patch, there, spec), conditioned.at(there, spec)
    for name in sizes:
        torch.testing.assert_close(got.tensors[name], wanted.tensors[name], rtol=0, atol=5e-6)


def test_without_a_patch_apply_is_relocation(spec, sizes):
    canonical = make_chunk(13, 2, torch.bfloat16, seed=3, sizes=sizes)
    there = positions_of(13, spec, 77)
    got, wanted = apply(canonical, None, there, spec), canonical.at(there, spec)
    assert all(torch.equal(got.tensors[name], wanted.tensors[name]) for name in sizes)
    (still,) = (channel.name for channel in canonical.channels if not channel.rotates)
    assert got.tensors[still].data_ptr() == canonical.tensors[still].data_ptr()


def test_a_higher_rank_never_fits_worse(spec):
    cached, canonical, here = conditioned_and_canonical(29, 2, torch.float32, spec)
    delta = deficit(cached.to_canonical(here, spec), canonical)
    errors = []
    for rank in (1, 4, 16, None):
        got = apply(canonical, form_patch(delta, "A", rank), here, spec)
        errors.append(sum((got.tensors[n] - cached.tensors[n]).norm() for n in ("k", "v")))
    assert errors == sorted(errors, reverse=True)
    assert errors[-1] < 1e-3 * errors[0]


def test_the_sum_and_the_rotation_are_rounded_once(spec):
    """bf16 out of float32 factors = the float32 result, rounded at the end and nowhere before."""
    cached, canonical, here = conditioned_and_canonical(29, 2, torch.bfloat16, spec)
    delta = deficit(cached.to_canonical(here, spec, torch.float32), canonical)
    patch = form_patch(delta, "A", rank=3)
    rounded = apply(canonical, patch, here, spec)
    wide = apply(canonical, patch, here, spec, torch.float32)
    assert (rounded.dtype, wide.dtype) == (torch.bfloat16, torch.float32)
    assert all(torch.equal(rounded.tensors[n], wide.tensors[n].bfloat16()) for n in ("k", "v"))


def test_bf16_factors_stay_within_their_own_rounding(spec):
    cached, canonical, here = conditioned_and_canonical(29, 2, torch.float32, spec)
    patch = form_patch(deficit(cached.to_canonical(here, spec), canonical), "A", rank=8)
    got, wanted = (apply(canonical, p, here, spec) for p in (patch.to(torch.bfloat16), patch))
    for name in ("k", "v"):
        # Two factors, each rounded by at most 2^-9 of an entry; the attention factor is 1.139.
        scale = patch.factors[name].product().norm() * 1.139
        assert (got.tensors[name] - wanted.tensors[name]).norm() <= 2 * 2**-8 * scale


def test_a_removal_patch_turns_the_kept_chunk_into_the_target(spec, sizes):
    """The same deficit the other way round: KV(B given what stays) minus the survivor's own."""
    here = positions_of(13, spec, 50)
    target = make_chunk(13, 2, torch.float32, seed=5, sizes=sizes)
    kept = make_chunk(13, 2, torch.float32, seed=6, sizes=sizes)
    patch = form_patch(deficit(target, kept), "A without its head", kind="removal")
    got, wanted = apply(kept, patch, here, spec), target.at(here, spec)
    for name in sizes:
        torch.testing.assert_close(got.tensors[name], wanted.tensors[name], rtol=0, atol=5e-6)


def test_the_orbit_mean_of_equal_deficits_is_that_deficit():
    a, b = (make_chunk(13, 2, torch.float32, seed=s) for s in (7, 8))
    delta = deficit(a, b)
    mean = mean_deficit([delta] * 3)
    assert all(torch.equal(mean[name], delta[name]) for name in delta)
    assert all(value.dtype == torch.float32 for value in mean.values())


def test_the_orbit_mean_is_the_mean_over_orderings(sizes):
    base, *others = (make_chunk(13, 2, torch.float32, seed=s, sizes=sizes) for s in range(4))
    deltas = [deficit(other, base) for other in others]
    for name in sizes:
        wanted = torch.stack([delta[name] for delta in deltas]).mean(dim=0)
        torch.testing.assert_close(mean_deficit(deltas)[name], wanted)


def test_the_orbit_mean_refuses_deficits_that_do_not_fit():
    base, longer = (make_chunk(n, 2, torch.float32, seed=1) for n in (5, 6))
    with pytest.raises(ConfigError, match="one for each ordering, got none"):
        mean_deficit([])
    with pytest.raises(ConfigError, match=r"Invalid shape of deficits\[1\]"):
        mean_deficit([deficit(base, base), deficit(longer, longer)])


def test_a_deficit_of_different_chunks_is_refused():
    with pytest.raises(ConfigError, match=r"expected \[2, 6, 2, 16\] on cpu, got \[2, 5, 2, 16\]"):
        deficit(*(make_chunk(n, 2, torch.float32, seed=1) for n in (5, 6)))


@pytest.mark.parametrize(("num_tokens", "heads", "layers"), [(14, 2, 2), (13, 3, 2), (13, 2, 3)])
def test_a_patch_of_another_chunk_is_refused(num_tokens, heads, layers):
    other = make_chunk(num_tokens, heads, torch.float32, seed=1, num_layers=layers)
    patch = form_patch(deficit(other, other), "A", rank=2)
    spec = SPECS["1-D"]
    with pytest.raises(ConfigError, match=r"patch k: expected \[L=2, T=13, F=32\]"):
        apply(make_chunk(13, 2, torch.float32, 2), patch, positions_of(13, spec, 0), spec)


def test_a_patch_of_another_family_is_refused():
    latents, keys = (make_chunk(13, 2, torch.float32, 1, sizes=CHANNELS[n]) for n in CHANNELS)
    patch = form_patch(deficit(keys, keys), "A", rank=2)
    spec = SPECS["1-D"]
    with pytest.raises(ConfigError, match="channels of patch"):
        apply(latents, patch, positions_of(13, spec, 0), spec)


@pytest.mark.usefixtures("unchecked")
def test_factors_that_cannot_be_right_are_refused():
    with pytest.raises(ConfigError, match=r"got \[2, 5, 3\] and \[2, 4, 7\]"):
        Factors(torch.zeros(2, 5, 3), torch.zeros(2, 4, 7))
    with pytest.raises(ConfigError, match="rank of factors: expected >= 1"):
        Factors(torch.zeros(2, 5, 0), torch.zeros(2, 0, 7))
    with pytest.raises(ConfigError, match="one dtype and device"):
        Factors(torch.zeros(2, 5, 3), torch.zeros(2, 3, 7).bfloat16())
    good = Factors(torch.zeros(2, 5, 3), torch.zeros(2, 3, 7))
    shorter = Factors(torch.zeros(2, 4, 3), torch.zeros(2, 3, 7))
    with pytest.raises(ConfigError, match="one \\[L, T\\] for all channels"):
        Patch({"k": good, "v": shorter}, "A")
    with pytest.raises(ConfigError, match="key of the antecedent"):
        Patch({"k": good, "v": good}, "")
    with pytest.raises(ConfigError, match="Invalid kind"):
        Patch({"k": good, "v": good}, "A", kind="stale")
    with pytest.raises(ConfigError, match="Invalid channels"):
        Patch({"k": good}, "A")
