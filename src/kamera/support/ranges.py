"""Layer indices as people write them."""

from collections.abc import Sequence

_MOST_RUNS = 40


def ranges(layers: Sequence[int]) -> str:
    """`0-2, 4` of (0, 1, 2, 4); runs past the first 40 are counted."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    written = ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs[:_MOST_RUNS])
    left = len(runs) - _MOST_RUNS
    return written if left <= 0 else f"{written} and {left:,} more"
