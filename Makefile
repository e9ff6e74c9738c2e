# Needs Python 3.11 or newer with venv, and make. Everything else is installed into .venv.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
SHELL := /bin/sh

.PHONY: help demo test test-lab sanitize attack lint bench bench-check page docs notebooks release clean
.DEFAULT_GOAL := help

help:
	@echo "make demo         compare ERM and EERM on the built-in data: tables and figures in demo-output/"
	@echo "make test         lint, types, the library's tests, examples and doctests (about 12 minutes with make test-lab)"
	@echo "make test-lab     tests of the paper's experiments, the result pages and the speed suite"
	@echo "make sanitize     the kernels' tests and a fuzzer under AddressSanitizer and UndefinedBehaviorSanitizer"
	@echo "make attack       1,000 hostile inputs and 400 kills (about 20 minutes)"
	@echo "make lint         ruff and mypy alone"
	@echo "make bench        measure speed and memory, into benchmarks/ (about 20 minutes)"
	@echo "make bench-check  measure again and compare with benchmarks/"
	@echo "make page         tables and figures of the result pages in docs/, from results/; trains nothing"
	@echo "make docs         the documentation as a site in site/"
	@echo "make notebooks    execute the notebooks of the documentation and keep their output (about 5 minutes)"
	@echo "make release      sdist and wheel in dist/, tested in a clean environment with and without a compiler"
	@echo "make clean        remove .venv and everything that was made"

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

# With COVERAGE=1, as CI calls it, coverage is measured where the tests are: the library's here, the lab's in test-lab.
# Each has to reach 90 %. Measuring takes time, so it is asked for.
PYTEST := OMP_NUM_THREADS=1 $(BIN)/python -m pytest --doctest-modules -n 2 --dist worksteal
LAB := src/graphshift/lab

test: lint
	$(PYTEST) tests src --ignore=tests/lab --ignore=$(LAB) $(if $(COVERAGE),--cov=graphshift --cov-report=)
	$(if $(COVERAGE),$(BIN)/coverage report --omit='*/graphshift/lab/*' --skip-covered --fail-under=90)

test-lab: $(VENV)/.dev
	$(PYTEST) tests/lab $(LAB) $(if $(COVERAGE),--cov=graphshift.lab --cov-report=term-missing:skip-covered --cov-fail-under=90)

# The kernels with AddressSanitizer and UndefinedBehaviorSanitizer: any wrong access or undefined step ends the tests.
KERNELS := src/graphshift/graph/kernels
SANITIZE := -fsanitize=address,undefined,float-cast-overflow -fno-sanitize-recover=all

# With two nodes the gradient is 0 but for rounding, which Adam makes a step of: other flags, other steps.
EXACT := --deselect "tests/graph/kernels/test_policy_steps.py::test_a_step_of_the_kernel_is_one_of_the_plain_code[two nodes-adam-rewards of 1e+00]"

sanitize: $(VENV)/.dev
	$(CC) -shared -fPIC -g -O1 -fno-omit-frame-pointer -fopenmp-simd $(SANITIZE) -o $(VENV)/sanitized.so \
	  -I$$($(BIN)/python -c "import sysconfig; print(sysconfig.get_path('include'))") $(KERNELS)/*.c -lm
	LD_PRELOAD="$$($(CC) -print-file-name=libasan.so) $$($(CC) -print-file-name=libubsan.so)" \
	  ASAN_OPTIONS=detect_leaks=0 SANITIZED_KERNELS=$(CURDIR)/$(VENV)/sanitized.so HOSTILE_EXAMPLES=400 OMP_NUM_THREADS=1 \
	  $(BIN)/python -m pytest -p no:cacheprovider tests/graph/kernels $(EXACT)

# Hostile files and kills at every file operation: tests/attack/run.py says more. About 20 minutes on two cores.
attack: $(VENV)/.dev
	PYTHONPATH=tests OMP_NUM_THREADS=1 $(BIN)/python -m attack.run

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# The real datasets, if they are beside the repository; without them the measurements that need them are skipped.
DATA := $(wildcard ../shared/data)

bench: $(VENV)/.runtime
	$(BIN)/graphshift bench --out benchmarks --force $(if $(DATA),--data-dir $(DATA))

bench-check: $(VENV)/.runtime
	$(BIN)/graphshift bench --check benchmarks/results.json $(if $(DATA),--data-dir $(DATA))

page: $(VENV)/.runtime
	$(BIN)/graphshift reproduce all --show --out results
	$(BIN)/python docs/fill.py

docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --strict --quiet
	@echo "open site/index.html"

notebooks: $(VENV)/.dev
	OMP_NUM_THREADS=1 $(BIN)/python docs/notebooks.py

# TESTS=tests runs the whole suite against what was built; by default what the installation can break. ONLY=without runs
# the half without a compiler alone, ONLY=with the other one.
release: $(VENV)/.dev
	rm -rf dist
	$(BIN)/python -m build --outdir dist
	$(PYTHON) tests/release/check.py dist $(if $(TESTS),--tests $(TESTS)) $(if $(ONLY),--only $(ONLY))

clean:
	rm -rf $(VENV) site dist build demo-output bench-output .pytest_cache .mypy_cache .ruff_cache .coverage .coverage.*
