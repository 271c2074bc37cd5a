# `make demo` and `make test` are all that a fresh machine needs: make, any python3 >= 3.9 with venv, and a package index.
SHELL := /bin/sh
.DEFAULT_GOAL := help
MAKEFLAGS += --no-print-directory

# uv finds or downloads an interpreter >= 3.12; one that pyenv already keeps is taken first, since its shims hide it from uv.
PYENV_PYTHON := $(shell ls -d $(HOME)/.pyenv/versions/3.1[2-9]*/bin/python3 $(HOME)/.pyenv/versions/3.[2-9][0-9]*/bin/python3 2>/dev/null | sort -V | tail -n 1)
PYTHON ?= $(or $(PYENV_PYTHON),>=3.12)
PATH_UV := $(shell command -v uv 2>/dev/null)
UV := $(or $(PATH_UV),.tools/bin/uv)
BIN := .venv/bin
unexport VIRTUAL_ENV
export UV_PROJECT_ENVIRONMENT := $(CURDIR)/.venv

.PHONY: help demo test slow check bench clean

help:  ## list the targets
	@sed -n 's/^\([a-z]*\):.*## \(.*\)/make \1  \2/p' Makefile

demo: .venv/core  ## set up, fit a shipped pilot, print the verdict
	@$(BIN)/drsim fit example:alfworld

test: .venv/dev  ## the whole check: format, lint, types, import floors, tests
	@$(BIN)/ruff format --quiet --check . || { echo "ruff format --check failed: run $(BIN)/ruff format ." >&2; exit 1; }
	@$(BIN)/ruff check --quiet .
	@$(BIN)/mypy --no-error-summary
	@$(BIN)/lint-imports --no-logo --no-cache > .venv/lint-imports.log 2>&1 || { cat .venv/lint-imports.log >&2; exit 1; }
	@$(BIN)/pytest -q -n auto -m "not slow"

slow: .venv/dev  ## the slow tier: calibration, coverage on large grids
	@$(BIN)/pytest -q -n auto -m slow

bench: .venv/dev  ## every benchmark, with its ratios
	@for b in benchmarks/bench_*.py; do echo "== $$b"; $(BIN)/python $$b || exit 1; done

clean:  ## remove what the targets made
	@rm -rf .venv .tools .pytest_cache .mypy_cache .ruff_cache .hypothesis dist

.tools/bin/uv:
	@python3 -m venv .tools && .tools/bin/python -m pip install -qq --disable-pip-version-check uv

.venv/core: pyproject.toml uv.lock | $(if $(PATH_UV),,.tools/bin/uv)
	@$(UV) sync --quiet --locked --inexact --no-default-groups --python "$(PYTHON)"
	@touch $@

.venv/dev: pyproject.toml uv.lock | $(if $(PATH_UV),,.tools/bin/uv)
	@$(UV) sync --quiet --locked --python "$(PYTHON)"
	@touch $@ .venv/core
