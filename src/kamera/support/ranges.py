"""Layer indices as people write them."""

from collections.abc import Sequence


def ranges(layers: Sequence[int]) -> str:
    """`0-2, 4` of (0, 1, 2, 4)."""
    runs: list[list[int]] = []
    for layer in layers:
        if runs and layer == runs[-1][1] + 1:
            runs[-1][1] = layer
        else:
            runs.append([layer, layer])
    return ", ".join(str(a) if a == b else f"{a}-{b}" for a, b in runs)
