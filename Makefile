# Two commands set up everything on a machine that has Python 3.11 or newer and nothing else:
#   make demo   install, run the main job on the demo world, say where picture and report are
#   make test   install with the test tools, run the whole test suite
PYTHON ?= python3
VENV   := .venv
BIN    := $(VENV)/bin
CLIENT_VENV := .venv-client
PIP    := $(BIN)/python -m pip install --quiet --disable-pip-version-check -c constraints.txt
DEMO   ?= results/demo
PACKAGES := pyproject.toml clients/python/pyproject.toml

.PHONY: demo serve-demo test readme client-test typescript-test guards verify soak mutants dependencies docs lint format clean

demo: $(VENV)/.core
	$(BIN)/reticent run --world mobile-health --agent private-score-vi --agent private-linopt-vi:calibration=paper --episodes 20000 --seeds 8 --out $(DEMO)

# The service on this machine with simulated users and the dashboard; Ctrl-C stops it and leaves nothing behind.
serve-demo: $(VENV)/.service
	$(BIN)/python examples/serve_demo.py

test: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal

# Every command of README.md as it is written there, in a fresh copy with an environment of its own; at most ten minutes.
readme:
	$(PYTHON) tests/readme/run_readme.py

# The device's client by itself, in an environment that has NumPy and the test tools only.
client-test:
	rm -rf $(CLIENT_VENV)
	$(PYTHON) -m venv $(CLIENT_VENV)
	$(CLIENT_VENV)/bin/python -m pip install --quiet --disable-pip-version-check -c constraints.txt './clients/python[test]'
	cd clients/python && ../../$(CLIENT_VENV)/bin/python -m pytest

# The client for browsers and Node, by itself: needs Node 20 and installs the compiler beside it.
typescript-test:
	cd clients/typescript && npm install --no-audit --no-fund && npm test

# The long tests that guard a promise: replays, attacks, neighbouring data sets, contracts of private agents, one planted bug
# of each class, regrets of what can be deployed. Regrets are compared bit by bit, with every pass of XLA.
guards: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m "verify and guard" --ignore tests/golden
	$(BIN)/python -m pytest -n 2 --dist worksteal --optimized -m "verify and guard" tests/golden

# Every long test: the guards, all planted bugs, coverage and transcription statistics, worlds, experiments. An hour; run every
# night, and before a change of privacy/, audit/, service/ or an audit hook is merged.
verify: $(VENV)/.dev
	$(BIN)/python -m pytest -n 2 --dist worksteal -m verify --ignore tests/golden
	$(BIN)/python -m pytest -n 2 --dist worksteal --optimized -m verify tests/golden

# What is known against the pinned versions; a package that cannot be looked up is listed as such.
dependencies: $(VENV)/.dev
	$(BIN)/python -m pip check
	$(BIN)/pip-audit --requirement constraints.txt --no-deps --disable-pip --progress-spinner off

# The service under load, killed a hundred times on either database; then its load figure, beside that of another
# checkout if there is one: make soak BEFORE=../before
soak: $(VENV)/.dev
	$(BIN)/python -m pytest -m soak tests/service
	$(BIN)/python benchmarks/service_load.py --clients 256 --acts device --seconds 30 $(if $(BEFORE),--against $(BEFORE))
	$(BIN)/python benchmarks/service_load.py --clients 256 --acts device --seconds 30 --group 64

# Every small change of the modules that privacy rests on, put to their tests; fails if fewer than 95 % are noticed. An hour or
# two on one core; what it is doing is said as it goes: docs/measurements/mutation.md has the last report.
mutants: $(VENV)/.dev
	$(BIN)/python benchmarks/mutation.py $(TARGETS)

# The documentation site, in docs/_build/html; a warning or a link within it that leads nowhere is an error.
docs: $(VENV)/.docs
	$(BIN)/sphinx-build -W --keep-going -q -b html docs docs/_build/html
	@echo "site     docs/_build/html/index.html"

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(BIN)/codespell src clients tests docs benchmarks examples README.md CHANGELOG.md CONTRIBUTING.md SECURITY.md

format: $(VENV)/.dev
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .

$(BIN)/python:
	$(PYTHON) -m venv $(VENV)

$(VENV)/.core: $(PACKAGES) constraints.txt | $(BIN)/python
	$(PIP) -e '.[plots,people]'
	@touch $@

$(VENV)/.service: $(PACKAGES) constraints.txt | $(BIN)/python
	$(PIP) -e '.[plots,people,service]'
	@touch $@ $(VENV)/.core

$(VENV)/.dev: $(PACKAGES) constraints.txt | $(BIN)/python
	$(PIP) -e '.[dev]'
	@touch $@ $(VENV)/.core

$(VENV)/.docs: $(PACKAGES) constraints.txt | $(BIN)/python
	$(PIP) -e '.[docs]'
	@touch $@ $(VENV)/.core

clean:
	rm -rf $(VENV) $(CLIENT_VENV) clients/typescript/node_modules clients/typescript/dist clients/typescript/build results .pytest_cache .ruff_cache .mypy_cache .hypothesis
