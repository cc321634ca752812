# Two commands set up everything on a machine that has Python 3.11 and nothing else:
#   make demo   install, run the main job on the demo world, say where picture and report are
#   make test   install with the test tools, run the whole test suite
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO   ?= results/demo

.PHONY: demo serve-demo test verify verify-rest soak dependencies lint format clean

demo: $(VENV)/.core
	$(BIN)/reticent run --world mobile-health --agent private-linopt-vi --agent private-linopt-vi:calibration=paper --episodes 20000 --seeds 8 --out $(DEMO)

# The service on this machine with simulated users and the dashboard; Ctrl-C stops it and leaves nothing behind.
serve-demo: $(VENV)/.service
	$(BIN)/python examples/serve_demo.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2

verify: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m "not soak" tests/privacy tests/mutants tests/theory tests/agents tests/service

# What `make verify` does beyond `make test`.
verify-rest: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 -m verify

# What is known against the pinned versions; a package that cannot be looked up is listed as such.
dependencies: $(VENV)/.dev
	$(BIN)/python -m pip check
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off

# The service under load, killed a hundred times on either database.
soak: $(VENV)/.dev
	$(BIN)/python -m pytest -m soak tests/service

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/codespell src tests docs benchmarks examples README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e .
	@touch $@

$(VENV)/.service: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[service]'
	@touch $@ $(VENV)/.core

$(VENV)/.dev: pyproject.toml constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) results .pytest_cache .ruff_cache .mypy_cache .hypothesis
