# onthedot. `make` lists what can be asked for.
#
# Set-up needs Python 3.11 or later and nothing else; what it installs is pinned by hash. It is done again
# only when a pyproject.toml or a requirements file has changed. Tests start PostgreSQL themselves, from a wheel;
# `make test` also installs PgBouncer, from Debian, if it may. tests/lanes.py says which tests run where.

PYTHON ?= python3
VENV   ?= .venv
BIN    := $(VENV)/bin
PIP    := $(BIN)/python -m pip --disable-pip-version-check --quiet
ARGS   ?=
PYTEST := $(BIN)/python -m pytest --dist worksteal
# Two workers for each core: half of the time a slow test waits for a lease to end, or for a server to start.
SLOW_WORKERS ?= $(shell echo $$((2 * $$(nproc 2>/dev/null || echo 2))))
SEED   := $(or $(SEED),$(shell date +%s))

PEERS_VENV   := .venv-peers
CLIENTS_VENV := .venv-clients
UV_VERSION   := 0.13.7
LOCK_VENV    := .venv-lock
# Packages younger than this are not locked: most poisoned releases are found within days.
LOCK_MIN_AGE ?= 7 days
LOCK = $(LOCK_VENV)/bin/uv pip compile --quiet --no-header --universal --python-version 3.11 \
       --generate-hashes --exclude-newer "$(LOCK_MIN_AGE)" $(ARGS)

.DEFAULT_GOAL := help
.PHONY: help up test unit slow unit-then-slow soak bench bench-floors bench-large bench-peers bench-compare docs image servers lint format lock clean

help: ## list these targets
	@echo 'make <target> [ARGS="..."] [PYTHON=python3.12]'
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  %-14s %s\n", $$1, $$2 }' $(firstword $(MAKEFILE_LIST))

up: $(VENV)/.runtime ## set up what running needs, and run `onthedot up`
	$(BIN)/onthedot up $(ARGS)

test: servers ## before each commit: set up, lint, and all that a release needs (under 12 minutes on two cores)
	@$(MAKE) --no-print-directory --keep-going -j 2 lint unit-then-slow

unit: $(VENV)/.dev ## at each save: tests without servers and child processes (under 90 s on two cores)
	$(PYTEST) -m "not slow and not soak" -n auto $(ARGS)

slow: $(VENV)/.dev ## the tests that `make test` runs and `make unit` does not
	$(PYTEST) -m "slow and not soak" -n $(SLOW_WORKERS) $(ARGS)

unit-then-slow: unit
	@$(MAKE) --no-print-directory slow

soak: $(VENV)/.dev $(VENV)/.image $(CLIENTS_VENV)/.clients ## before a release: everything, for hours; SEED=<number> repeats a run
	@$(BIN)/python -m tests.servers.setup --soak
	@echo 'make soak SEED=$(SEED)'
	ONTHEDOT_SOAK=$(SEED) ONTHEDOT_SEED=$(SEED) $(PYTEST) --hypothesis-seed=$(SEED) -n auto $(ARGS)

bench: $(VENV)/.dev ## measure against the budgets
	$(BIN)/python -m bench $(ARGS)

bench-floors: $(VENV)/.dev ## measure the ratios to bare limits, and write bench/floors.json
	$(BIN)/python -m bench --write-floors $(ARGS)

bench-large: $(VENV)/.dev ## the same over ten million finished runs, on PostgreSQL: takes a while, and 7 GB
	$(BIN)/python -m bench --only history --large $(ARGS)

bench-peers: $(VENV)/.dev $(PEERS_VENV)/.peers $(PEERS_VENV)-2/.peers ## compare with ten other systems in one run (ARGS="--help" has examples)
	$(BIN)/python -m bench.peers --environments $(PEERS_VENV) $(ARGS)

bench-compare: $(VENV)/.dev ## measure this tree beside BASE=<revision>, interleaved: is it slower? (under ten minutes)
	$(BIN)/python -m bench.compare $(or $(BASE),$(error name the old revision: make bench-compare BASE=HEAD~1)) $(ARGS)

docs: $(VENV)/.dev ## build the documentation as a site, in build/docs; it needs no network
	$(BIN)/sphinx-build --quiet --fail-on-warning --keep-going --jobs 2 --doctree-dir build/doctrees docs build/docs
	@echo "open build/docs/index.html"

