"""Kamera: a position-independent KV cache for multimodal agents."""

__version__ = "0.1.0"
__all__ = ["__version__"]
