"""The lab's tables."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def show_binding(section: dict[str, Any]) -> None:
    """Every model's arms, then the patch against tokens of the same bytes. The report holds more figures."""
    console = Console()
    for name, model in section["models"].items():
        title = f"{name} ({model['dtype']}), {section['task']}: {section['n']} test items"
        console.print(_arms(title, model["arms"]))
    console.print(_paired(section["models"]))


def show_probes(section: dict[str, Any]) -> None:
    """One column a model; channels stand side by side, in the model's order."""
    models = section["models"]
    title = f"{section['task']}: means over {section['n']} test items"
    table = _table(title, ("probe",), tuple(models))
    columns = [_probes(model["probes"]) for model in models.values()]
    for label in columns[0]:
        table.add_row(label, *(column.get(label, "-") for column in columns))
    Console().print(table)


def _probes(probes: dict[str, Any]) -> dict[str, str]:
    sweep, tokens = probes["rank_sweep"], probes["token_diffuseness"]
    selectors = probes["selector_recall"]
    at = tokens["shares"].index(0.5)
    return {
        "functional rank": str(sweep["functional_rank"]),
        "e90 / tokens of B": _channels(probes["energy"], "e90_share"),
        "‖Δ‖ deep over shallow": _channels(probes["depth_profile"], "deep_over_shallow"),
        "tokens for 90 % of Δ": _number(tokens["share_for_90"]),
        "η of the top half": _number(tokens["oracle_eta"][at]),
        **{f"recall {name}": _number(value) for name, value in selectors["recall"].items()},
        "recall random": _number(selectors["random"]),
    }


def _channels(figures: dict[str, Any], key: str) -> str:
    """One figure for each channel."""
    return " / ".join(
        "-" if got[key] is None else format(got[key], ".2g") for got in figures.values()
    )


def _table(title: str, first: tuple[str, ...], numbers: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in first:
        table.add_column(heading, no_wrap=True)
    for heading in numbers:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _arms(title: str, arms: dict[str, dict[str, Any]]) -> Table:
    headings = ("right", "KL", "η", "95 %", "flips", "KB/item")
    table = _table(title, ("arm",), headings)
    for name, row in arms.items():
        table.add_row(
            name,
            f"{row['accuracy']:.3f}",
            f"{row['kl']:.1e}",
            _number(row["eta"]),
            _interval(row["intervals"]["eta"]),
            _number(row["flip_recover"]),
            f"{row['num_bytes'] / row['n'] / 1000:.1f}",
        )
    return table


def _paired(models: dict[str, dict[str, Any]]) -> Table:
    title = "η of the patch minus η of the best token arm that keeps no more bytes"
    table = _table(title, ("model", "patch", "token arm"), ("Δη", "95 %", "p"))
    for name, model in models.items():
        for pair in model["paired"]:
            eta = pair.get("eta")
            shown = (
                ("-", "-", "-")
                if eta is None
                else (_number(eta["value"]), _interval(eta), f"{eta['p_value']:.1g}")
            )
            table.add_row(name, f"m = {pair['rank']}", pair["other"] or "none so small", *shown)
    return table


def _interval(interval: dict[str, Any] | None) -> str:
    if interval is None or interval["low"] is None:
        return "-"
    return f"{interval['low']:.3f} to {interval['high']:.3f}"


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
