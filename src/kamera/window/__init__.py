"""The window: which chunks it holds, in which order. Pure: every verb gives a new window."""

from kamera.window.window import Slot, Window

__all__ = ["Slot", "Window"]
