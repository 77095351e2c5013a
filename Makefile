# Every target sets up .venv by itself: a bare machine needs only python3 (3.11 or newer) and make.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
export MPLBACKEND := Agg
# Numba's disk cache watches only the file that a function is in, not those it calls into: a cache for each state of the sources.
export NUMBA_CACHE_DIR := $(CURDIR)/$(VENV)/numba/$(shell cat src/uneven/losses.py src/uneven/engine/*.py src/uneven/noise/*.py | cksum | cut -d' ' -f1)

.PHONY: demo test test-slow lint bench coverage docs recorded pictures fuzz torture wheel-test clean

demo: $(VENV)/.dev
	$(BIN)/uneven demo -o demo

# A file stays with one worker, which makes its fixtures once.
TESTS := $(BIN)/python -m pytest --dist loadfile --no-loadscope-reorder
test: $(VENV)/.dev
	$(TESTS) -n auto -m "not slow"

# Browsers, whole experiments, audits with millions of draws, sites that are killed: as long again. One worker more than
# cores, since many of them wait.
test-slow: $(VENV)/.dev
	$(TESTS) -n $$(($$(nproc) + 1)) -m slow

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/planning.py
	$(BIN)/python benchmarks/engine.py
	$(BIN)/python benchmarks/streaming.py

# 100,000 mutated files to every reader, sources.toml, model and ledger.
fuzz: $(VENV)/.dev
	$(BIN)/python tests/fuzz.py 100000

# 10,000 writers of a ledger killed, six at once, and the file copied at random moments.
torture: $(VENV)/.dev
	$(BIN)/python tests/ledger/ledger_torture.py 10000

# Which lines the tests run; compiled loops are not counted: Python does not see them run.
coverage: $(VENV)/.dev
	$(TESTS) -n auto --cov=uneven --cov-report=html --cov-report=term:skip-covered
	@echo "Open htmlcov/index.html"

# Every Python and console block of the README and the docs is run, and what it prints is put below it (docs/executed.py).
docs: $(VENV)/.docs
	$(BIN)/python docs/executed.py README.md
	$(BIN)/sphinx-build -q -W --keep-going -b html docs docs/_build/html
	@echo "Open docs/_build/html/index.html"

# Output of the console blocks that need a full data set: UNEVEN_DATA is the folder that has bank/bank-additional-full.csv.
recorded: $(VENV)/.dev
	$(BIN)/python docs/executed.py --record docs/quickstart.md

# The picture of a report in the README, from a browser of the system; and that of docs/beyond.md, from its tables.
pictures: $(VENV)/.dev
	$(BIN)/python docs/report_picture.py
	$(BIN)/python docs/beyond_picture.py

# A wheel, alone in an empty environment, does the main job; from another folder, so that no source is in reach.
WHEEL := $(CURDIR)/build/wheel
wheel-test: $(VENV)/.dev
	rm -rf $(WHEEL)
	$(BIN)/python -m pip wheel --quiet --disable-pip-version-check --no-deps --wheel-dir $(WHEEL) .
	$(PYTHON) -m venv $(WHEEL)/venv
	$(WHEEL)/venv/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt $(WHEEL)/*.whl
	cd $(WHEEL) && venv/bin/uneven demo --runs 2 -o demo && test -s demo/report.html

clean:
	rm -rf $(VENV) docs/_build docs/_generated build demo dist .mypy_cache .pytest_cache .ruff_cache .hypothesis

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "uneven needs Python 3.11 or newer; try: make PYTHON=python3.11 $(MAKECMDGOALS)")'
	$(PYTHON) -m venv $(VENV)

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	@echo "Setting up $(VENV) (once; about a minute)"
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[dev,federation,studio]'
	@touch $@

$(VENV)/.docs: $(VENV)/.dev
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[docs]'
	@touch $@
