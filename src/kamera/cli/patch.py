"""What patches keep: the options that `serve` and `compile` share, being of one store."""

from typing import Annotated

import typer

Rank = Annotated[
    int | None,
    typer.Option(min=1, help="One rank for all layers, in float32, in place of --patch."),
]
PatchWords = Annotated[
    str | None,
    typer.Option(
        help='What patches keep, in words: "bytes 6%, least 8, int8" (the default), "rank 16, bf16".'
    ),
]
