"""`kamera doctor`."""

import json
from pathlib import Path
from typing import Annotated

import typer
from rich import box
from rich.console import Console
from rich.markup import escape as escape_markup
from rich.padding import Padding
from rich.table import Table

from kamera.cli.failing import clear_errors
from kamera.cli.kernel import Kernels
from kamera.cli.model import model_folder
from kamera.support import Reason, Rope, Verdict, examine, read_config
from kamera.support.ranges import ranges
from kamera.support.shown import printable, shown

_COLOURS = {"supported": "green", "partly": "yellow", "refused": "red"}
_KINDS = {
    "cannot": "can't be served",
    "not yet": "not tested yet",
    "remote code": "runs its own code",
    "unknown": "isn't known",
    "config": "contradicts itself",
}
_RANK, _CHUNK = 16, 1024
"""The patch whose bytes are shown: a middle rank, on a chunk of an image's size."""
_MAX_KINDS = 6
"""Layer types that are counted each."""


def doctor(
    model: Annotated[
        Path, typer.Argument(metavar="MODEL_DIR", help="A checkpoint's folder, or its config.json.")
    ],
    dtype: Annotated[
        str | None, typer.Option(help="Of the KV cache; the checkpoint's own if not given.")
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Can this model be served, and why not? From its config.json alone; exit code 1 if it can't."""
    with clear_errors():
        verdict = examine(read_config(model_folder(model) or model))
        num_bytes = verdict.bytes_per_token(dtype)
        patch_bytes = verdict.patch_bytes(_RANK, _CHUNK, dtype)
    if as_json:
        report = {**verdict.to_json(), "cache_dtype": verdict.cache_dtype(dtype)}
        report |= {"bytes_per_token": num_bytes, "kernels": Kernels.here().to_json()}
        typer.echo(json.dumps(report))
    else:
        _show(verdict, verdict.cache_dtype(dtype), num_bytes, patch_bytes)
    raise typer.Exit(1 if verdict.status == "refused" else 0)


def _show(verdict: Verdict, dtype: str, num_bytes: int | None, patch_bytes: int | None) -> None:
    console = Console(highlight=False)
    colour = _COLOURS[verdict.status]
    name = verdict.family or verdict.model_type
    console.print(f"[bold]{escape(name)}[/bold]: [bold {colour}]{verdict.status}[/bold {colour}]")
    for reason in verdict.reasons:
        console.print(_reason(reason))
    for note in verdict.notes:
        console.print(Padding(escape(note), (0, 0, 0, 2)))
    console.print(_facts(verdict, dtype, num_bytes, patch_bytes))


def escape(text: str) -> str:
    """A text from a config as Rich may print it: no markup, and nothing that steers the terminal."""
    return escape_markup(printable(text))


def _reason(reason: Reason) -> Table:
    table = Table(box=box.SIMPLE, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    table.add_row(_KINDS[reason.kind], f"[bold]{escape(reason.what)}[/bold]")
    table.add_row("why", escape(reason.why))
    table.add_row("what to do", escape(reason.todo))
    return table


def _facts(verdict: Verdict, dtype: str, num_bytes: int | None, patch_bytes: int | None) -> Table:
    table = Table(box=box.SIMPLE, show_header=False, padding=(0, 1, 0, 0))
    table.add_column(no_wrap=True)
    table.add_column()
    for key, value in _rows(verdict, dtype, num_bytes, patch_bytes):
        table.add_row(escape(key), escape(value))
    return table


def _rows(
    verdict: Verdict, dtype: str, num_bytes: int | None, patch_bytes: int | None
) -> list[tuple[str, str]]:
    rows = [("model type", verdict.model_type)]
    if verdict.text_model_type not in (None, verdict.model_type):
        rows.append(("language model", str(verdict.text_model_type)))
    if verdict.model_class is not None:
        rows.append(("class", f"{verdict.model_class} (Transformers)"))
    if verdict.modalities:
        rows.append(("modalities", ", ".join(verdict.modalities)))
    if verdict.attention is not None:
        rows.append(("attention", verdict.attention.upper()))
    rows += [
        (f"channel {c.name}", _channel(c.name, c.num_heads, c.dim, c.rotates))
        for c in verdict.channels
    ]
    rows += [(_rope_title(rope), _rope(rope)) for rope in verdict.ropes]
    if verdict.num_layers:
        rows.append(("layers", _layers(verdict)))
    rows += [(f"can't be patched: {b.layer_type}", ranges(b.layers)) for b in verdict.blocked]
    if verdict.deepstack_levels:
        rows.append(
            ("deepstack", f"vision features added to the first {verdict.deepstack_levels} layers")
        )
    if verdict.num_experts:
        rows.append(("experts", str(verdict.num_experts)))
    if verdict.quantization is not None:
        rows.append(("quantized", verdict.quantization))
    if num_bytes is not None:
        rows.append(("bytes per token", f"{num_bytes:,} ({dtype})"))
    if num_bytes and patch_bytes is not None and verdict.status != "refused":
        share = patch_bytes / (num_bytes * _CHUNK)
        rows.append(
            (
                f"patch of rank {_RANK}",
                f"{patch_bytes:,} bytes on {_CHUNK} tokens: {share:.1%} of their KV",
            )
        )
        rows.append(("placed by", str(Kernels.here())))
    return rows


def _channel(name: str, num_heads: int, dim: int, rotates: bool) -> str:
    letters = {"c_kv": f"[C={dim}]", "k_pe": f"[R={dim}]"}
    shape = letters.get(name, f"[H={num_heads}, D={dim}]")
    return f"{shape}, {'rotates' if rotates else 'does not rotate'}"


def _rope_title(rope: Rope) -> str:
    return "RoPE" if rope.layer_type == "all" else f"RoPE, {rope.layer_type.split('_')[0]} layers"


def _rope(rope: Rope) -> str:
    axes = rope.axes if not rope.section else f"M-RoPE {rope.axes} {shown(list(rope.section))}"
    dims = f"{rope.rotary_dims} of {rope.head_dim} dims"
    bound = "" if rope.max_positions is None else f", below position {rope.max_positions:,}"
    return f"{rope.scheme}, {axes}, {rope.layout}, {dims}, base {rope.base:,.0f}{bound}"


def _layers(verdict: Verdict) -> str:
    counts: dict[str, int] = {}
    for kind in verdict.layer_types:
        counts[kind] = counts.get(kind, 0) + 1
    shown_kinds = ", ".join(f"{count} {kind}" for kind, count in list(counts.items())[:_MAX_KINDS])
    if len(counts) > _MAX_KINDS:
        shown_kinds += f" and {len(counts) - _MAX_KINDS:,} more types"
    window = f", window {verdict.sliding_window:,}" if verdict.sliding_window is not None else ""
    return f"{verdict.num_layers}: {shown_kinds}{window}"
