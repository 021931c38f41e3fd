# Each target sets up what it needs: a virtual environment in .venv, the dependencies, the package itself.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed
BENCH_STAMP := $(VENV)/.installed-bench
MIN_VENV := .venv-min
MIN_STAMP := $(MIN_VENV)/.installed

.PHONY: demo test test-min lint docs reproduce bench release clean

$(STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[test,lint,docs]"
	touch $(STAMP)

$(BENCH_STAMP): pyproject.toml
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade pip
	$(BIN)/python -m pip install --quiet --editable ".[bench]"
	touch $(BENCH_STAMP)

$(MIN_STAMP): pyproject.toml requirements-min.txt
	test -x $(MIN_VENV)/bin/python || $(PYTHON) -m venv $(MIN_VENV)
	$(MIN_VENV)/bin/python -m pip install --quiet --upgrade pip
	$(MIN_VENV)/bin/python -m pip install --quiet --requirement requirements-min.txt
	$(MIN_VENV)/bin/python -m pip install --quiet --no-deps --editable .
	touch $(MIN_STAMP)

demo: $(STAMP)
	$(BIN)/python -m examples.demo

# There is a worker for each core: threads of BLAS and OpenMP would compete with the other workers.
test test-min docs: export OMP_NUM_THREADS = 1

test: $(STAMP)
	$(BIN)/python -m pytest -n auto --dist worksteal

test-min: $(MIN_STAMP)
	$(MIN_VENV)/bin/python -m pytest -n auto --dist worksteal

lint: $(STAMP)
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy

# Pages of the reference are made anew, since sphinx complains of those of objects that are gone.
docs: $(STAMP)
	rm -rf docs/generated
	$(BIN)/python -m sphinx -W --keep-going -b html docs docs/_build/html

# All experiments, about eight hours of processor time; `make reproduce EXPERIMENT=stock` runs one.
reproduce: $(STAMP)
	$(BIN)/python -m experiments $(EXPERIMENT)

bench: $(BENCH_STAMP)
	$(BIN)/python -m benchmarks

# Build sdist and wheel, and use each from an environment and a folder that have nothing else of this repository.
release: $(STAMP)
	$(BIN)/python -m pip install --quiet build
	rm -rf dist && $(BIN)/python -m build --outdir dist .
	for file in dist/kernelkin-*; do .ci/smoke $$file || exit 1; done

clean:
	rm -rf $(VENV) $(MIN_VENV) docs/_build docs/gallery docs/generated build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache
