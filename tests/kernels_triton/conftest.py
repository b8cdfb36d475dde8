"""Where Triton's tests run: on a CUDA or ROCm device if there is one, else in the interpreter, else not here.

TRITON_INTERPRET must be set before Triton is imported, and nothing else should be interpreted. So the modules
`test_on_device_*` are collected in two places: where a device is (`pytest tests/kernels_triton`), and in the
process of its own that `test_triton.py` starts.
"""

from triton_device import DEVICE

if DEVICE is None:
    collect_ignore_glob = ["test_on_device_*.py"]
