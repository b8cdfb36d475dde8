"""Every kernel against `kamera.patch.apply` and against float64, on every rotary scheme, dtype and layout."""

import os
import subprocess
import sys

import pytest
import torch
from placements import (
    LAYERS,
    POOLS,
    ROPES,
    Exact,
    bits,
    chunk,
    dense,
    pages,
    patch,
    positions,
    read,
    spec,
)

from kamera.channels import ChunkKV
from kamera.errors import ConfigError, UnsupportedRopeError
from kamera.kernels import Eager, Kernel, Pages, Placement, kernel
from kamera.patch import deficit, form_patch
from kamera.rope import RopeSpec

CACHES = [torch.bfloat16, torch.float16, torch.float32]


@pytest.fixture(params=["eager", "blocked", "numba"])
def one(request):
    """A kernel."""
    if request.param == "numba":
        pytest.importorskip("numba", reason="needs the extra fast")
    return kernel(request.param)


@pytest.fixture(params=ROPES)
def rope(request):
    """A rotary scheme."""
    return ROPES[request.param]


def write(one, placement, out):
    assert one.takes(placement, out)
    one.write(placement, out)
    return out


@pytest.mark.parametrize("dtype", CACHES)
@pytest.mark.parametrize("rank", [0, 1, 5, 8, 33])
def test_every_scheme_stays_within_plain_torchs_error(one, rope, dtype, rank):
    kv = chunk(37, rope, dtype)
    placement = Placement(kv, patch(kv, rank) if rank else None, positions(37, rope), rope)
    Exact.of(placement, dtype).check(write(one, placement, dense(placement)))


@pytest.mark.parametrize("factors", [torch.bfloat16, torch.float16, torch.float32])
@pytest.mark.parametrize("rank", [1, 4, 7, 64])
def test_factors_of_every_dtype(one, factors, rank):
    rope = ROPES["1-D"]
    kv = chunk(21, rope, torch.bfloat16)
    placement = Placement(kv, patch(kv, rank, factors), positions(21, rope), rope)
    Exact.of(placement, torch.bfloat16).check(write(one, placement, dense(placement)))
    wide = write(one, placement, dense(placement, torch.float32))
    Exact.of(placement, torch.float32).check(wide)


