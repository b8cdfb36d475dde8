"""A vLLM that wasn't tested is refused by its number, before anything is served."""

import pytest

from kamera.engines.vllm.version import check_version
from kamera.errors import EngineVersionError


@pytest.mark.parametrize("version", ["0.31.9", "0.33.0", "1.32.0", "0.320.0"])
def test_another_release_is_refused(monkeypatch: pytest.MonkeyPatch, version: str) -> None:
    monkeypatch.setattr("vllm.version.__version__", version)
    with pytest.raises(EngineVersionError, match=rf"{version} wasn't tested: expected 0\.32"):
        check_version()


def test_this_one_is_taken() -> None:
    assert check_version().startswith("0.32.")
