# Every target installs what it needs: `make run` and `make test` work in a fresh clone.
VENV := .venv
BIN := $(VENV)/bin
PYTHON ?= python3
PIP := $(BIN)/python -m pip install -qq --disable-pip-version-check
# Two lists of the same versions, installed into the same .venv: `run` is a part of `dev`.
RUN_STAMP := $(VENV)/.ready-run
STAMP := $(VENV)/.ready
# The suite starts many processes, and bytecode that is kept halves their start.
unexport PYTHONDONTWRITEBYTECODE
# macOS ends the forks of a process that has used its frameworks; the tests use none of them after a fork.
export OBJC_DISABLE_INITIALIZE_FORK_SAFETY := YES
# Four workers more than cores: while a test waits for a process or a socket, another one computes.
WORKERS = $$(( $$(nproc 2>/dev/null || getconf _NPROCESSORS_ONLN) + 4 ))
# The same order in every run: what fails once fails again. `make test-thorough` has another in each.
FORKED = $(BIN)/python -m pytest -p tests.forked_workers --forks
TESTS = $(FORKED) $(WORKERS) --randomly-seed=1

# Debian packages on first use, where that is possible; tests of what is absent are skipped.
INSTALL = { test "$$(id -u)" = 0 && { apt-get update -qq || true; } && \
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null; } || \
  echo '$(1): cannot be installed; tests that need it are skipped'
