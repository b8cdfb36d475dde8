"""The Transformers engine: the reference, and the embedded default (extra `hf`).

version   the range of Transformers that was tested
families  which model types are served, and how their chunks are laid out
chat      a chat request -> chunks and tail, by token ids
images    an image file or PIL image -> pixels and identity
cache     DynamicCache <-> ChunkKV
identity  ModelKey of a loaded model
recompute some of a window's tokens, run in context
attention what its layers attend to
engine    HFEngine
"""

from kamera.engines.hf.version import check_version

check_version()

from kamera.engines.hf.engine import HFEngine  # noqa: E402

__all__ = ["HFEngine"]
