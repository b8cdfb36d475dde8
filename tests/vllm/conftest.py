"""Engines live in processes of their own; one at a time, as long as a module's tests need it."""

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
