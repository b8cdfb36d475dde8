"""Patches through a library and each store: ragged, quantised, those of old, and those that don't fit."""

from dataclasses import replace
from typing import Any

import pytest
import torch
from test_latent_channels import chunk

from kamera.library import Library
from kamera.patch import Patch, PatchProfile, form_patch
from kamera.planner import PatchRecord
from kamera.store import EntryKey, Miss

BEHIND = ("a" * 64,)
LAYERS, FEATURES = 3, 24


def library(store: Any, profile: PatchProfile | int) -> Library:
    return Library(store, chunk().key.model.digest, None, profile)


def key_of(found: Library) -> EntryKey:
    return EntryKey("patch", found.record(chunk(), "exact", BEHIND).name)


def deltas() -> dict[str, torch.Tensor]:
    generator = torch.Generator().manual_seed(0)
    shape = (LAYERS, chunk().num_tokens, FEATURES)
    return {name: torch.randn(shape, generator=generator) for name in ("k", "v")}


def kept(store: Any, profile: PatchProfile) -> tuple[Library, Patch]:
    found = library(store, profile)
    kv_bytes = 2 * LAYERS * chunk().num_tokens * FEATURES * 2
    patch = profile.form(deltas(), BEHIND[0], kv_bytes)
    found.keep_patch(chunk(), BEHIND, patch)
    return found, patch


@pytest.mark.parametrize("factors", ["float32", "bf16", "fp8", "int8"])
def test_a_ragged_patch_comes_back_bit_for_bit(open_kind: Any, factors: str) -> None:
    profile = PatchProfile(share=0.6, factors=factors)
    found, patch = kept(open_kind(), profile)
    (record,) = found.patches(chunk(), BEHIND)
    assert record == PatchRecord(record.name, "exact", BEHIND, str(profile))
    again = found.patch(chunk(), record)
    assert isinstance(again, Patch)
    assert (again.num_bytes, again.antecedent) == (patch.num_bytes, patch.antecedent)
    for name, held in patch.factors.items():
        assert again.factors[name].ranks == held.ranks
        for mine, theirs in zip(again.factors[name].layers(), held.layers(), strict=True):
            assert all(torch.equal(a, b) for a, b in zip(mine, theirs, strict=True))


def test_what_the_store_counts_is_what_the_patch_says(open_kind: Any) -> None:
    store = open_kind()
    found, patch = kept(store, PatchProfile(share=0.6, factors="int8"))
    entry = found._get(key_of(found)).entry  # type: ignore[union-attr]
    assert entry.num_bytes == patch.num_bytes


def test_profiles_do_not_share_patches(open_kind: Any) -> None:
    store = open_kind()
    kept(store, PatchProfile(share=0.6, factors="int8"))
    for other in (PatchProfile(share=0.6), PatchProfile(share=0.5, factors="int8"), 8):
        assert library(store, other).patches(chunk(), BEHIND) == ()


def test_a_rank_finds_the_uniform_patches_of_before_there_were_profiles(open_kind: Any) -> None:
    found = library(open_kind(), 4)
    patch = form_patch(deltas(), BEHIND[0], 4)
    key = key_of(found)
    tensors = {}
    for name, held in patch.factors.items():
        tensors[f"{name}.u"], tensors[f"{name}.vt"] = held.u, held.vt  # type: ignore[union-attr]
    old = {
        "antecedent": BEHIND[0],
        "antecedents": list(BEHIND),
        "context": "",
        "chunk": chunk().digest,
        "kind": "exact",
        "rank": 4,
    }
    found._put(key, tensors, old)
    (record,) = found.patches(chunk(), BEHIND)
    again = found.patch(chunk(), record)
    assert isinstance(again, Patch)
    assert again.rank == 4
    for name, held in patch.factors.items():
        assert torch.equal(again.factors[name].product(), held.product())


@pytest.mark.parametrize(
    "change",
    [
        {"k.ragged": None},
        {"k.ragged": [9, FEATURES, 1, 1, 1]},
        {"k.ragged": [-1, FEATURES, 1, 1, 1]},
        {"antecedent": ""},
    ],
)
def test_an_entry_whose_parts_do_not_fit_is_a_counted_miss(
    open_kind: Any, change: dict[str, Any]
) -> None:
    found, _ = kept(open_kind(), PatchProfile(share=0.6, factors="int8"))
    key = key_of(found)
    entry = found._get(key).entry  # type: ignore[union-attr]
    attributes = {k: v for k, v in {**entry.attributes, **change}.items() if v is not None}
    found.store.put(replace(entry, attributes=attributes))
    (record,) = found.patches(chunk(), BEHIND)
    assert isinstance(found.patch(chunk(), record), Miss)
    assert found.misses == {"patch.foreign": 1}
