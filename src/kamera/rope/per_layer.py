"""`PerLayerRope`: a model whose layers don't all rotate alike, as Gemma3's local and global ones."""

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TypeAlias

from kamera.errors import ConfigError
from kamera.rope.spec import RopeSpec


@dataclass(frozen=True)
class PerLayerRope:
    """The rotary scheme of each layer; layers of one type share a spec.

    Attributes:
        specs: the distinct schemes, in the order in which the layers first use them.
        layers: for each of the L layers, the index of its scheme.

    Raises:
        ConfigError: no spec, an index outside `specs`, or specs that differ in P or D (keys of all
            layers are one tensor [L, T, H, D], at one set of positions).
    """

    specs: tuple[RopeSpec, ...]
    layers: tuple[int, ...]

    def __post_init__(self) -> None:
        if not self.layers or set(self.layers) != set(range(len(self.specs))):
            raise ConfigError(
                f"Invalid layers: expected an index of each of the {len(self.specs)} specs, "
                f"got {self.layers}"
            )
        shapes = sorted({(spec.num_axes, spec.head_dim) for spec in self.specs})
        if len(shapes) > 1:
            raise ConfigError(f"Invalid specs: expected one (P, D) for all layers, got {shapes}")

    @classmethod
    def of(cls, layers: Sequence[RopeSpec]) -> "PerLayerRope":
        """From the scheme of each layer, equal ones stored once."""
        specs = tuple(dict.fromkeys(layers))
        return cls(specs, tuple(specs.index(spec) for spec in layers))

    @property
    def num_layers(self) -> int:
        """L."""
        return len(self.layers)

    @property
    def num_axes(self) -> int:
        """P, the same for all layers."""
        return self.specs[0].num_axes

    @property
    def head_dim(self) -> int:
        """D, the same for all layers."""
        return self.specs[0].head_dim

    @property
    def scheme(self) -> str:
        """The schemes' names, e.g. `"default+linear"`."""
        return "+".join(spec.scheme for spec in self.specs)

    @property
    def max_positions(self) -> int | None:
        """The lowest bound of any layer; None when no layer has one."""
        bounds = [spec.max_positions for spec in self.specs if spec.max_positions is not None]
        return min(bounds, default=None)

    def layer(self, index: int) -> RopeSpec:
        """The scheme of one layer."""
        return self.specs[self.layers[index]]

    def layers_of(self, index: int) -> list[int]:
        """The layers that use `specs[index]`, ascending."""
        return [layer for layer, used in enumerate(self.layers) if used == index]

    def check_reach(self, end: int) -> None:
        """As `RopeSpec.check_reach`, for all layers."""
        for spec in self.specs:
            spec.check_reach(end)

    def fingerprint(self) -> dict[str, object]:
        """As `RopeSpec.fingerprint`: every layer's inputs."""
        return {
            "layers": list(self.layers),
            "specs": [spec.fingerprint() for spec in self.specs],
        }


Rope: TypeAlias = RopeSpec | PerLayerRope
"""A model's whole rotary scheme."""
