"""Figure 3: the shape of what reuse loses: energy by rank, depth, and the keys that are looked at."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kamera.lab.probes.depth_profile import DepthProfile, probe_depth_profile
from kamera.lab.probes.energy import Energy, probe_energy
from kamera.lab.probes.landmark_keys import probe_landmark_keys
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import SHOWN, Claim, at_least, at_most, surely_above
from kamera.lab.reproductions.curve import content_channel, depths, line, mean_curve
from kamera.lab.reproductions.figures import JsonFigure, mean_of, plain
from kamera.lab.reproductions.knee import functional_rank_of, rank_sweeps
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject

RANKS = (1, 2, 4, 8, 16, 32, 64, 128)
NORMS = {
    "deficit": "‖Δ‖",
    "specific": "what a filler in A's place doesn't give",
    "position": "what position adds",
}


def run(subject: Subject) -> ModelFigures:
    """The probes on each case, the content channel of each."""
    energy, depth, keys = [], [], []
    for case in subject.cases():
        energies, profiles = probe_energy([case]), probe_depth_profile([case])
        content = content_channel(list(energies))
        energy.append(energies[content])
        depth.append(profiles[content])
        keys.append(probe_landmark_keys([case]))
    num_layers = len(depth[0].deficit)
    ranks = [rank for rank in RANKS if rank <= min(len(one.curve[0]) for one in energy)]
    components = mean_of([found for one in energy if (found := components_of(one)) is not None])
    functional = functional_rank_of(rank_sweeps(subject))
    figures: dict[str, JsonFigure] = {
        "components for 90 %": components,
        "functional rank": functional,
        "functional rank / components": _ratio(functional, components),
        "deep over shallow": mean_of(
            [one.deep_over_shallow for one in depth if one.deep_over_shallow is not None]
        ),
        "position share": mean_of([share_of(one, "position") for one in depth]),
        "specific share": mean_of([share_of(one, "specific") for one in depth]),
        "landmark keys": mean_of([one.median for one in keys]),
        "landmark share": mean_of([one.median_share for one in keys]),
    }
    curves = {
        "energy": mean_curve(ranks, [captured(one, ranks) for one in energy]),
        "keys": mean_curve(depths(num_layers), [one.keys for one in keys]),
        **{
            norm: mean_curve(depths(num_layers), [getattr(one, norm) for one in depth])
            for norm in NORMS
        },
    }
    return {"figures": figures, "curves": curves}


def components_of(energy: Energy) -> float | None:
    """Components that hold 90 % of one case's energy, mean over the layers that absorbed something."""
    found = [e90 for e90 in energy.e90 if e90 is not None]
    return sum(found) / len(found) if found else None


def captured(energy: Energy, ranks: Sequence[int]) -> list[float]:
    """Share of the energy in the top m components, mean over the layers that absorbed something."""
    real = [layer for layer, e90 in zip(energy.curve, energy.e90, strict=True) if e90 is not None]
    return [float(np.mean([layer[rank - 1] for layer in real or energy.curve])) for rank in ranks]


def share_of(depth: DepthProfile, norm: str) -> float:
    """A norm over ‖Δ‖, both summed over the layers."""
    return float(np.sum(getattr(depth, norm)) / np.sum(depth.deficit))


def _ratio(one: JsonFigure, other: JsonFigure) -> JsonFigure:
    whole = one["value"] is not None and other["value"]
    return plain(one["value"] / other["value"] if whole else None, one["n"])


def charts(models: Models) -> list[Chart]:
    """The paper's panels a and c with a line for each model, and panel b for each model."""
    each = {name: model["curves"] for name, model in models.items()}
    energy = [line(name, curves["energy"]) for name, curves in each.items()]
    keys = [line(name, curves["keys"]) for name, curves in each.items()]
    paper = Series("Kimi-VL: ‖Δ‖, its ends", [0.0, 1.0], [0.08, 0.49], paper=True)
    return [
        Chart(
            "Energy of Δ, content channel",
            "lines",
            "rank m",
            "share of ‖Δ‖², mean of layers",
            energy,
            levels=[("90 %", 0.9)],
            log_x=True,
        ),
        *(
            Chart(
                f"Depth: {name}",
                "lines",
                "depth, first layer to last",
                "norm, relative to KV",
                [*(line(label, curves[norm]) for norm, label in NORMS.items()), paper],
            )
            for name, curves in each.items()
        ),
        Chart(
            "Keys of A for 90 % of B's attention to it",
            "lines",
            "depth, first layer to last",
            "keys",
            keys,
            levels=[("Kimi-VL: median", 25.0)],
        ),
    ]


REPRODUCTION = Reproduction(
    name="fig3",
    title="The shape of the conditioning deficit",
    paper=(
        "Figure 3 and section 4 take Δ apart on Kimi-VL (MLA content channel, 27 layers; no n is given): "
        "(a) the share of its energy that a rank-m patch captures in each layer; the functional rank is "
        'about 32, "far below" the some 120 components that hold 90 % of the energy. (b) ‖Δ‖ relative to '
        'KV grows from 0.08 to 0.49 with depth and is "almost entirely conditioning, not position"; a '
        'neutral filler in A\'s place "leaves the full deficit". (c) About 25 landmark keys of A, 2 % of '
        "its tokens, carry 90 % of the cross-block energy."
    ),
    ours=(
        "The binding task; B is the picture, A the legend and the chat's prefix. The channel that doesn't "
        "rotate: values, or the latent. Layers whose Δ is no more than rounding are left out of (a). Frames "
        "of the packaged models have 66 tokens, so that no Δ of theirs has 120 components: no rule. The "
        "filler has A's own tokens and places, each media item showing its mean embedding everywhere. "
        "Position is B prefilled alone at its place against alone at 0. The paper draws (a) by layer in "
        "colors; ours is the mean of the layers."
    ),
    run=run,
    claims=(
        Claim(
            "components that hold 90 % of ‖Δ‖²",
            "components for 90 %",
            "about 120",
            SHOWN,
        ),
        Claim("functional rank", "functional rank", "about 32", at_most(32.0)),
        Claim(
            "functional rank over those components",
            "functional rank / components",
            "32 / 120, about 0.27",
            at_most(0.27),
            "One fact is bound, a digit of ten, and one or two components hold 90 % of the energy: there "
            "is no room below",
        ),
        Claim(
            "‖Δ‖ relative to KV, deepest third over first third",
            "deep over shallow",
            "0.08 to 0.49 with depth",
            surely_above(1.0),
        ),
        Claim(
            "what position adds, over ‖Δ‖",
            "position share",
            "almost nothing",
            at_most(0.05),
        ),
        Claim(
            "what a filler doesn't give, over ‖Δ‖",
            "specific share",
            "the full deficit",
            at_least(0.9),
            "The picture shows where: shallow layers take much the same from any frame in A's place, deep "
            "ones hardly any of it. The paper doesn't say what its filler was",
        ),
        Claim(
            "keys of A for 90 %, median",
            "landmark keys",
            "about 25",
            at_most(25.0),
            "Not known",
        ),
        Claim(
            "the same as a share of A",
            "landmark share",
            "0.02",
            at_most(0.02),
            "A is short here: 2 % of some seventy tokens is one key",
        ),
    ),
    charts=charts,
)
