# Every target sets up .venv by itself: a bare machine needs only python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export MPLBACKEND := Agg
# Numba's disk cache watches only the file that a function is in, not those it calls into: a cache for each state of the sources.
export NUMBA_CACHE_DIR := $(CURDIR)/$(VENV)/numba/$(shell cat src/uneven/engine/*.py src/uneven/noise/*.py | cksum | cut -d' ' -f1)

.PHONY: demo test lint bench docs clean

demo: $(VENV)/.dev
	$(BIN)/python examples/two_hospitals.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/streaming.py

docs: $(VENV)/.docs
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

clean:
	rm -rf $(VENV) docs/_build build dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "uneven needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once; about a minute)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,studio]'
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@
