"""The lab's tables."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table
from rich.text import Text

COLORS = {"does not hold": "red", "holds": "green", "not measured": "dim", "shown": "default"}


def show_binding(name: str, section: dict[str, Any]) -> None:
    """Every model's arms, the patch against tokens of the same bytes, then the claims."""
    from kamera.lab.reproductions.judge import measured

    console = Console()
    for model_name, model in measured(section).items():
        title = f"{model_name} ({model['dtype']}), {name}: {section['n']} test items"
        console.print(_arms(title, model["arms"]))
    console.print(_paired(measured(section)))
    show_claims(name, section)


def show_claims(name: str, section: dict[str, Any]) -> None:
    """The paper's figure, ours by model, and the verdict; what does not hold comes first."""
    from kamera.lab.reproductions.judge import ORDER, judge, shown
    from kamera.lab.runs.catalog import run_named

    one = run_named(name)
    title = f"{name}: {one.title}. {section['n']} test items"
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    for heading in ("claim", "paper", "rule", *section["models"]):
        table.add_column(Text(heading))
    for row in sorted(judge(one, section), key=lambda row: ORDER.index(row.verdict)):
        words = [
            Text(f"{shown(row.figures[model])}\n{verdict}", style=COLORS[verdict])
            for model, verdict in row.verdicts.items()
        ]
        claim = row.claim
        table.add_row(Text(claim.label), Text(claim.paper), Text(claim.rule.text), *words)
    Console().print(table)


def show_benchmark(section: dict[str, Any]) -> None:
    """Every model's arms on a public benchmark."""
    console = Console()
    for name, model in section["models"].items():
        title = f"{model['benchmark']}, {name}: {model['n']} items. Score: {model['metric']}"
        table = _table(title, ("arm",), ("score", "95 %", "same answer", "KL", "η", "KB/item"))
        for arm, row in model["arms"].items():
            table.add_row(
                arm,
                _number(row["score"]),
                _interval(row["score_interval"]),
                _number(row["agreement"]),
                f"{row['kl']:.1e}",
                _number(row["eta"]),
                f"{row['num_bytes'] / model['n'] / 1000:.1f}",
            )
        console.print(table)


def show_counts(sections: dict[str, Any]) -> None:
    """How many claims hold, a claim on a model being one."""
    from kamera.lab.reproductions.judge import ORDER, count, judge
    from kamera.lab.runs.catalog import run_named

    table = _table("claims of the paper, each on each model", ("run",), ORDER)
    for name, section in sections.items():
        counts = count(judge(run_named(name), section))
        table.add_row(name, *(str(counts[verdict] or "") for verdict in ORDER))
    Console().print(table)


def show_failures(sections: dict[str, Any]) -> bool:
    """What failed, on stderr; whether anything did."""
    from kamera.lab.reproductions.judge import failures

    console = Console(stderr=True)
    found = [
        f"{name} failed on {model}: {' '.join(why.split())}"
        for name, section in sections.items()
        for model, why in failures(section).items()
    ]
    for line in found:
        console.print(Text(line, style="bold red"), soft_wrap=True)
    return bool(found)


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
