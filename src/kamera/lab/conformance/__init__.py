"""The conformance suite: is the operator exact on this model? Families × RoPE schemes × dtypes.

    python -m kamera.lab.conformance        prints the matrix, writes build/conformance.json

models      tiny random models, a row each; `case` says what a row is
packaged    the nano checkpoints
entry       a line of the matrix, ready to be loaded
plain       the model run by Transformers alone: every reference
wide        the same code with every number in float64: what rounding is measured against
subject     one model in one dtype, with a window
checks      one file a check
measure     errors, bounds, outcomes
matrix      everything through everything
report      the table and the JSON
"""
