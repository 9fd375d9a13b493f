# Needs Python >= 3.11, Java >= 17, cargo and a C compiler; says so when one is missing. `make` alone lists the commands.
# PYTHON=python3.13 chooses the interpreter that .venv is made with; ARGS="..." goes to pytest, the demo or the bench.

PYTHON ?= python3
ARGS ?=

py := .venv/bin/python
compile := $(py) -m uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --quiet $(ARGS)

# Spark's workers run the interpreter that everything is installed in, and nothing listens beyond this machine.
export PYSPARK_PYTHON := $(CURDIR)/$(py)
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(py)
export SPARK_LOCAL_IP ?= 127.0.0.1
export UV_PYTHON_DOWNLOADS := never
unexport PYTHONPATH PYTHONHOME

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.NOTPARALLEL:
.PHONY: help setup demo test test-slow coverage check bench bench-assign docs wheel lock clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-12s %s\n", $$1, $$2 }' Makefile

demo: setup ## Two Kafka clusters, read evenly through Spark, counted live and checked (about a minute)
	@$(py) examples/demo.py $(ARGS)

test: setup ## Every test that is not slow, on real brokers and real Spark (at most 10 minutes)
	@$(py) -m pytest -m "not slow" --durations=15 $(ARGS)

test-slow: setup ## The slow tests
	@$(py) -m pytest -m slow --durations=15 $(ARGS) || { code=$$?; \
		[ $$code -eq 5 ] && echo "No test is marked slow, or none that ARGS chooses."; }

coverage: setup ## Whether the tests run every branch of the core (about 3 minutes)
	@mkdir -p build
	@$(py) -m coverage run -m pytest tests/unit tests/property -q -m "not slow" $(ARGS)
	@$(py) -m coverage report

check: setup ## Format, lint, types, import contract, Rust lint and tests: all of them, then what failed
	@$(py) -m tools.check

bench: setup ## Rows per second, against the most that Spark can take in
	@$(py) bench/run.py $(ARGS)

bench-assign: setup ## How long an assignment takes, beside Kafka's own assignors (8 minutes; ARGS=--quick: one)
	@$(py) -m bench.assign_bench $(ARGS)

docs: setup ## The reference of the Python API as web pages, in docs/_build
	@$(py) -m tools.reference docs/_build

wheel: setup ## A wheel for other machines like this one, in dist
	@$(py) -m maturin build --release --locked --out dist

setup: ## All that the other commands need: .venv, the compiled kernel, Kafka's jars
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no '$(PYTHON)' on PATH, and Python 3.11 or later is needed. Debian, Ubuntu: apt-get install" \
		"python3 python3-venv; Fedora: dnf install python3; macOS: brew install python@3.13" >&2; exit 2; }
	@$(PYTHON) -m tools.setup

lock: setup ## Compile the locks in requirements anew (ARGS=--upgrade takes newer versions)
	@$(compile) --extra spark --extra cli --group test --group check --group build --group docs \
		--output-file requirements/dev.txt pyproject.toml requirements/dev.in
	@$(compile) --output-file requirements/sdist.txt requirements/sdist.in
	@$(compile) --output-file requirements/uv.txt requirements/uv.in

clean: ## Remove all that was made here (Kafka's jars stay in the user's cache)
	rm -rf .venv target build dist docs/_build src/evensplit/_kernel*.so
	rm -rf .hypothesis .mypy_cache .import_linter_cache .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log
	find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
