"""Table 4 on two items of nano-gqa, and the bytes that are counted from shapes."""

from typing import Any

import pytest
import torch

from kamera.lab.reproductions import table4
from kamera.lab.reproductions.page_bytes import (
    BYTES,
    FIGURE_TOKENS,
    GQA,
    LATENT,
    NUM_LAYERS,
    PER_HEAD,
    TABLE_TOKENS,
    patch_numbers,
    share,
    sharing,
)
from kamera.lab.reproductions.subject import Subject
from kamera.patch import form_patch


@pytest.fixture(scope="module")
def model(subject: Subject) -> dict[str, Any]:
    return table4.run(subject)


def test_every_claim_has_its_figure(model: dict[str, Any]) -> None:
    for claim in table4.REPRODUCTION.claims:
        assert claim.verdict(model["figures"]) != "not measured", claim.label


def test_accuracies_are_the_tallies(subject: Subject, model: dict[str, Any]) -> None:
    tallies = subject.tallies("binding")
    for arm in ("re-prefill", "cross-mass 25%", "leverage 64"):
        right = sum(tallies[arm].correct) / 2
        assert model["figures"][f"{arm}: accuracy"]["value"] == right
    lost = sum(tallies["re-prefill"].correct) - sum(tallies["patch 16"].correct)
    assert model["figures"]["re-prefill - patch 16: accuracy"]["value"] == lost / 2


def test_ends_are_exact(model: dict[str, Any]) -> None:
    figures = model["figures"]
    assert figures["re-prefill: bytes"]["value"] == 1.0
    assert figures["blind: bytes"]["value"] == 0.0
    assert figures["re-prefill: eta"]["value"] == 1.0


@pytest.mark.parametrize("features", [GQA, LATENT, (64, 64)])
def test_shares_are_those_of_real_factors(features: tuple[int, int]) -> None:
    names = ("k", "v")
    deltas = {n: torch.randn(1, 80, f) for n, f in zip(names, features, strict=True)}
    patch = form_patch(deltas, "test", 16)
    kv = sum(delta.numel() * 4 for delta in deltas.values())
    assert share(16, 80, features) == patch.num_bytes / kv


def test_the_papers_own_counts_come_out_of_the_shapes() -> None:
    """Table 6: 31 and 124 tokens. Figure 11: 292, 6.2 and 25 MB, 11.9 and 27 times."""
    tokens = [patch_numbers(rank, TABLE_TOKENS, GQA) / sum(GQA) for rank in (16, 64)]
    assert tokens == [31.0, 124.0]
    page = NUM_LAYERS * BYTES * FIGURE_TOKENS * sum(PER_HEAD) / 1e6
    patches = [
        NUM_LAYERS * BYTES * patch_numbers(m, FIGURE_TOKENS, PER_HEAD) / 1e6 for m in (16, 64)
    ]
    assert round(page) == 292
    assert [round(patches[0], 1), round(patches[1])] == [6.2, 25]
    fraction = share(16, FIGURE_TOKENS, PER_HEAD)
    assert [round(sharing(16, fraction), 1), round(sharing(64, fraction))] == [11.9, 27]
    assert sharing(16, 0.0) == 16.0
