"""Figure 8: where in depth the deficit is, and what patching or recomputing deep layers gives back."""

from __future__ import annotations

import itertools
from collections.abc import Iterator

import torch
from jaxtyping import Float
from torch import Tensor

from kamera.arms import Arm, Blind, Workbench
from kamera.arms.deep_patched import DeepPatched
from kamera.arms.layer_reprefill import LayerReprefill
from kamera.lab.metrics import kl
from kamera.lab.probes.case import Case
from kamera.lab.probes.energy import probe_energy
from kamera.lab.probes.token_diffuseness import share_for
from kamera.lab.reproductions.chart import Chart
from kamera.lab.reproductions.claim import SHOWN, Claim, at_least, at_most, surely_above
from kamera.lab.reproductions.curve import content_channel, curve_of, depths, line, mean_curve
from kamera.lab.reproductions.figures import JsonFigure, eta_of, mean_of, plain
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject

RANK = 16
SHARES = (0.25, 0.5, 0.75, 1.0)
"""Of the layers, from the deepest: what is patched, or recomputed in context."""
BINS = 16
"""Places in B: frames of different sizes are drawn on one axis."""
THIRDS = ("first third", "middle third", "deepest third")


def run(subject: Subject) -> ModelFigures:
    """The deficit's cells, and each arm at each depth budget, on each case."""
    cells, directions = [], []
    kls: dict[str, list[float]] = {}
    num_bytes: dict[str, int] = {}
    for case in subject.cases():
        cells.append(cell_norms(case))
        directions.append(_directions(case))
        reference = case.reference()
        for name, arm in arms_of(case.bench, len(cells[0])):
            served = arm.serve(case.request)
            kls.setdefault(name, []).append(kl(served.logits, reference))
            num_bytes[name] = num_bytes.get(name, 0) + served.num_bytes
    blind = kls.pop("blind")
    figures: dict[str, JsonFigure] = {f"{name}: eta": eta_of(kls[name], blind) for name in kls}
    figures |= {
        "deep over shallow": mean_of(
            [d for one in cells if (d := deep_over_shallow(one)) is not None]
        ),
        "energy in the deep half": mean_of([_deep_half(one) for one in cells]),
        "tokens for 90 %, deepest third": mean_of(
            [share_for(_thirds(one)[-1].square()) for one in cells]
        ),
        "directions for 90 %": mean_of([one for one in directions if one is not None]),
        "bytes of the deep half": plain(
            num_bytes["patched 0.5"] / num_bytes["patched 1"], len(cells)
        ),
    }
    by_layer = [one.norm(dim=1).tolist() for one in cells]
    curves = {
        "layers": mean_curve(depths(len(cells[0])), by_layer),
        **{
            third: mean_curve(
                [(at + 0.5) / BINS for at in range(BINS)],
                [binned(_thirds(one)[place]) for one in cells],
            )
            for place, third in enumerate(THIRDS)
        },
        **{
            kind: curve_of(SHARES, [figures[f"{kind} {share:g}: eta"] for share in SHARES])
            for kind in ("patched", "recomputed")
        },
    }
    return {"figures": figures, "curves": curves}


def arms_of(bench: Workbench, num_layers: int) -> Iterator[tuple[str, Arm]]:
    """Name -> arm: blind, and both kinds at every budget."""
    yield "blind", Blind(bench)
    for share in SHARES:
        yield f"patched {share:g}", DeepPatched(bench, RANK, share)
        yield f"recomputed {share:g}", LayerReprefill(bench, num_layers - round(share * num_layers))


def cell_norms(case: Case) -> Float[Tensor, "L T"]:
    """‖Δ‖ of each layer and token of B, all channels, each in units of the layer's own KV."""
    total = torch.zeros(())
    canonical = case.bench.canonical(case.chunk).tensors
    for name, delta in case.delta().items():
        scale = canonical[name].float().flatten(1).norm(dim=1)[:, None]
        total = total + (delta.norm(dim=-1) / scale).square().cpu()
    return total.sqrt()


def binned(by_token: Float[Tensor, " T"]) -> list[float]:
    """Root mean square in each of BINS equal places; a place without a token has its nearest one's."""
    edges = torch.linspace(0, len(by_token), BINS + 1).round().long().tolist()
    spans = [(min(a, len(by_token) - 1), b) for a, b in itertools.pairwise(edges)]
    return [float(by_token[a : max(b, a + 1)].square().mean().sqrt()) for a, b in spans]


def deep_over_shallow(cells: Float[Tensor, "L T"]) -> float | None:
    """‖Δ‖ of the deepest third over that of the first third; None where that has nothing."""
    first, _, deepest = (float(third.norm()) for third in _thirds(cells))
    return deepest / first if first > 0 else None


