"""What is known of a model from its config alone, and whether it can be served."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any, Literal

from kamera.errors import ConfigError
from kamera.support.shown import shown

Status = Literal["supported", "partly", "refused"]
"""`partly`: served, with a limit that a request can run into; the notes say which."""

Kind = Literal["cannot", "not yet", "remote code", "unknown", "config"]
"""Why a model is refused: the operator doesn't hold for it; nobody has tested it; it runs code of its
own; its type isn't known; its config contradicts itself."""

Attention = Literal["mha", "gqa", "mqa", "mla"]
Axes = Literal["1-D", "sectioned", "interleaved"]
Layout = Literal["half", "pairs"]

DTYPE_BYTES = {
    "float64": 8,
    "float32": 4,
    "float16": 2,
    "bfloat16": 2,
    "float8_e4m3fn": 1,
    "float8_e5m2": 1,
}
"""Bytes of one value of each dtype that a KV cache can have."""


@dataclass(frozen=True)
class Channel:
    """One channel of a token's KV in one layer: [H, D] for k and v, [C] for c_kv, [R] for k_pe."""

    name: str
    num_heads: int
    dim: int
    rotates: bool

    @property
    def num_features(self) -> int:
        """F, the values of one token in one layer."""
        return self.num_heads * self.dim


@dataclass(frozen=True)
class Rope:
    """How the keys of one layer type rotate; `layer_type` is `all` where every layer does alike.

    Attributes:
        scheme: how the frequencies are made, in Transformers' words.
        section: pairs that each of t, h, w turns; empty for 1-D.
        layout: how a pair lies **in the cache**: channel i with i + R/2, or 2i with 2i + 1.
        head_dim: channels of the head (or of k_pe), of which the first `rotary_dims` rotate.
        max_positions: exclusive bound of the positions that are served, where the scheme changes its
            frequencies with the length; None where it never does.
    """

    layer_type: str
    scheme: str
    axes: Axes
    section: tuple[int, ...]
    layout: Layout
    head_dim: int
    rotary_dims: int
    base: float
    max_positions: int | None


@dataclass(frozen=True)
class Blocked:
    """Layers that can't be patched or relocated, by index, and why; `has_kv` if they cache KV."""

    layer_type: str
    layers: tuple[int, ...]
    kind: Kind
    why: str
    has_kv: bool


@dataclass(frozen=True)
class Reason:
    """One reason to refuse: what in the config decides, why it can't be served, what to do."""

    kind: Kind
    what: str
    why: str
    todo: str


@dataclass(frozen=True)
class Verdict:
    """Everything that a bare config.json says.

    Attributes:
        model_type: the config's own.
        text_model_type: the language model's, as Transformers' native class calls it; None if unknown.
        family: the family's name; None if the model type isn't known.
        model_class: Transformers' class that is served; None if there is none.
        modalities: what is served of text, image, video, audio; empty when refused.
        attention: None if unknown.
        channels: of one layer; empty if unknown or if layers differ in shape.
        layer_types: one entry a layer; empty if unknown.
        sliding_window: tokens that a sliding layer sees, if there is such a layer.
        ropes: one entry for each way that layers rotate.
        blocked: layers that can't be relocated or patched.
        deepstack_levels: language layers that vision features are added to.
        num_experts: routed experts of a layer; 0 for a dense model.
        dtype: the checkpoint's own, the one that its KV is cached in; None if it doesn't say.
        quantization: the method, when the weights are quantized.
        notes: what a user should know; for `partly`, the limits.
    """

    model_type: str
    text_model_type: str | None
    family: str | None
    model_class: str | None
    status: Status
    modalities: tuple[str, ...]
    reasons: tuple[Reason, ...]
    notes: tuple[str, ...]
    attention: Attention | None
    channels: tuple[Channel, ...]
    layer_types: tuple[str, ...]
    sliding_window: int | None
    ropes: tuple[Rope, ...]
    blocked: tuple[Blocked, ...]
    deepstack_levels: int
    num_experts: int
    dtype: str | None
    quantization: str | None

    @property
    def num_layers(self) -> int:
        """L, or 0 if unknown."""
        return len(self.layer_types)

    @property
    def sliding_layers(self) -> tuple[int, ...]:
        """Indices of the layers that see a window alone."""
        return tuple(i for i, kind in enumerate(self.layer_types) if kind == "sliding_attention")

    @property
    def num_axes(self) -> int:
        """P, the position axes: 1, or 3 for t, h, w."""
        return 1 if all(rope.axes == "1-D" for rope in self.ropes) else 3

    def cache_dtype(self, dtype: str | None = None) -> str:
        """The dtype that KV is counted in: the one given, the checkpoint's own, or bfloat16."""
        return dtype or self.dtype or "bfloat16"

    def bytes_per_token(self, dtype: str | None = None) -> int | None:
        """KV bytes of one token over all layers that have any; None if the channels aren't known.

        Args:
            dtype: of the cache; the checkpoint's own when None, bfloat16 when it has none.

        Raises:
            ConfigError: an unknown dtype.
        """
        size = _size(self.cache_dtype(dtype))
        num_layers = self.num_layers - sum(len(b.layers) for b in self.blocked if not b.has_kv)
        values = sum(channel.num_features for channel in self.channels)
        return num_layers * values * size if values else None

    def patch_bytes(self, rank: int, num_tokens: int, dtype: str | None = None) -> int | None:
        """Bytes of the factors U [T, M] and V [F, M] of every layer and channel; None if unknown."""
        size = _size(self.cache_dtype(dtype))
        values = sum(rank * (num_tokens + channel.num_features) for channel in self.channels)
        return self.num_layers * values * size if values else None

    def explain(self) -> str:
        """The reasons of a refusal in one line, for an error's message; empty when it is served."""
        return " ".join(f"{r.what}: {r.why}. {r.todo}" for r in self.reasons)

    def to_json(self) -> dict[str, Any]:
        """The verdict as plain JSON values."""
        return {
            **asdict(self),
            "num_layers": self.num_layers,
            "sliding_layers": list(self.sliding_layers),
            "bytes_per_token": self.bytes_per_token(),
        }


def _size(dtype: str) -> int:
    name = dtype.removeprefix("torch.")
    if name not in DTYPE_BYTES:
        raise ConfigError(f"Unknown dtype {shown(dtype)}: expected one of {', '.join(DTYPE_BYTES)}")
    return DTYPE_BYTES[name]
