# Every target sets up what it needs; `make run` and `make test` work on a fresh clone.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
STAMP := $(VENV)/.ready

.PHONY: setup run test check test-real test-typescript demo build test-browser requirements conformance dialects soak bench bless lock clean help

help: ## this list
	@grep -E '^[a-z-]+:.*##' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 16

setup: $(STAMP) ## build .venv from the hash-locked requirements (quick when it stands)

$(STAMP): requirements/dev.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --require-hashes -r requirements/dev.txt
	@$(BIN)/python -m pip install -qq --disable-pip-version-check --no-deps --no-build-isolation -e .
	@touch $@

run: setup ## serve on http://127.0.0.1:3456
	@$(BIN)/toolbridge serve

test: setup ## the whole suite, offline
	@$(BIN)/python -m pytest -n auto --dist worksteal

test-real: setup ## real clients and model servers, installed on first use
	@$(BIN)/python -m pytest -m real -rs tests/real

test-browser: setup ## the timeline page in a real browser, installed on first use where that is possible
	@$(BIN)/python -c 'import playwright' 2>/dev/null || \
	  $(BIN)/python -m pip install -qq --disable-pip-version-check --no-build-isolation -e '.[browser]' || \
	  echo 'playwright cannot be installed; the tests will be skipped'
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && apt-get update -qq && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
	  echo 'chromium cannot be installed; the tests will be skipped unless CHROMIUM names one'
	@$(BIN)/python -m pytest -m browser -rs tests/browser

test-typescript: ## the TypeScript client: build, tests, checks
	@command -v npm >/dev/null || { echo "skipped: npm is not installed"; exit 0; } && \
	  cd clients/typescript && npm ci --no-audit --no-fund --loglevel=error && npm run build && npm test && npm run check

demo: setup ## watch a structured stream on the embedded model
	@$(BIN)/toolbridge demo

build: setup ## the wheel and the source archive, in dist/
	@$(BIN)/python -m hatchling build

bless: setup ## rewrite the expected parts of the transcripts; read the diff
	@$(BIN)/python -m tests.bless

dialects: setup ## every text dialect with its cases, in five ways of cutting
	@$(BIN)/python -m tests.dialects.table $(if $(wildcard ../shared/cases/dialects.json),--shared)

requirements: setup ## each requirement with the tests that prove it
	@$(BIN)/python -m tests.requirements

check: setup ## format, lint, import contracts, types, spelling, dependencies
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/codespell src docs bench README.md ARCHITECTURE.md AGENTS.md CHANGELOG.md
	$(BIN)/deptry src

conformance: setup ## score this toolbridge with the cases of conformance/: APIs and structured streams
	@$(BIN)/toolbridge conform --self
	@$(BIN)/toolbridge conform --self --stream --save docs

soak: setup ## 10,000 mixed requests with random faults and departures, at most five minutes
	@$(BIN)/python -m tests.soak

bench: setup ## speed and memory, as ratios in one run
	@$(BIN)/python bench/run.py

lock: ## rewrite requirements/dev.txt (needs uv)
	uv pip compile pyproject.toml --extra dev --universal --python-version 3.11 --generate-hashes \
	  --no-header --no-annotate --quiet -o requirements/dev.txt

clean: ## remove what was built
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