@pytest.mark.parametrize("factors", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("ranks", [[3, 0, 8, 1], [0, 0, 0, 2], [64, 2, 2, 64], [0, 0, 0, 0]])
def test_a_rank_for_each_layer(one, factors, ranks):
    rope = ROPES["by layer"]
    kv = chunk(19, rope, torch.bfloat16, latent=96)
    placement = Placement(kv, patch(kv, ranks, factors), positions(19, rope), rope, skip=3)
    Exact.of(placement, torch.bfloat16).check(write(one, placement, dense(placement)))


@pytest.mark.parametrize(
    ("num_tokens", "rank"),
    [(n, rank) for n in (0, 1, 2, 3, 4, 5, 16, 17, 33) for rank in (0, 3) if n or not rank],
)
def test_every_number_of_tokens(one, num_tokens, rank):
    rope = ROPES["M-RoPE"]
    kv = chunk(num_tokens, rope, torch.bfloat16)
    placement = Placement(kv, patch(kv, rank) if rank else None, positions(num_tokens, rope), rope)
    got = write(one, placement, dense(placement))
    if num_tokens:
        Exact.of(placement, torch.bfloat16).check(got)


@pytest.mark.parametrize("latent", [1, 7, 16, 63, 512])
def test_every_size_of_a_latent(one, latent):
    rope = ROPES["head of 64"]
    kv = chunk(9, rope, torch.bfloat16, latent=latent)
    placement = Placement(kv, patch(kv, 5), positions(9, rope), rope)
    Exact.of(placement, torch.bfloat16).check(write(one, placement, dense(placement)))


@pytest.mark.parametrize("layout", POOLS)
@pytest.mark.parametrize("dtype", [torch.bfloat16, torch.float32])
@pytest.mark.parametrize("rank", [0, 8])
def test_slots_of_a_pool_get_what_a_contiguous_destination_gets(one, layout, dtype, rank):
    rope = ROPES["three quarters"]
    kv = chunk(29, rope, torch.bfloat16)
    placement = Placement(kv, patch(kv, rank) if rank else None, positions(29, rope), rope, skip=2)
    wanted = write(one, placement, dense(placement, dtype))
    for name, destination in write(one, placement, pages(placement, layout, dtype)).items():
        written, others = read(destination)
        assert bits(written).equal(bits(wanted[name]))
        assert (others == 777.0).all()


def test_strided_canonicals_and_destinations(one):
    rope = ROPES["head of 64"]
    whole = chunk(50, rope, torch.bfloat16, heads=4)
    kv = ChunkKV({name: t[:, 7:40, 1:3] for name, t in whole.tensors.items()})
    placement = Placement(kv, patch(kv, 6), positions(33, rope), rope)
    wanted = write(one, placement, dense(placement))
    out = {name: torch.full((LAYERS, 2, 70, 64), 777.0).bfloat16() for name in wanted}
    views = {name: t.transpose(1, 2)[:, 5:38] for name, t in out.items()}
    write(one, placement, views)
    for name, tensor in wanted.items():
        assert bits(views[name]).equal(bits(tensor))
        assert (out[name][:, :, :5] == 777.0).all()
        assert (out[name][:, :, 38:] == 777.0).all()


def test_only_the_named_channels_are_written(one):
    rope = ROPES["1-D"]
    kv = chunk(9, rope, torch.bfloat16)
    placement = Placement(kv, patch(kv, 3), positions(9, rope), rope)
    both, alone = dense(placement), {"k": dense(placement)["k"]}
    assert bits(write(one, placement, alone)["k"]).equal(bits(write(one, placement, both)["k"]))


@pytest.mark.parametrize("dtype", CACHES)
def test_a_channel_that_does_not_rotate_keeps_its_bytes_without_a_patch(one, dtype):
    rope = ROPES["head of 80"]
    kv = chunk(13, rope, dtype)
    odd = torch.tensor([float("nan"), -0.0, 0.0, float("inf"), 1e-40])
    kv.tensors["v"][0, 0, 0, :5] = odd.to(dtype)
    placement = Placement(kv, None, positions(13, rope), rope)
    assert bits(write(one, placement, dense(placement))["v"]).equal(bits(kv.tensors["v"]))


@pytest.mark.parametrize("dtype", CACHES)
@pytest.mark.parametrize("name", ["1-D", "pairs", "three quarters", "small head", "M-RoPE"])
def test_a_zero_shift_is_the_identity(one, name, dtype):
    rope = ROPES[name]
    kv = chunk(13, rope, dtype)
    kv.tensors["k"][:, 4:6] = torch.tensor(-0.0, dtype=dtype)
    kv.tensors["k"][:, 6] = torch.tensor(1e-39, dtype=dtype)  # below a float32's normal numbers
    where = positions(13, rope)
    where[4:9] = 0
    placement = Placement(kv, None, where, rope)
    got = write(one, placement, dense(placement))["k"]
    assert bits(got[:, 4:9]).equal(bits(kv.tensors["k"][:, 4:9]))
    assert not bits(got[:, :4]).equal(bits(kv.tensors["k"][:, :4]))


def test_with_an_attention_factor_a_zero_shift_scales(one):
    rope = ROPES["attention factor"]
    kv = chunk(5, rope, torch.float32)
    placement = Placement(kv, None, positions(5, rope) * 0, rope)
    got = write(one, placement, dense(placement))["k"]
    assert got.equal(kv.tensors["k"] * torch.tensor(1.139))


def test_a_full_rank_patch_reproduces_the_conditioned_kv_to_an_ulp(one, rope):
    cached, canonical = (chunk(97, rope, torch.bfloat16, seed=s) for s in (5, 6))
    here = positions(97, rope)
    formed = form_patch(deficit(cached.to_canonical(here, rope, torch.float32), canonical), "A")
    got = write(one, placement := Placement(canonical, formed, here, rope), dense(placement))
    for name, tensor in got.items():
        wanted = cached.tensors[name].double()
        # The sum is float32: a value below 2^-12 of the largest is known to less than its own ULP.
        size = wanted.abs().clamp_min(wanted.abs().max() * 2**-12)
        ulp = torch.exp2(torch.floor(torch.log2(size)) - 7)
        assert ((tensor.double() - wanted).abs() <= ulp).all()
        assert (tensor.double() == wanted).double().mean() > 0.999


def test_the_sum_and_the_rotation_are_rounded_once(one, rope):
    kv = chunk(29, rope, torch.bfloat16)
    placement = Placement(kv, patch(kv, 3), positions(29, rope), rope)
    wide = write(one, placement, dense(placement, torch.float32))
    for dtype in (torch.bfloat16, torch.float16):
        rounded = write(one, placement, dense(placement, dtype))
        assert all(bits(t).equal(bits(wide[name].to(dtype))) for name, t in rounded.items())


def test_two_threads_and_writing_past_the_cache_change_no_bit(monkeypatch):
    pytest.importorskip("numba", reason="needs the extra fast")
    from kamera.kernels import compiled

    rope = ROPES["1-D"]
    kv = chunk(101, rope, torch.bfloat16, heads=4)
    for rank in (0, 8):
        placement = Placement(kv, patch(kv, rank) if rank else None, positions(101, rope), rope)
        wanted = write(kernel("numba"), placement, dense(placement))
        with monkeypatch.context() as patched:
            patched.setattr(compiled, "_threads", lambda placement: 3)
            patched.setattr(compiled, "_STREAM_BYTES", 0)
            got = write(kernel("numba"), placement, dense(placement))
        assert all(bits(got[name]).equal(bits(wanted[name])) for name in wanted)


def test_every_kernel_meets_the_contract(one):
    assert isinstance(one, Kernel)


def test_float64_is_left_to_eager(one):
    rope = ROPES["small head"]
    kv = chunk(3, rope, torch.float64)
    placement = Placement(kv, None, positions(3, rope), rope)
    assert one.takes(placement, dense(placement)) == isinstance(one, Eager)


def test_positions_that_do_not_fit_are_refused(one):
    rope = ROPES["M-RoPE"]
    kv = chunk(3, rope, torch.float32)
    placement = Placement(kv, None, positions(3, ROPES["1-D"]), rope)
    with pytest.raises(ConfigError, match="Invalid shape of positions"):
        one.write(placement, dense(placement))
    bounded = RopeSpec((1.0,) * 4, (0,) * 4, 1, 8, max_positions=1001)
    kv = chunk(3, bounded, torch.float32)
    placement = Placement(kv, None, positions(3, bounded), bounded)
    with pytest.raises(UnsupportedRopeError, match="beyond the reach"):
        one.write(placement, dense(placement))


@pytest.mark.parametrize("kind", ["layers", "tokens", "heads", "dims"])
def test_a_destination_that_does_not_fit_is_refused(one, kind):
    """A kernel that computes addresses by itself would write over other memory."""
    rope = ROPES["head of 64"]
    kv = chunk(5, rope, torch.float32)
    placement = Placement(kv, None, positions(5, rope), rope)
    out = dense(placement)
    out["k"] = out["k"].narrow(["layers", "tokens", "heads", "dims"].index(kind), 0, 1)
    with pytest.raises(ConfigError, match="Invalid destination of k: expected "):
        one.write(placement, out)


def test_pages_that_do_not_fit_are_refused(one):
    rope = ROPES["head of 64"]
    kv = chunk(5, rope, torch.float32)
    placement = Placement(kv, None, positions(5, rope), rope)
    good = pages(placement, "slots, heads", torch.float32)["v"]
    held, slots = list(good.layers), good.slots
    num_slots = held[0].shape[0] * held[0].shape[1]
    other = held[1].transpose(0, 1).contiguous().transpose(0, 1)  # of the same shape
    for bad, said in [
        (Pages(held, slots[:4]), "Invalid destination of v"),
        (Pages(held[:3], slots), "Invalid destination of v"),
        (Pages([held[0], other, *held[2:]], slots), "Invalid pages of v"),
        (Pages([*held[:3], held[3][:-1]], slots), "Invalid pages of v"),
        (Pages(held, torch.where(slots == slots[0], -1, slots)), "Invalid slots of v: expected 0"),
        (Pages(held, torch.where(slots == slots[0], num_slots, slots)), "Invalid slots of v"),
    ]:
        with pytest.raises(ConfigError, match=said):
            one.write(placement, {"v": bad})
    assert all((layer == 777.0).all() for layer in held)


@pytest.mark.parametrize("empty", ["layers", "heads", "dims of v"])
def test_nothing_is_written_of_a_channel_without_numbers(one, empty):
    rope = ROPES["head of 64"]
    kv = chunk(5, rope, torch.float32)
    if empty == "layers":
        kv = ChunkKV({name: t[:0] for name, t in kv.tensors.items()})
    elif empty == "heads":
        kv = ChunkKV({name: t[:, :, :0] for name, t in kv.tensors.items()})
    else:
        kv = ChunkKV({"k": kv.tensors["k"], "v": kv.tensors["v"][..., :0]})
    placement = Placement(kv, None, positions(5, rope), rope)
    wanted, got = dense(placement), write(one, placement, dense(placement))
    Eager().write(placement, wanted)
    assert all(got[name].equal(wanted[name]) for name in wanted)


def test_slots_of_a_narrower_integer(one):
    rope = ROPES["head of 64"]
    kv = chunk(3, rope, torch.float32)
    placement = Placement(kv, None, positions(3, rope), rope)
    wanted = write(one, placement, pages(placement, "slots, heads", torch.float32))
    out = pages(placement, "slots, heads", torch.float32)
    narrow = {name: Pages(p.layers, p.slots.int()) for name, p in out.items()}
    write(one, placement, narrow)
    for name, destination in wanted.items():
        pairs = zip(narrow[name].layers, destination.layers, strict=True)
        assert all(got.equal(layer) for got, layer in pairs)


def test_a_rope_of_another_model_is_refused(one):
    """Of other heads or layers: a kernel would read beyond them."""
    kv = chunk(5, ROPES["by layer"], torch.float32)
    twice = ChunkKV({name: torch.cat([t, t]) for name, t in kv.tensors.items()})
    for given, rope in [(kv, ROPES["small head"]), (kv, ROPES["1-D"]), (twice, ROPES["by layer"])]:
        placement = Placement(given, None, positions(5, rope), rope)
        with pytest.raises(ConfigError, match="Invalid shape of "):
            one.write(placement, dense(placement))


def test_a_destination_on_another_device_is_not_taken():
    pytest.importorskip("numba", reason="needs the extra fast")
    rope = ROPES["head of 64"]
    placement = Placement(chunk(5, rope, torch.float32), None, positions(5, rope), rope)
    out = dense(placement)
    assert kernel("numba").takes(placement, out)
    assert not kernel("numba").takes(placement, {name: t.to("meta") for name, t in out.items()})


def test_what_is_not_a_placement_is_refused():
    rope = ROPES["small head"]
    kv, longer = (chunk(n, rope, torch.float32) for n in (5, 6))
    with pytest.raises(ConfigError, match="Invalid shape of positions"):
        Placement(kv, None, positions(6, rope), rope)
    with pytest.raises(ConfigError, match=r"Invalid skip: expected 0\.\.T=5, got 6"):
        Placement(kv, None, positions(5, rope), rope, skip=6)
    with pytest.raises(ConfigError, match="patch k"):
        Placement(kv, patch(longer, 2), positions(5, rope), rope)
    latents = chunk(5, rope, torch.float32, latent=16)
    with pytest.raises(ConfigError, match="channels of patch"):
        Placement(latents, patch(kv, 2), positions(5, rope), rope)


OTHER_CPU = """
import torch
from placements import Exact, ROPES, chunk, dense, patch, positions
from kamera.kernels import Placement, kernel
from kamera.kernels.vector_code import HAS_DOT, WIDTH
for dtype in (torch.bfloat16, torch.float32):
    for name in ("1-D", "head of 80", "pairs"):
        rope = ROPES[name]
        kv = chunk(37, rope, dtype)
        for added in (None, patch(kv, 5), patch(kv, 8, torch.bfloat16)):
            placement = Placement(kv, added, positions(37, rope), rope)
            out = dense(placement)
            kernel("numba").write(placement, out)
            Exact.of(placement, dtype).check(out)
print(WIDTH, HAS_DOT)
"""


OTHER_CPUS = {
    "AVX2": ({"NUMBA_CPU_NAME": "haswell", "NUMBA_CPU_FEATURES": "+avx2,+fma,+f16c"}, 8),
    "SSE2": ({"NUMBA_CPU_NAME": "x86-64", "NUMBA_CPU_FEATURES": "+sse2"}, 4),
    "AVX switched off": ({"NUMBA_ENABLE_AVX": "0"}, 4),
}


@pytest.mark.slow
@pytest.mark.parametrize("cpu", OTHER_CPUS)
def test_code_for_a_smaller_cpu_is_as_exact(cpu, tmp_path):
    pytest.importorskip("numba", reason="needs the extra fast")
    chosen, width = OTHER_CPUS[cpu]
    paths = {"NUMBA_CACHE_DIR": str(tmp_path), "PYTHONPATH": os.path.dirname(__file__)}
    done = subprocess.run(
        [sys.executable, "-c", OTHER_CPU],
        env={**os.environ, **chosen, **paths}, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr
    assert done.stdout.split() == [str(width), "False"]


def test_a_head_of_three_axes_reads_each_of_them():
    """The placements themselves: t, h and w differ, and so do the axes of neighbouring pairs."""
    rope = spec(64, 128, axes=3)
    where = positions(5, rope)
    assert rope.axes[:4] == (0, 1, 2, 0)
    assert (where[:, 0] != where[:, 1]).all()
    assert (where[:, 1] != where[:, 2]).any()
