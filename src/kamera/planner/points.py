"""The menu's operating points (paper, Table 2)."""

from enum import Enum


class OperatingPoint(Enum):
    """How one chunk of a window is served. The value is the name in logs, metrics and reports."""

    LEADING = "leading"
    """Its conditioned KV on exactly these antecedents is held: relocate, free and exact."""
    EXACT = "exact"
    """Canonical plus the patch formed on the same antecedents in the same order."""
    ORBIT = "orbit"
    """Canonical plus the one patch of every ordering of the same antecedents."""
    SURVIVOR = "survivor"
    """Conditioned KV whose head antecedents left: relocate only."""
    SERVED = "served"
    """Canonical plus a patch that was formed when approximate KV stood in front, as it does again."""
    RECALL = "recall"
    """Evicted, now back: canonical plus a fresh patch, formed by one conditioned forward."""
    FORM = "form"
    """Antecedents never seen before it: prefill it once, and keep what it absorbed as a patch."""

    @property
    def is_free(self) -> bool:
        """Whether serving it runs no forward."""
        return self not in (OperatingPoint.RECALL, OperatingPoint.FORM)
