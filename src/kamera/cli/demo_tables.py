"""The demo's tables: what a newcomer should see."""

from typing import Any

from rich import box
from rich.console import Console
from rich.table import Table


def show_demo(report: dict[str, Any]) -> None:
    """Tasks by arm, exactness, and the window operations beside the paper's figures."""
    console = Console()
    console.print(_tasks(report["tasks"]))
    operator = report["operator"]
    console.print(
        f"exactness: layer-0 keys after relocation {operator['layer0_key_error']:.1e} relative, up to "
        f"position {max(operator['offsets'])}; values identical: {operator['values_identical']}; "
        f"bf16 {operator['bf16_ulp']:.2f} ULP; full-rank KL at most {operator['full_rank_kl_max']:.1e}",
        highlight=False,
    )
    console.print(_windows(report["windows"]))


def _table(title: str, first: str, headings: tuple[str, ...]) -> Table:
    table = Table(title=title, title_justify="left", box=box.SIMPLE_HEAD, padding=(0, 1, 0, 0))
    table.add_column(first, no_wrap=True)
    for heading in headings:
        table.add_column(heading, justify="right", no_wrap=True)
    return table


def _tasks(tasks: dict[str, dict[str, Any]]) -> Table:
    n = next(iter(tasks.values()))["blind"]["n"]
    title = f"tasks: {n} test items each; accuracy, and what the patch gives back"
    table = _table(
        title,
        "task",
        (
            "re-\nprefill",
            "blind\nreuse",
            "patch\nm = 4",
            "patch\nm = 16",
            "KL\nblind",
            "KL\nm = 16",
            "η\nm = 16",
            "kamera\nsame",
        ),
    )
    for name, arms in tasks.items():
        shown = [arms[arm]["accuracy"] for arm in ("re-prefill", "blind", "patch 4", "patch 16")]
        table.add_row(
            name,
            *(f"{value:.3f}" for value in shown),
            f"{arms['blind']['kl']:.1e}",
            f"{arms['patch 16']['kl']:.1e}",
            _number(arms["patch 16"]["eta"]),
            f"{arms['kamera']['agreement']:.3f}",
        )
    return table


def _windows(windows: dict[str, dict[str, Any]]) -> Table:
    orbit, survivor, recall = (windows[name] for name in ("orbit", "survivor", "recall"))
    title = f"window operations on the binding task, {orbit['n']} items"
    table = _table(title, "operation", ("ours", "paper"))
    paper = {name: windows[name]["paper"] for name in windows}
    for label, ours, theirs in (
        ("reorder: η of the orbit patch", orbit["eta_orbit"], paper["orbit"].get("eta_orbit")),
        ("reorder: η of the ordering's own", orbit["eta_exact"], paper["orbit"].get("eta_exact")),
        ("slide: KL of a kept survivor", survivor["kl_keep"], paper["survivor"].get("kl")),
        ("the same, its answer in what left", survivor["told_by_departed"]["kl_keep"], None),
        ("recall: η of the stale patch", recall["eta_stale"][-1], paper["recall"].get("eta_stale")),
        ("recall: η of a fresh patch", recall["eta_fresh"][-1], paper["recall"].get("eta_fresh")),
    ):
        table.add_row(label, _number(ours), _number(theirs))
    return table


def _number(value: float | None) -> str:
    return "-" if value is None else f"{value:.3f}"
