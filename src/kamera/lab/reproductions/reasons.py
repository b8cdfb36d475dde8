"""Why the packaged models differ, where several pages give one reason."""

TOLD = (
    "The packaged models were trained to bind the same answer into every token of a later frame "
    "(docs/nano-gqa.md), so that a few recomputed tokens tell it"
)
SINK = (
    "On the packaged models the 32 tokens are the prefix and the upper half of the legend: where the entry "
    "that tells stands there, the arm is near re-prefill, elsewhere it restores no answer (docs/lab-log.md)"
)
