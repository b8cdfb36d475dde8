"""The session: a window's verbs carried out on an engine and a store.

session    Session: admit, slide, reorder, recall, ask, generate
settings   what can be set
resident   conditioned KV in the window, placed on demand
pending    forming that waits until nobody does
library    the store as canonicals, patches and vision embeddings of one model and tenant
outcome    what every verb returns: per chunk the operating point, why, and what it cost
"""

from kamera.library import Library
from kamera.session.outcome import Answer, ChunkOutcome, Outcome
from kamera.session.session import Session
from kamera.session.settings import SessionSettings

__all__ = ["Answer", "ChunkOutcome", "Library", "Outcome", "Session", "SessionSettings"]
