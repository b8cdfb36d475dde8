"""Which position axis each pair of a head reads, from a model's `mrope_section`."""

from collections.abc import Sequence

from kamera.errors import ConfigError


def sectioned_axes(section: Sequence[int], num_pairs: int) -> tuple[int, ...]:
    """Chunk i of the sections reads axis i % 3 (Qwen2-VL, Qwen2.5-VL, GLM-4V, PaddleOCR-VL).

    Raises:
        ConfigError: sections that don't add up to N.
    """
    _check(section, num_pairs)
    return tuple(chunk % 3 for chunk, length in enumerate(section) for _ in range(length))


def interleaved_axes(section: Sequence[int], num_pairs: int) -> tuple[int, ...]:
    """t, h, w, t, h, w, … until h and w have had their sections, then t (Qwen3-VL).

    Raises:
        ConfigError: not three sections, or sections that don't add up to N.
    """
    _check(section, num_pairs)
    if len(section) != 3:
        raise ConfigError(
            f"Invalid mrope_section: expected lengths of t, h and w, got {list(section)}"
        )
    axes = [0] * num_pairs
    for axis in (1, 2):
        for pair in range(axis, min(3 * section[axis], num_pairs), 3):
            axes[pair] = axis
    return tuple(axes)


def _check(section: Sequence[int], num_pairs: int) -> None:
    if sum(section) != num_pairs or min(section) < 0:
        raise ConfigError(
            f"Invalid mrope_section: expected lengths that add up to N={num_pairs}, "
            f"got {list(section)}"
        )
