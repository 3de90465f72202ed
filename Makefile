# Two commands do everything on a fresh machine with python3, pip, make and git: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo demo-install test test-all lint docs flagship benchmark gpu-check clean

demo: $(VENV)/.installed ## install lockgen, resolve the flagship against the bundled metadata, show the screen
	$(BIN)/lockgen resolve --offline envs/pytorch-2.9-nlp.yaml

demo-install: build/env/conda-meta/history ## build a channel here, lock, install and prove the CPU environment from it
	$(BIN)/lockgen verify build/local-cpu -p build/env -o build/evidence.json --html build/report.html

# The local channel: conda packages of this machine's Python and of pinned wheels, for CPython 3.11.
build/env/conda-meta/history: $(VENV)/.installed recipes/local/channel.toml envs/local-cpu.yaml
	$(BIN)/lockgen channel build recipes/local -o build/channel
	$(BIN)/lockgen resolve envs/local-cpu.yaml -o build/local-cpu
	$(BIN)/lockgen install build/local-cpu -p build/env
	touch $@

test: $(VENV)/.installed-dev lint ## lint, type check, and the whole test suite
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -m "not slow"

test-all: $(VENV)/.installed-dev lint build/env/conda-meta/history ## the same, and what needs the local channel
	LOCKGEN_TEST_PYTHON="$(abspath build/env/bin/python)" PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

docs: $(VENV)/.installed-dev ## regenerate the reference and build the site into site/
	$(BIN)/python tools/reference.py
	$(BIN)/mkdocs build --strict

flagship: $(VENV)/.installed ## lock the flagship again against the bundled metadata, and the Dockerfile at the root
	$(BIN)/lockgen resolve --offline envs/pytorch-2.9-nlp.yaml
	$(BIN)/python tools/root_dockerfile.py

benchmark: $(VENV)/.installed ## the flagship's resolve beside a bare solve and conda-lock, in one run
	$(BIN)/python benchmarks/resolve.py

# Debian splits ensurepip off into python3-venv; pip of the machine puts pip into the environment instead.
$(VENV)/bin/python:
	$(PYTHON) -m venv --without-pip $(VENV)
	$(PYTHON) -m pip --python $(VENV)/bin/python install --quiet --upgrade "pip>=25.1"

$(VENV)/.installed: $(VENV)/bin/python pyproject.toml
	$(BIN)/pip install --quiet --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(BIN)/pip install --quiet --group dev
	touch $@

gpu-check: ## on a machine with a GPU: versions, CUDA, a BERT of 12 layers, two processes, exports, with PYTHON's PyTorch
	$(PYTHON) src/lockgen/verify/payload/main.py src/lockgen/verify/payload/gpu-check.json evidence.json

clean:
	rm -rf $(VENV) site build dist
