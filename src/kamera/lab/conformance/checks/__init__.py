"""The checks, one file each: a subject gives outcomes, each an error with its bound.

relocation    a moved chunk against the model's own prefill there
canonical     the un-rotated key against the model's own before RoPE
rotation      there and back, twice, nowhere; what doesn't rotate
rounding      stored keys, rotated with one rounding
reach         refused where the frequencies change
counting      our positions against the model's own
composition   relocated chunks and the tail against the full forward
mask          the model under a mask where B sees nothing
patch         full rank gives KV(B given A)
continuation  the text behind a window that was edited
prefill       chunk by chunk; embeddings used again
engine        HFEngine itself, from chunks
controls      deliberate mistakes, which the bounds must see
routing       experts that rounding changes, in all that the others ran
"""

from collections.abc import Callable

from kamera.lab.conformance.checks import (
    canonical,
    composition,
    continuation,
    controls,
    counting,
    engine,
    mask,
    patch,
    prefill,
    reach,
    relocation,
    rotation,
    rounding,
    routing,
)
from kamera.lab.conformance.measure import Outcome
from kamera.lab.conformance.subject import Subject

CHECKS: dict[str, Callable[[Subject], list[Outcome]]] = {
    module.__name__.rpartition(".")[2]: module.check
    for module in (
        relocation,
        canonical,
        rotation,
        rounding,
        reach,
        counting,
        composition,
        mask,
        patch,
        continuation,
        prefill,
        engine,
        controls,
        routing,
    )
}
"""By name, in the order of the matrix."""

__all__ = ["CHECKS"]
