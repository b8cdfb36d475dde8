"""The quick probes: how thin, how deep and how spread what reuse loses is."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import asdict
from typing import Any

from kamera.lab.probes.case import Case
from kamera.lab.probes.depth_profile import probe_depth_profile
from kamera.lab.probes.energy import probe_energy
from kamera.lab.probes.rank_sweep import probe_rank_sweep
from kamera.lab.probes.selector_recall import probe_selector_recall
from kamera.lab.probes.token_diffuseness import probe_token_diffuseness
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import SHOWN, Claim, at_least, at_most
from kamera.lab.reproductions.figures import JsonFigure, plain
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject

Probe = Callable[[Iterator[Case]], Any]
"""Cases -> a dataclass, or one for each channel."""

PROBES: dict[str, Probe] = {
    "rank_sweep": probe_rank_sweep,
    "energy": probe_energy,
    "depth_profile": probe_depth_profile,
    "token_diffuseness": probe_token_diffuseness,
    "selector_recall": probe_selector_recall,
}
SELECTORS = {
    "cross_mass": ("attention to A, all layers", "0.70"),
    "position": ("first tokens", "0.63"),
    "key_norm": ("key norm", "0.46"),
    "kv_deviation": ("KV deviation in layer 1", "–"),
    "leverage": ("leverage", "–"),
}


def run(subject: Subject) -> ModelFigures:
    """Every quick probe on one model; figures are means over the cases, without intervals."""
    found: dict[str, Any] = {}
    for number, (name, probe) in enumerate(PROBES.items()):
        found[name] = _plain(probe(subject.cases()))
        subject.tell("probes", number + 1, len(PROBES))
    return {"figures": judged_figures(found), "probes": found}


def judged_figures(probes: Mapping[str, Any]) -> dict[str, JsonFigure]:
    """By the claims' keys. Of a figure that each channel has, the channel that is worst for the claim."""
    sweep, tokens, selectors = (
        probes[name] for name in ("rank_sweep", "token_diffuseness", "selector_recall")
    )
    n = sweep["n"]
    e90 = [c["e90_share"] for c in probes["energy"].values() if c["e90_share"] is not None]
    depth = [
        c["deep_over_shallow"]
        for c in probes["depth_profile"].values()
        if c["deep_over_shallow"] is not None
    ]
    values = {
        "functional rank": float(sweep["functional_rank"]),
        "e90 share": max(e90, default=None),
        "deep over shallow": min(depth, default=None),
        "tokens for 90 %": tokens["share_for_90"],
        "eta of the top half": tokens["oracle_eta"][tokens["shares"].index(0.5)],
        "eta of the top 15 %": tokens["oracle_eta"][tokens["shares"].index(0.15)],
        **{f"recall {name}": selectors["recall"][name] for name in SELECTORS},
        "recall at random": selectors["random"],
    }
    return {key: plain(value, n) for key, value in values.items()}


def _plain(found: Any) -> dict[str, Any]:
    if isinstance(found, Mapping):
        return {channel: asdict(figures) for channel, figures in found.items()}
    return asdict(found)


def charts(models: Models) -> list[Chart]:
    """KL by rank."""
    series = []
    for name, model in models.items():
        sweep = model["probes"]["rank_sweep"]
        series.append(Series(name, [float(rank) for rank in sweep["ranks"]], sweep["kl"]))
    return [Chart("KL by rank", "lines", "rank m", "KL, nats", series, log_x=True, log_y=True)]


PROBES_RUN = Reproduction(
    name="probes",
    title="Probes of what is lost",
    paper=(
        "Section 4 and C.2 look at what reuse loses: its rank, where in depth it is, how it is spread over "
        "tokens, and which selectors find those tokens."
    ),
    ours=(
        "The quick probes of the binding task on a quarter of the items, means without intervals; of figures "
        "that both channels have, that of the channel which is worse for the claim. Recall is of the half of "
        "B's tokens with the largest ‖Δ‖. Where the functional rank is 1, what is lost is thinner than in "
        "the paper, and its knee isn't tested."
    ),
    run=run,
    claims=(
        Claim("functional rank", "functional rank", "about 32 (section 4)", at_most(32.0)),
        Claim(
            "e90 / n_B",
            "e90 share",
            "at most 0.30 (Table 7)",
            at_most(0.30),
            "A frame has 66 tokens: a share of it is few components",
        ),
        Claim(
            "‖Δ‖ relative to KV, deepest third over first third",
            "deep over shallow",
            "0.08 to 0.49 with depth (Figure 3b)",
            at_least(1.0),
        ),
        Claim("share of the tokens that holds 90 % of ‖Δ‖²", "tokens for 90 %", "–", SHOWN),
        Claim("η of the top half of the tokens", "eta of the top half", "–", SHOWN),
        Claim("η of the top 15 %", "eta of the top 15 %", "–", SHOWN),
        *(
            Claim(f"recall, {label}", f"recall {name}", paper, SHOWN)
            for name, (label, paper) in SELECTORS.items()
        ),
        Claim("recall, at random", "recall at random", "–", SHOWN),
    ),
    charts=charts,
)
