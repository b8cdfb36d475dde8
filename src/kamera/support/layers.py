"""What each layer is: its type, read from the config or filled in as the model's class does."""

from collections.abc import Callable

from kamera.errors import ConfigError
from kamera.support.fields import Config, count, integers, names, section
from kamera.support.texts import TextModel
from kamera.support.verdict import Blocked, Kind

FULL, SLIDING, LINEAR = "full_attention", "sliding_attention", "linear_attention"
SHARED = "shared KV"

MAX_LAYERS = 10_000

_MAX_UNKNOWN = 3
"""Unknown layer types that are named each; all others become one entry."""

_LEGACY = {
    "attention": FULL,
    "mamba": LINEAR,
    "deepseek_sparse_attention": "indexed_attention",
    "qwen_sparse_attention": "indexed_attention",
}
"""Older names of layer types, as Transformers maps them."""

_WHY: dict[str, tuple[Kind, str]] = {
    LINEAR: (
        "cannot",
        "they keep one running state for the whole sequence instead of a K and a V for each token, so "
        "there is nothing of a single chunk to relocate or to patch",
    ),
    "conv": (
        "cannot",
        "a convolution keeps the state of the last few tokens instead of a K and a V for each token, so "
        "there is nothing of a single chunk to relocate or to patch",
    ),
    "hybrid": (
        "cannot",
        "attention and a running state in one layer: the state has no part that is one chunk's",
    ),
    "cross_attention": (
        "cannot",
        "they read the image's states beside the sequence: an image has no tokens in the window, so it "
        "can't be a chunk",
    ),
    "chunked_attention": (
        "not yet",
        "a query sees only the block of tokens that it falls in, so past the first block "
        "(attention_chunk_size) a chunk's KV depends on where it stands; within it no test holds that it "
        "is exact",
    ),
    "indexed_attention": (
        "not yet",
        "an indexer picks the tokens that each query reads, from keys of its own that are cached too; "
        "they aren't among the channels that are stored and relocated",
    ),
    "minimax_m3_sparse": (
        "not yet",
        "an indexer picks the blocks of tokens that each query reads, from keys of its own that are "
        "cached too; they aren't among the channels that are stored and relocated",
    ),
    SHARED: (
        "not yet",
        "they have no KV of their own and read that of an earlier layer: a chunk's KV has fewer layers "
        "than the model, and no test holds that this is exact",
    ),
}
_WITH_KV = ("chunked_attention", "indexed_attention", "minimax_m3_sparse")
_UNKNOWN: tuple[Kind, str] = (
    "unknown",
    "this type of layer isn't known to keep a K and a V for each token",
)


def layer_types(text: Config, row: TextModel) -> tuple[str, ...]:
    """The type of every layer.

    Raises:
        ConfigError: a list of another length than the number of layers, or of something else than text.
    """
    num_layers = count(text, "num_hidden_layers", row.num_layers)
    if num_layers > MAX_LAYERS:
        raise ConfigError(
            f"Invalid num_hidden_layers: expected at most {MAX_LAYERS:,}, got {num_layers:,}"
        )
    listed = text.get("layer_types")
    if listed is None:
        return _PATTERNS[row.pattern](text, row, num_layers)
    kinds = names(text, "layer_types")
    _check_length("layer_types", kinds, num_layers)
    return tuple(_LEGACY.get(kind, kind) for kind in kinds)


def window(text: Config, row: TextModel) -> int:
    """Tokens that a sliding layer sees."""
    return count(text, "sliding_window", row.window)


def blocked(kinds: tuple[str, ...], num_shared: int) -> tuple[Blocked, ...]:
    """Layers that can't be relocated, by kind; the last `num_shared` layers read another's KV."""
    first_shared = len(kinds) - num_shared
    unknown = [k for k in dict.fromkeys(kinds) if k not in (FULL, SLIDING) and k not in _WHY]
    others = set(unknown[_MAX_UNKNOWN:])
    groups: dict[str, list[int]] = {}
    for index, kind in enumerate(kinds):
        if kind in others:
            groups.setdefault(f"{len(others):,} more types", []).append(index)
        elif kind not in (FULL, SLIDING):
            groups.setdefault(kind, []).append(index)
        elif index >= first_shared:
            groups.setdefault(SHARED, []).append(index)
    return tuple(
        Blocked(kind, tuple(layers), *_WHY.get(kind, _UNKNOWN), kind in _WITH_KV)
        for kind, layers in groups.items()
    )


