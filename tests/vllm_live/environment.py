"""How vLLM's processes are started: on two cores, offline, with the test-only shim."""

import os
import sys

from places import SHIM

PYTHON = sys.executable


def environment(**extra: str) -> dict[str, str]:
    """The environment of a process that runs vLLM."""
    values = {
        **os.environ,
        "PYTHONPATH": str(SHIM),
        "OMP_NUM_THREADS": "1",
        "TORCHDYNAMO_DISABLE": "1",
        "VLLM_CPU_KVCACHE_SPACE": "1",
        "HF_HUB_OFFLINE": "1",
        "VLLM_NO_USAGE_STATS": "1",
        "VLLM_CONFIGURE_LOGGING": "1",
        "VLLM_LOGGING_LEVEL": "INFO",
    }
    values.pop("VLLM_PLUGINS", None)
    return values | extra
