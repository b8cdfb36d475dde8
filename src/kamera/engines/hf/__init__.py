"""The Transformers engine: the reference, and the embedded default (extra `hf`).

version   the range of Transformers that was tested
family, modality, families  which model types are served, and how their chunks are laid out
loading   a checkpoint from a local folder
chat      a chat request -> chunks and tail, by token ids
images, videos, audio  a file or what is in memory -> a tower's inputs and identity
kimi_images, video_processor  processors that Transformers has for torchvision alone
backbone  a loaded model as a function of tokens, positions and KV
trained   how many positions it was trained on
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
