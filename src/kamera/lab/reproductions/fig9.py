"""Figure 9: thinness, recovery by rank and the gap, model by model."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

from kamera.lab.probes.energy import Energy, probe_energy
from kamera.lab.probes.rank_sweep import RankSweep
from kamera.lab.reproductions.chart import Chart, Series
from kamera.lab.reproductions.claim import SHOWN, Claim, at_least, at_most, surely_above
from kamera.lab.reproductions.curve import Curve, content_channel, eta_curve
from kamera.lab.reproductions.figures import JsonFigure, eta_of, mean_of, plain
from kamera.lab.reproductions.knee import rank_sweeps
from kamera.lab.reproductions.reproduction import ModelFigures, Models, Reproduction
from kamera.lab.reproductions.subject import Subject

RANKS = (1, 4, 16, 64)
"""Of the bars; the paper's are 16, 64 and 256 on pages of some thousand tokens."""
FLOOR = 1e-3
"""Nats: the residual KL of section 6; the paper draws its floor without a figure. Below it is no gap."""


def run(subject: Subject) -> ModelFigures:
    """The shared rank sweeps, energy by channel, and how well the model answers at all."""
    content, rotating, right = [], [], []
    for case in subject.cases():
        energies = probe_energy([case])
        name = content_channel(list(energies))
        content.append(energies[name])
        rotating += [energy for other, energy in energies.items() if other != name]
        if case.answer is not None:
            right.append(float(int(case.reference().argmax()) == case.answer))
    sweeps = rank_sweeps(subject)
    ranks, blind = sweeps[0].ranks, [sweep.blind_kl for sweep in sweeps]
    figures: dict[str, JsonFigure] = {
        "e90 share, content": _share(content),
        "e90 share, rotating": _share(rotating),
        "blind: kl": mean_of(blind),
        "re-prefill: accuracy": mean_of(right),
        "smallest step": smallest_step(sweeps),
    }
    for rank in RANKS:
        kls = [sweep.kl[ranks.index(rank)] for sweep in sweeps]
        figures[f"rank {rank}: eta"] = eta_of(kls, blind)
    return {"figures": figures, "curves": {"eta": eta_curve(ranks, [s.kl for s in sweeps], blind)}}


def _share(energies: Sequence[Energy]) -> JsonFigure:
    """e90 / n_B of one channel, over the cases in which it absorbed something."""
    return mean_of([share for one in energies if (share := one.e90_share) is not None])


def smallest_step(sweeps: Sequence[RankSweep]) -> JsonFigure:
    """The least that any doubling of the rank closes, as a share of the blind KL; negative where it hurts."""
    blind = sum(sweep.blind_kl for sweep in sweeps)
    totals = [sum(kls) for kls in zip(*(sweep.kl for sweep in sweeps), strict=True)]
    steps = [before - after for before, after in itertools.pairwise(totals)]
    return plain(min(steps) / blind if blind > 0 else None, len(sweeps))


def charts(models: Models) -> list[Chart]:
    """The paper's three panels, with a group or bar for each model."""
    figures = {name: model["figures"] for name, model in models.items()}
    names = [*figures]
    thin = [
        _bars(label, names, [figures[name][key] for name in names])
        for label, key in (
            ("content channel", "e90 share, content"),
            ("rotating channel", "e90 share, rotating"),
        )
    ]
    closed = [
        _bars(f"rank {rank}", names, [figures[name][f"rank {rank}: eta"] for name in names])
        for rank in RANKS
    ]
    gap = [_bars("blind reuse", names, [figures[name]["blind: kl"] for name in names])]
    left = [_left(name, model["curves"]["eta"]) for name, model in models.items()]
    return [
        Chart(
            "Low-rank",
            "bars",
            "model",
            "components for 90 % over n_B",
            thin,
            levels=[("paper: lowest", 0.15), ("highest", 0.30), ("Kimi-VL", 0.10)],
        ),
        Chart("A rank-m patch recovers it", "bars", "model", "η", closed),
        Chart(
            "What a rank-m patch leaves",
            "lines",
            "patch rank m",
            "share of the gap, 1 - η",
            left,
            log_x=True,
            log_y=True,
        ),
        Chart(
            "The gap",
            "bars",
            "model",
            "KL of blind reuse, nats",
            gap,
            levels=[("paper: residual of a patch, section 6", FLOOR)],
        ),
    ]


def _left(name: str, eta: Curve) -> Series:
    """1 - η at each rank; nothing where rounding makes it 0 or less."""
    value, high, low = (
        [None if one is None or one >= 1 else 1 - one for one in eta[end]]
        for end in ("y", "low", "high")
    )
    return Series(name, eta["x"], value, low, high)


def _bars(label: str, names: list[str], at: Sequence[JsonFigure]) -> Series:
    value, low, high = ([figure[end] for figure in at] for end in ("value", "low", "high"))
    return Series(label, names, value, low, high)


REPRODUCTION = Reproduction(
    name="fig9",
    title="Families of attention, and who has a gap",
    paper=(
        "Figure 9 on MMLongBench-Doc: (a) components for 90 % of Δ's energy over n_B are 0.15 to 0.30 on "
        "four MHA models (DeepSeek-VL, LLaVA-1.5, Phi-3.5-V, InternVL-V1.1) and two hybrids (GDN, Gemma-3n), "
        "0.10 on Kimi-VL; which bar has which figure isn't in the text; (b) rank 16, 64 and 256 close more "
        "and more of the gap on three of them; (c) the gap, the KL of blind reuse, tracks whether a model "
        "binds, not its size: LLaVA-1.5 and SmolVLM2 have none, DeepSeek-VL of LLaVA's size has one. Section "
        "C.4 gives n = 46 to 94 for such sets."
    ),
    ours=(
        "The binding task on every model given. All packaged models were trained to bind, so that (c) has "
        "no model without a gap, and their size hardly differs. Ranks 1, 4, 16 and 64: a frame has about "
        "as many tokens, so that 64 is all but full rank. MHA, GQA, deepstack and MLA stand side by side."
    ),
    run=run,
    claims=(
        Claim(
            "e90 / n_B, content channel",
            "e90 share, content",
            "0.15 to 0.30, Kimi-VL 0.10",
            at_most(0.30),
        ),
        Claim(
            "e90 / n_B, rotating channel",
            "e90 share, rotating",
            '"lower still on GQA\'s K" (Table 7)',
            at_most(0.30),
        ),
        Claim(
            "the least that a doubling of the rank closes",
            "smallest step",
            "recovery is monotone in rank",
            at_least(-0.001),
        ),
        Claim("blind reuse: KL", "blind: kl", "above its floor (drawn)", surely_above(FLOOR)),
        *(Claim(f"rank {rank}: η", f"rank {rank}: eta", "–", SHOWN) for rank in RANKS),
        Claim("re-prefill: accuracy", "re-prefill: accuracy", "–", SHOWN),
    ),
    charts=charts,
)