def _check_length(key: str, listed: tuple[object, ...], num_layers: int) -> None:
    if len(listed) != num_layers:
        raise ConfigError(
            f"Invalid {key}: expected one for each of the {num_layers} layers of "
            f"num_hidden_layers, got {len(listed)}"
        )


def _full(_text: Config, _row: TextModel, num_layers: int) -> tuple[str, ...]:
    return (FULL,) * num_layers


def _window_from_layer(text: Config, row: TextModel, num_layers: int) -> tuple[str, ...]:
    if not text.get("use_sliding_window") or text.get("sliding_window", row.window) is None:
        return (FULL,) * num_layers
    first = count(text, "max_window_layers", row.nth, least=0)
    return tuple(SLIDING if i >= first else FULL for i in range(num_layers))


def _window_all(text: Config, row: TextModel, num_layers: int) -> tuple[str, ...]:
    slides = text.get("sliding_window", row.window) is not None
    return (SLIDING if slides else FULL,) * num_layers


def _window_all_if_used(text: Config, row: TextModel, num_layers: int) -> tuple[str, ...]:
    if not text.get("use_sliding_window"):
        return (FULL,) * num_layers
    return _window_all(text, row, num_layers)


def _every_nth_full(text: Config, row: TextModel, num_layers: int) -> tuple[str, ...]:
    nth = count(text, "sliding_window_pattern", row.nth)
    return tuple(SLIDING if (i + 1) % nth else FULL for i in range(num_layers))


def _linear_but_nth(text: Config, row: TextModel, num_layers: int) -> tuple[str, ...]:
    nth = count(text, "full_attention_interval", row.nth)
    return tuple(LINEAR if (i + 1) % nth else FULL for i in range(num_layers))


def _kimi_linear(text: Config, _row: TextModel, num_layers: int) -> tuple[str, ...]:
    listed = section(text, "linear_attn_config")
    full = {layer - 1 for layer in integers(listed, "full_attn_layers")}  # counted from 1
    if not full:
        full = set(range(4, num_layers, 4))
    return tuple(FULL if i in full else LINEAR for i in range(num_layers))


def _conv_but(text: Config, _row: TextModel, num_layers: int) -> tuple[str, ...]:
    full = set(integers(text, "full_attn_idxs")) or range(num_layers)
    return tuple(FULL if i in full else "conv" for i in range(num_layers))


def _indexed(_text: Config, _row: TextModel, num_layers: int) -> tuple[str, ...]:
    return ("indexed_attention",) * num_layers


def _chunked_where_rope(text: Config, row: TextModel, num_layers: int) -> tuple[str, ...]:
    nth = count(text, "no_rope_layer_interval", row.nth)
    stated = integers(text, "no_rope_layers")
    rope = stated or tuple(int((i + 1) % nth != 0) for i in range(num_layers))
    _check_length("no_rope_layers", rope, num_layers)
    cut = text.get("attention_chunk_size", row.window) is not None
    return tuple("chunked_attention" if has_rope and cut else FULL for has_rope in rope)


def _sparse_where_listed(text: Config, _row: TextModel, num_layers: int) -> tuple[str, ...]:
    sparse = integers(section(text, "sparse_attention_config"), "sparse_attention_freq")
    if not sparse:
        return (FULL,) * num_layers
    _check_length("sparse_attention_freq", sparse, num_layers)
    return tuple("minimax_m3_sparse" if flag else FULL for flag in sparse)


def _cross_where_listed(text: Config, _row: TextModel, num_layers: int) -> tuple[str, ...]:
    cross = set(integers(text, "cross_attention_layers")) or range(3, 40, 5)
    return tuple("cross_attention" if i in cross else FULL for i in range(num_layers))


_PATTERNS: dict[str, Callable[[Config, TextModel, int], tuple[str, ...]]] = {
    "full": _full,
    "window_from_layer": _window_from_layer,
    "window_all": _window_all,
    "window_all_if_used": _window_all_if_used,
    "every_nth_full": _every_nth_full,
    "linear_but_nth": _linear_but_nth,
    "kimi_linear": _kimi_linear,
    "conv_but": _conv_but,
    "indexed": _indexed,
    "chunked_where_rope": _chunked_where_rope,
    "sparse_where_listed": _sparse_where_listed,
    "cross_where_listed": _cross_where_listed,
}
