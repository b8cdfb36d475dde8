# Two commands in a fresh clone, with Python 3.11 or newer and the package index: make demo, make test.
# The other targets are tasks of noxfile.py, run in the same environment.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
NOX := $(PY) -m nox --non-interactive --error-on-missing-interpreters -s

.DEFAULT_GOAL := help
.PHONY: help setup demo conformance test lint types layers docs bench check clean

help:
	@echo "make demo    blind reuse, patches and window operations on the packaged model -> build/demo"
	@echo "make conformance  every model family against plain Transformers -> build/conformance.json"
	@echo "make test    every test"
	@echo "make check   lint, types, layers, docs, then every test"
	@echo "make lint | types | layers | docs | bench | clean"

setup: $(INSTALLED)

# torch on its own first: what depends on it then finds it there.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Kamera needs Python 3.11 or newer, this is {v[0]}.{v[1]}: make PYTHON=python3.11 ...")'
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -qq --upgrade 'pip>=25.1'
	$(PY) -m pip install -qq 'torch==2.13.0'
	$(PY) -m pip install -qq --editable '.[hf,lab,cli]' --group dev
	@# Beside the environment, not in it: Transformers would use it everywhere. One test reads it.
	$(PY) -m pip install -qq --no-deps --target $(VENV)/torchvision 'torchvision==0.28.0'
	touch $@

demo: $(INSTALLED)
	$(VENV)/bin/kamera demo --out build/demo

test: $(INSTALLED)
	@$(PY) -m pytest

conformance lint types layers docs bench check: $(INSTALLED)
	@$(NOX) $@

clean:
	rm -rf build dist .nox .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks docs -name __pycache__ -type d -exec rm -rf {} +