INSTALL_SERVERS = { command -v redis-server || command -v valkey-server; } >/dev/null && \
  ls /usr/lib/postgresql/*/bin/initdb >/dev/null 2>&1 || $(call INSTALL,redis-server postgresql)

.DEFAULT_GOAL := help
.PHONY: help run test test-operation test-stores test-cluster test-thorough check setup test-real test-typescript test-browser test-wheel demo build bless \
  dialects requirements requirements-break conformance node-stories soak bench bench-peers bench-docs bench-guard bench-baseline models-table lock clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "%-16s %s\n", $$1, $$2 }' $(MAKEFILE_LIST)

setup: $(STAMP) ## install toolbridge with the tools for tests and checks into .venv (hash-locked)

$(STAMP): requirements/dev.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements/dev.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $(RUN_STAMP) $@

$(RUN_STAMP): requirements/run.txt pyproject.toml
	@test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	@$(PIP) --require-hashes -r requirements/run.txt
	@$(PIP) --no-deps --no-build-isolation -e .
	@touch $@

run: $(RUN_STAMP) ## serve on http://127.0.0.1:3456; installs only what serving needs
	@$(BIN)/toolbridge serve

test: setup ## the whole suite, offline
	@$(TESTS)

test-operation: setup ## gateways as processes: reload, restart, workers, kills, broken disks, TLS, the files of deploy/
	@$(TESTS) -m operation -rs tests/operation

test-stores: setup ## engines on real Redis and PostgreSQL servers, installed on first use where that is possible
	@$(INSTALL_SERVERS)
	@$(FORKED) $(WORKERS) -m stores -rs tests/stores

test-cluster: setup ## three gateways behind nginx on Redis and PostgreSQL, one killed every 10 s; at most five minutes
	@$(INSTALL_SERVERS)
	@command -v nginx >/dev/null || $(call INSTALL,nginx)
	@$(BIN)/python -m tests.cluster

test-thorough: setup ## the suite with thirty times as many random examples, new ones in each run, in random order
	@TOOLBRIDGE_PROFILE=thorough $(FORKED) auto -o timeout=3600

test-real: setup ## real clients and model servers, installed on first use
	@$(FORKED) 3 -m real -rs tests/real

test-browser: setup ## the page in a real browser, installed on first use where that is possible
	@$(BIN)/python -c 'import playwright' 2>/dev/null || \
	  $(PIP) --no-build-isolation -e '.[browser]' || \
	  echo 'playwright cannot be installed; the tests will be skipped'
	@command -v chromium >/dev/null || { test "$$(id -u)" = 0 && { apt-get update -qq || true; } && \
	  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends chromium fonts-dejavu-core >/dev/null; } || \
	  echo 'chromium cannot be installed; the tests will be skipped unless CHROMIUM names one'
	@$(BIN)/python -m pytest -m browser -rs tests/browser

test-typescript: ## the TypeScript client: build, tests, checks
	@command -v npm >/dev/null || { echo "skipped: npm is not installed"; exit 0; } && \
	  cd clients/typescript && npm ci --no-audit --no-fund --loglevel=error && npm run build && npm test && npm run check

test-wheel: setup ## build the wheel; run every install command; query the wheel on every Python from 3.11 to 3.14
	@$(FORKED) auto -m wheel -rs tests/wheel

demo: $(RUN_STAMP) ## watch a structured stream on the embedded model
	@$(BIN)/toolbridge demo

build: $(RUN_STAMP) ## the wheel and the source archive, in dist/
	@$(BIN)/python -m hatchling build

bless: setup ## rewrite the expected parts of the transcripts; read the diff
	@$(BIN)/python -m tests.bless

dialects: setup ## every text dialect with its cases, in five ways of cutting
	@$(BIN)/python -m tests.dialects.table $(if $(wildcard ../shared/cases/dialects.json),--shared)

requirements: setup ## each requirement with the tests that prove it
	@$(BIN)/python -m tests.requirements

requirements-break: setup ## break the product once per requirement; a marked test must fail each time
	@$(BIN)/python -m tests.requirements --break

models-table: setup ## rebuild the table of known models from the newest litellm and pi-ai
	@mkdir -p build/model-sources && rm -f build/model-sources/*
	@cd build/model-sources && $(CURDIR)/$(BIN)/python -m pip download -qq --no-deps litellm && \
	  npm pack --silent @earendil-works/pi-ai
	@$(BIN)/python scripts/build_model_table.py --sources build/model-sources

check: setup ## format, lint, import contracts, types, spelling, plain words, dependencies, unused code, calls per request
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/lint-imports
	$(BIN)/mypy
	$(BIN)/python -m tests.example_types
	$(BIN)/codespell src docs bench *.md
	$(BIN)/deptry src
	$(BIN)/python -m tests.prose
	$(BIN)/python -m tests.unused
	$(BIN)/python -m bench.guard --calls

conformance: setup ## score this toolbridge with the cases of conformance/: APIs and structured streams
	@$(BIN)/toolbridge conform --self
	@$(BIN)/toolbridge conform --self --stream --save docs

node-stories: setup ## 200 random stories about the money of nodes, on a local chain and on anvil
	@NODE_STORIES=200 $(FORKED) auto -o timeout=600 -m 'real or not real' -k coin \
	  tests/node/test_random_stories.py tests/real/test_chain.py

soak: setup ## 10,000 mixed requests with random faults and departures, at most five minutes
	@$(BIN)/python -m tests.soak

bench: setup ## speed and memory, as ratios to nginx in the same run; ARGS=--quick takes minutes
	@$(BIN)/python -m bench.run gateway $(ARGS)

bench-peers: setup ## the same beside LiteLLM and claude-code-router's engine, installed on first use
	@$(BIN)/python -m bench.run peers $(ARGS)

bench-docs: setup ## both, on an idle machine; rewrites the tables and the chart of docs/explain/performance.md
	@$(BIN)/python -m bench.run gateway peers --docs $(ARGS)

bench-guard: setup ## fail if calls per request or ratios to nginx are 10 % above bench/baseline.json
	@$(BIN)/python -m bench.guard $(ARGS)

bench-baseline: setup ## rewrite bench/baseline.json, on an idle machine; read the diff
	@$(BIN)/python -m bench.guard --save $(ARGS)

LOCK := uv pip compile --universal --python-version 3.11 --generate-hashes --no-header --no-annotate --quiet

# The editable install of `make run` needs the build backend, which is not a dependency of the package.
lock: ## rewrite requirements/dev.txt, run.txt and team.txt (needs uv)
	$(LOCK) pyproject.toml --extra dev -o requirements/dev.txt
	printf 'hatchling\neditables\n' | \
	  $(LOCK) pyproject.toml - --constraints requirements/dev.txt -o requirements/run.txt
	$(LOCK) pyproject.toml --extra redis --extra postgres --constraints requirements/dev.txt -o requirements/team.txt

clean: ## remove what was built
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache .hypothesis .import_linter_cache dist build
