"""The session: a window's verbs carried out on an engine and a store.

session    Session: admit, slide, reorder, recall, ask, generate
settings   what can be set
holdings   the planner's catalog: what the window holds and the library lists
carrier    carries a plan out, chunk by chunk
resident   conditioned KV in the window, placed on demand
canvas     the window's KV in the memory that a forward reads
former     the forwards that make canonicals and patches
pending    forming that waits until nobody does
outcome    what every verb returns: per chunk the operating point, why, and what it cost
"""

from kamera.library import Library
from kamera.session.outcome import Answer, ChunkOutcome, Outcome
from kamera.session.session import Session
from kamera.session.settings import SessionSettings

__all__ = ["Answer", "ChunkOutcome", "Library", "Outcome", "Session", "SessionSettings"]
