"""Sphinx configuration: `make docs`. Needs no network."""

from importlib.metadata import version as version_of

project = "Kamera"
author = "the Kamera authors"
release = version = version_of("kamera-kv")

extensions = ["myst_parser"]
source_suffix = {".md": "markdown"}
exclude_patterns = []
myst_heading_anchors = 3
highlight_language = "text"

html_theme = "furo"
html_title = f"Kamera {release}"
