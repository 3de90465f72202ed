# Two commands do everything on a fresh machine with python3, pip, make and git: `make demo` and `make test`.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin

.PHONY: demo demo-environment test container-test container-full lint docs flagship benchmark image-benchmark jupyter gpu-channel gpu-check clean

demo: $(VENV)/.installed ## lock the flagship against the bundled metadata, then build a channel, lock, install and prove
	@printf '\n== 1 of 5: lock the example spec against the bundled metadata\n\n'
	$(BIN)/lockgen resolve --offline envs/pytorch-2.9-nlp.yaml
	@if $(BIN)/python -c 'import platform, sys; sys.exit((sys.version_info[:2], sys.platform, platform.machine()) != ((3, 11), "linux", "x86_64"))'; \
	 then $(MAKE) --no-print-directory demo-environment; \
	 else printf '\nThe rest of the demo packs this Python as a conda package, and its wheels are pinned for CPython 3.11 on x86-64 Linux.\nWith one at hand: make demo PYTHON=python3.11 VENV=.venv-3.11\n'; fi

# A real environment without any channel in reach: conda packages of this machine's Python and of pinned wheels.
demo-environment: $(VENV)/.installed
	@printf '\n== 2 of 5: build a conda channel on this machine\n\n'
	$(BIN)/lockgen channel build recipes/local -o build/channel
	@printf '\n== 3 of 5: lock envs/local-cpu.yaml against it\n\n'
	$(BIN)/lockgen resolve envs/local-cpu.yaml -o build/local-cpu
	@printf '\n== 4 of 5: install it\n\n'
	$(BIN)/lockgen install build/local-cpu -p build/env
	@printf '\n== 5 of 5: prove it: files, imports, libraries, and a Chinese BERT that learns\n\n'
	$(BIN)/lockgen verify build/local-cpu -p build/env --steps 400 -o build/evidence.json --html build/report.html

test: $(VENV)/.installed-dev lint ## lint, type check, and the whole test suite: it builds a small channel and proves what it installs
	PATH="$(abspath $(BIN)):$$PATH" $(BIN)/python -m pytest -m "not container"

container-test: $(VENV)/.installed-dev ## as root on Debian: builds images, runs and verifies them, talks to their services
	bash tools/container_tools.sh
	LOCKGEN_CONTAINER_TESTS=1 $(BIN)/python -m pytest -m container --durations=10 tests/container

container-full: $(VENV)/.installed-dev ## the same with every training step of the spec, and the benchmark of images
	LOCKGEN_TEST_STEPS=400 $(MAKE) container-test
	$(MAKE) image-benchmark

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

image-benchmark: $(VENV)/.installed-dev ## one lock as an image in three ways: times, sizes, what an update sends
	bash tools/container_tools.sh
	$(BIN)/python benchmarks/image.py

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

BASE ?= debian-bookworm-slim

jupyter: $(VENV)/.installed ## an image with Jupyter, from a small channel that is built here; BASE names another base
	$(BIN)/lockgen channel build recipes/services -o build/services
	$(BIN)/lockgen resolve envs/local-jupyter.yaml -o build/jupyter
	$(BIN)/lockgen image build build/jupyter --spec envs/local-jupyter.yaml --base "$(BASE)" -o docker-archive:build/jupyter.tar:localhost/jupyter
	@printf 'Start it:  docker load -i build/jupyter.tar && docker run --rm --shm-size=1g -p 127.0.0.1:8888:8888 -v work:/work localhost/jupyter\nIt prints the address to open, with its token. podman takes the same.\n'

gpu-channel: $(VENV)/.installed ## the CUDA build of PyTorch and NVIDIA's libraries as a channel (4 GB), locked, installed, imported
	$(BIN)/lockgen channel build recipes/cuda -o build/gpu-channel
	$(BIN)/lockgen resolve envs/local-cuda.yaml -o build/local-cuda
	$(BIN)/lockgen install build/local-cuda -p build/gpu-env --no-host-check
	build/gpu-env/bin/python -c 'import torch; print(torch.__version__, torch.version.cuda)'

gpu-check: ## on a machine with a GPU: versions, CUDA, a BERT of 12 layers, two processes, exports, with PYTHON's PyTorch
	$(PYTHON) src/lockgen/verify/payload/main.py src/lockgen/verify/payload/gpu-check.json evidence.json

clean:
	rm -rf $(VENV) site build dist