image: ## build the container image onthedot:latest, with podman or docker
	$$(command -v podman || command -v docker || echo podman) build -t onthedot -f Containerfile $(ARGS) .

servers: $(VENV)/.dev ## install the servers for tests that come from Debian, if root allows it
	@$(BIN)/python -m tests.servers.setup

lint: $(VENV)/.dev ## ruff, mypy and the import layers
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports --no-logo

format: $(VENV)/.dev ## let ruff rewrite what it can
	$(BIN)/ruff check --fix-only .
	$(BIN)/ruff format .

lock: $(LOCK_VENV)/.uv-$(UV_VERSION) ## regenerate requirements*.txt (ARGS="--upgrade" for newer versions)
	$(LOCK) --group dev --all-extras pyproject.toml --output-file requirements-dev.txt
	$(LOCK) --group build --extra server --constraints requirements-dev.txt pyproject.toml --output-file requirements.txt
	$(LOCK) --group build --all-extras --constraints requirements-dev.txt pyproject.toml --output-file requirements-image.txt
	$(LOCK) --group pyproject.toml:peers --constraints requirements-dev.txt --output-file requirements-peers.txt
	$(LOCK) --group pyproject.toml:peers-2 --output-file requirements-peers-2.txt
	$(LOCK) --group pyproject.toml:clients --constraints requirements-dev.txt --output-file requirements-clients.txt
	@! grep -nE '://|(^|[[:space:]])/|file:' requirements*.txt \
		|| { echo "make lock: these lines name a host or a path; do not commit them" >&2; exit 1; }

clean: ## remove environments, caches and builds
	rm -rf $(VENV) $(LOCK_VENV) $(PEERS_VENV) $(PEERS_VENV)-2 $(CLIENTS_VENV) build dist .hypothesis .import_linter_cache .mypy_cache .pytest_cache .ruff_cache
	find src verify tests bench -name __pycache__ -type d -prune -exec rm -rf {} + 2>/dev/null || true

# --- set-up ---------------------------------------------------------------------------------------------

$(BIN)/python:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || { \
		echo "onthedot needs Python 3.11 or later, but '$(PYTHON)' is: $$($(PYTHON) --version 2>&1)." >&2; \
		echo "Name another one, for example: make PYTHON=python3.12 $(MAKECMDGOALS)" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)

# The runtime's pins are a subset of the development ones, so both can share one environment.
$(VENV)/.runtime: requirements.txt pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes --no-deps -r requirements.txt
	$(PIP) install --no-deps --no-build-isolation -e .
	@touch $@

$(VENV)/.dev: requirements-dev.txt pyproject.toml verify/pyproject.toml | $(BIN)/python
	$(PIP) install --require-hashes --no-deps -r requirements-dev.txt
	$(PIP) install --no-deps --no-build-isolation -e . -e verify
	@touch $@

# What the image is made of, for its test: that asks nobody on the network.
$(VENV)/.image: requirements-image.txt | $(VENV)/.dev
	$(PIP) download --require-hashes --no-deps --only-binary :all: -r requirements-image.txt -d $(VENV)/image-wheels
	@touch $@

# The systems that we compare with: never in our own environment, and never where CI runs. The second environment has
# those that conflict with the first. What cannot be installed for this Python is reported, and the bench skips it.
$(PEERS_VENV)/.peers: requirements-peers.txt | $(BIN)/python
	$(BIN)/python -m bench.peers.environments $(PEERS_VENV) requirements-peers.txt
	@touch $@

$(PEERS_VENV)-2/.peers: requirements-peers-2.txt | $(BIN)/python
	$(BIN)/python -m bench.peers.environments $(PEERS_VENV)-2 requirements-peers-2.txt
	@touch $@

# A generator of clients, which reads the API's document in `make soak`: it needs other versions than we do.
$(CLIENTS_VENV)/.clients: requirements-clients.txt
	$(PYTHON) -m venv --clear $(CLIENTS_VENV)
	$(CLIENTS_VENV)/bin/python -m pip --disable-pip-version-check --quiet install --require-hashes --no-deps \
		-r requirements-clients.txt
	@touch $@

$(LOCK_VENV)/.uv-$(UV_VERSION):
	$(PYTHON) -m venv --clear $(LOCK_VENV)
	$(LOCK_VENV)/bin/python -m pip --disable-pip-version-check --quiet install uv==$(UV_VERSION)
	@touch $@