def _thirds(cells: Float[Tensor, "L T"]) -> list[Tensor]:
    """By token, the root mean square over the layers of each third."""
    third = max(1, len(cells) // 3)
    parts = (cells[:third], cells[third:-third], cells[-third:])
    return [part.square().mean(0).sqrt() for part in parts]


def _deep_half(cells: Float[Tensor, "L T"]) -> float:
    energy = cells.square().sum(1)
    return float(energy[len(energy) // 2 :].sum() / energy.sum())


def _directions(case: Case) -> float | None:
    """Components for 90 % of the content channel's energy over all there are; None where nothing came in."""
    energies = probe_energy([case])
    energy = energies[content_channel(list(energies))]
    found = [e90 for e90 in energy.e90 if e90 is not None]
    return sum(found) / len(found) / len(energy.curve[0]) if found else None


def charts(models: Models) -> list[Chart]:
    """Depth with a line for each model; tokens and budgets for each model."""
    each = {name: model["curves"] for name, model in models.items()}
    layers = [line(name, curves["layers"]) for name, curves in each.items()]
    tokens = [
        Chart(
            f"Tokens: {name}",
            "lines",
            "place in B, first token to last",
            "‖Δ‖ of a token, relative to its layer's KV",
            [line(third, curves[third]) for third in THIRDS],
            log_y=True,
        )
        for name, curves in each.items()
    ]
    budgets = [
        Chart(
            f"Deep layers alone: {name}",
            "lines",
            "share of the layers, from the deepest",
            "η",
            [
                line(f"rank-{RANK} patch", curves["patched"]),
                line("recomputed in context", curves["recomputed"]),
            ],
            levels=[("paper: deep half", 0.95)],
        )
        for name, curves in each.items()
    ]
    axes = ("depth, first layer to last", "‖Δ‖, relative to the layer's KV")
    return [Chart("The deficit by layer", "lines", *axes, layers), *tokens, *budgets]


UNEVEN = "Not known"

REPRODUCTION = Reproduction(
    name="fig8",
    title="Shallow layers are reused, deep ones are patched",
    paper=(
        "Figure 8 draws one plane a layer of a 28-layer model, with the size of the correction for each "
        "token and feature (no n is given): shallow layers reuse verbatim, the deficit emerges in the "
        "middle and grows deep, on almost every token, with about 90 % of its energy in about 11 % of the "
        "directions. The deepest half of the patch keeps about 95 % of full fidelity at half the bytes "
        '(Table 2), its budget model-dependent; "equivalently, recomputing only the deep layers in context '
        'keeps up".'
    ),
    ours=(
        "The binding task. Cells are layers and tokens, each channel in units of its layer's KV; the "
        "paper's map by feature is left out. The arms serve the whole window: factors of rank 16 for the "
        "deepest share of the layers alone, or those layers recomputed for all tokens from the hidden "
        "states that each chunk has alone."
    ),
    run=run,
    claims=(
        Claim(
            "‖Δ‖, deepest third over first third",
            "deep over shallow",
            "grows from the middle down",
            surely_above(1.0),
            UNEVEN,
        ),
        Claim(
            "share of ‖Δ‖² in the deeper half",
            "energy in the deep half",
            "concentrates in the deep layers",
            surely_above(0.5),
            UNEVEN,
        ),
        Claim(
            "tokens for 90 % of ‖Δ‖² in the deepest third",
            "tokens for 90 %, deepest third",
            "almost every token",
            at_least(0.5),
            UNEVEN,
        ),
        Claim(
            "directions for 90 % of ‖Δ‖²",
            "directions for 90 %",
            "about 0.11",
            at_most(0.11),
            UNEVEN,
        ),
        Claim("deepest half patched: η", "patched 0.5: eta", "about 0.95", at_least(0.95), UNEVEN),
        Claim("its bytes over the whole patch's", "bytes of the deep half", "half", at_most(0.55)),
        Claim(
            "deepest three quarters recomputed: η",
            "recomputed 0.75: eta",
            "keeps up (0.90 or more, Appendix D)",
            at_least(0.9),
            "The hidden states that enter a quarter of the way up were made alone: what the layers below "
            "bind is missing",
        ),
        Claim("deepest quarter patched: η", "patched 0.25: eta", "–", SHOWN),
        Claim("deepest three quarters patched: η", "patched 0.75: eta", "–", SHOWN),
        Claim("all layers patched: η", "patched 1: eta", "–", SHOWN),
        Claim("deepest quarter recomputed: η", "recomputed 0.25: eta", "–", SHOWN),
        Claim("deepest half recomputed: η", "recomputed 0.5: eta", "–", SHOWN),
        Claim("all layers recomputed: η", "recomputed 1: eta", "–", at_least(0.999)),
    ),
    charts=charts,
)
