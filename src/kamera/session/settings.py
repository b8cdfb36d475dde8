"""`SessionSettings`: what can be set of a session."""

from dataclasses import dataclass

from kamera.errors import ConfigError


@dataclass(frozen=True)
class SessionSettings:
    """Validated when made.

    Attributes:
        capacity: chunks that the window holds, the pinned prefix apart; None for no bound.
        rank: patch rank m; clipped to a chunk's full rank.
        form_leading: when a chunk is formed behind others, also form its patch behind the prefix
            alone (one short forward), so that it leads the window exactly once the others have left.
        keep_survivors: a chunk whose head antecedents left keeps what it absorbed of them and is
            relocated for free (paper section 5). False forms it again behind what is left: right where the
            window must forget, at the cost of a prefill.
        max_orderings: orderings that an orbit patch is averaged over; all of them up to this many,
            a seeded sample above (paper section 5: all for K <= 4, 24 of 720 for K = 6).
        tenant: whose data this is, named by the operator; part of every key.
    """

    capacity: int | None = None
    rank: int = 16
    form_leading: bool = True
    keep_survivors: bool = True
    max_orderings: int = 24
    tenant: str | None = None

    def __post_init__(self) -> None:
        for name in ("capacity", "rank", "max_orderings"):
            value = getattr(self, name)
            if type(value) is not int and not (name == "capacity" and value is None):
                raise ConfigError(f"Invalid {name}: expected a whole number, got {value!r:.80}")
        if self.capacity is not None and self.capacity < 1:
            raise ConfigError(
                f"Invalid window capacity: expected at least 1 chunk, or None for no bound, "
                f"got {self.capacity}"
            )
        if self.rank < 1:
            raise ConfigError(f"Invalid rank: expected at least 1, got {self.rank}")
        if self.max_orderings < 1:
            raise ConfigError(
                f"Invalid max_orderings: expected at least 1, got {self.max_orderings}"
            )
