# `make` lists what there is to make.
PYTHON ?= python3
BIN := .venv/bin
ARGS ?=

.DEFAULT_GOAL := help
.PHONY: help setup up down test browser check format bench clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.ready ## make the environment (.venv) that everything else uses

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

up: setup ## serve the offline demo and its dashboard (ARGS="package.module:system --port 9000" for your own)
	$(BIN)/agency serve $(ARGS)

down: setup ## stop everything that `make up` has started
	$(BIN)/agency down

test: check browser ## everything that must hold
	$(BIN)/python -m pytest

browser:
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null \
	  || { echo "the browser tests need chromium, as from 'apt-get install chromium'"; exit 1; }

check: setup ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

format: setup ## mend what can be mended automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

bench: setup ## the figures of the README, measured here
	$(BIN)/python -m benchmarks.turn
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.actors
	$(BIN)/python -m benchmarks.gateway

clean: ## remove what was made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache
