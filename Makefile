# `make demo` and `make test` need Python 3.11 or newer with venv, and make; they set up everything else in .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/sh

.PHONY: demo test lint types bench bench-check page docs examples lock-check clean
.DEFAULT_GOAL := help

help:
	@echo "make demo   compare ERM and EERM on the built-in data: tables and figures in demo-output/"
	@echo "make test   lint, types, tests, examples"
	@echo "make lint   ruff and mypy alone"
	@echo "make bench  speed and memory beside their bars, into benchmarks/ (about 20 minutes)"
	@echo "make bench-check  has it become slower? measure again and compare with benchmarks/"
	@echo "make page   tables and figures of docs/reproduction.md, from results/"
	@echo "make docs   the documentation as a site in site/"
	@echo "make clean  remove .venv and everything that was made"

$(VENV)/.runtime: requirements.lock pyproject.toml $(wildcard src/graphshift/graph/kernels/*.[ch])
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

# The real datasets, where they lie beside the repository; without them their bars are skipped, and said to be.
DATA := $(wildcard ../shared/data)

bench: $(VENV)/.runtime
	$(BIN)/graphshift bench --out benchmarks --force $(if $(DATA),--data-dir $(DATA))

bench-check: $(VENV)/.runtime
	$(BIN)/graphshift bench --check benchmarks/results.json $(if $(DATA),--data-dir $(DATA))

# Tables and figures of the page on the paper, from what results/ holds; nothing is trained.
page: $(VENV)/.runtime
	$(BIN)/graphshift reproduce all --show --out results
	$(BIN)/python docs/fill.py

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

clean:
	rm -rf $(VENV) site demo-output bench-output .pytest_cache .mypy_cache .ruff_cache .coverage .coverage.*
