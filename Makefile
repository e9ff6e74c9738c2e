# `make demo` and `make test` need Python 3.11 or newer with venv, and make; they set up everything else in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/sh

.PHONY: demo test lint types bench docs examples lock-check clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   compare ERM and EERM on the built-in data: tables and figures in demo-output/"
	@echo "make test   lint, types, tests, examples"
	@echo "make lint   ruff and mypy alone"
	@echo "make bench  speed and memory, as ratios measured in one run"
	@echo "make docs   the documentation as a site in site/"
	@echo "make clean  remove .venv and everything that was made"

$(VENV)/.runtime: requirements.lock pyproject.toml
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements.lock
	$(BIN)/python -m pip install --quiet --disable-pip-version-check --no-deps --no-build-isolation -e .
	touch $@

$(VENV)/.dev: requirements-dev.lock $(VENV)/.runtime
	$(BIN)/python -m pip install --quiet --disable-pip-version-check -r requirements-dev.lock
	touch $@

demo: $(VENV)/.runtime
	$(BIN)/graphshift demo --out demo-output --force
	$(BIN)/graphshift toy --out demo-output/toy.png --force

test: lint
	OMP_NUM_THREADS=1 $(BIN)/python -m pytest --cov=graphshift --cov-report=term-missing:skip-covered --cov-fail-under=90 -n 2

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

bench: $(VENV)/.dev
	$(BIN)/python benchmarks/run.py

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf $(VENV) site demo-output .pytest_cache .mypy_cache .ruff_cache .coverage .coverage.*
