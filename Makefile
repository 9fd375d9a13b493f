# Needs Python >= 3.11, Java >= 17, cargo and a C compiler; says so when one is missing. `make` alone lists the commands.
# PYTHON=python3.13 chooses the interpreter that .venv is made with; ARGS="..." goes to pytest, the demo or the bench.
# Tests run WORKERS files at a time, each worker with brokers and a Spark session of its own; 0: one by one.

PYTHON ?= python3
WORKERS ?= 3
ARGS ?=

py := .venv/bin/python
peer := $(CURDIR)/build/peer/bin/python
compile := $(py) -m uv pip compile --universal --python-version 3.11 --generate-hashes --no-emit-index-url \
	--no-emit-find-links --no-header --quiet $(ARGS)

# Spark's workers run the interpreter that everything is installed in, and nothing listens beyond this machine.
export PYSPARK_PYTHON := $(CURDIR)/$(py)
export PYSPARK_DRIVER_PYTHON := $(CURDIR)/$(py)
export SPARK_LOCAL_IP ?= 127.0.0.1
export UV_PYTHON_DOWNLOADS := never
# Nothing is installed into another environment that may be active.
export VIRTUAL_ENV := $(CURDIR)/.venv
unexport PYTHONPATH PYTHONHOME CONDA_PREFIX PIP_USER UV_PYTHON UV_SYSTEM_PYTHON
# Where this is set, each of the hundreds of processes that tests start compiles all that it imports once more.
unexport PYTHONDONTWRITEBYTECODE

MAKEFLAGS += --no-print-directory
.DEFAULT_GOAL := help
.DELETE_ON_ERROR:
.NOTPARALLEL:
.PHONY: help setup demo test test-fast test-slow test-matrix coverage check bench bench-driver \
	bench-migrate bench-assign bench-audit bench-crates bench-peer bench-latency bench-howfar \
	chaos-peer docs wheel release changelog lock clean

help: ## This list
	@awk -F ':.*## ' '/^[a-z-]+:.*## / { printf "  make %-13s %s\n", $$1, $$2 }' Makefile

demo: setup ## Two Kafka clusters, read evenly through Spark, counted live and checked (about a minute)
	@$(py) examples/demo.py $(ARGS)

test: setup ## Every test that is not slow, on real brokers and real Spark (about 10 minutes)
	@$(py) -m pytest -m "not slow" -n $(WORKERS) --dist loadfile --durations=15 $(ARGS)

test-fast: setup ## Unit and property tests, few examples of each law, nothing that takes long (at most a minute)
	@$(py) -m pytest tests/unit tests/property -q -m "not slow and not lengthy" --hypothesis-profile=fast \
		-n $(WORKERS) $(ARGS)

test-slow: setup ## The slow tests; some need the Spark of `make bench-peer`, which is made first
	@$(py) -m tools.peer_environment
	@$(py) -m pytest -m slow -n $(WORKERS) --dist loadfile --durations=15 $(ARGS) || { code=$$?; \
		[ $$code -eq 5 ] && echo "No test is marked slow, or none that ARGS chooses."; }

test-matrix: setup ## Core tests on every Python and Spark that is supported (ARGS="--only py3.11-spark4.2")
	@$(py) -m tools.matrix $(ARGS)

coverage: setup ## Whether the tests run every branch of the core (about 7 minutes)
	@mkdir -p build
	@rm -f build/coverage build/coverage.*
	@$(py) -m coverage run -m pytest tests/unit tests/property -q -m "not slow" --hypothesis-profile=thorough \
		-n 2 --dist loadfile $(ARGS)
	@$(py) -m coverage combine --quiet
	@$(py) -m coverage report

check: setup ## Format, lint, types, import contract, Rust lint and tests: all of them, then what failed
	@$(py) -m tools.check

bench: setup ## Rows per second, against the most that Spark can take in; a batch on the driver, alone and watched
	@$(py) -m bench.run $(ARGS)
	@$(py) -m bench.driver_bench $(filter --quick,$(ARGS))
	@$(py) -m bench.watching_bench $(filter --quick,$(ARGS))

bench-driver: setup ## What a batch of 1,000 and of 10,000 partitions costs on the driver (4 minutes; ARGS=--quick: one)
	@$(py) -m bench.driver_bench $(ARGS)

bench-migrate: setup ## How long a checkpoint of 1,000 partitions takes to be migrated (half a minute)
	@$(py) -m bench.migrate_bench $(ARGS)

bench-assign: setup ## How long an assignment takes, beside Kafka's own assignors (8 minutes; ARGS=--quick: one)
	@$(py) -m bench.assign_bench $(ARGS)

bench-audit: setup ## How long the audits of ten million records take (a few minutes; ARGS="--records 1000000": less)
	@$(py) -m bench.audit_bench $(ARGS)

bench-crates: ## What decoding alone costs, beside other crates (the first build takes minutes; ARGS=--quick)
	@cargo run --release --locked --quiet --manifest-path bench/crates/Cargo.toml --target-dir target/crates -- $(ARGS)

bench-peer: setup ## Rows per second beside Spark's own Kafka source and sink (two hours; ARGS=--quick: 15; ARGS=--list)
	@$(py) -m tools.peer_environment
	@PYSPARK_PYTHON=$(peer) PYSPARK_DRIVER_PYTHON=$(peer) $(peer) -m bench.peer $(ARGS)

bench-latency: setup ## The first row and small batches beside Spark's own, timelines (20 minutes; ARGS=--quick: five)
	@$(py) -m tools.peer_environment
	@PYSPARK_PYTHON=$(peer) PYSPARK_DRIVER_PYTHON=$(peer) $(peer) -m bench.latency $(ARGS)

bench-howfar: setup ## How far batches go (ARGS=replay, batch_bytes, load_step, skew or driver_cost; with --quick: shorter)
	@$(py) -m tools.peer_environment
	@PYSPARK_PYTHON=$(peer) PYSPARK_DRIVER_PYTHON=$(peer) $(peer) -m bench.howfar.$(or $(ARGS),replay)

chaos-peer: setup ## The same faults for Spark's own Kafka source and for evensplit (30 minutes; ARGS="--minutes 4")
	@$(py) -m tools.peer_environment
	@PYSPARK_PYTHON=$(peer) PYSPARK_DRIVER_PYTHON=$(peer) $(peer) -m bench.peer.storm $(ARGS)

docs: setup ## The documentation as web pages, in docs/_build/html; every warning is an error
	@$(py) -m tools.reference
	@$(py) -m tools.documentation

wheel: setup ## A wheel for other machines like this one, in dist, checked
	@$(py) -m tools.release --native

release: setup ## The sdist and wheels for Linux on x86-64 and aarch64, in dist, checked (docs/releasing.md; 5 minutes)
	@$(py) -m tools.release $(ARGS)

changelog: setup ## What the next release changes, from changelog.d (ARGS="--version X.Y.Z --yes" writes CHANGELOG.md)
	@$(py) -m towncrier build $(if $(ARGS),$(ARGS),--draft --version Unreleased)

ready := 'Ready. Next: `. .venv/bin/activate` and `evensplit init try --local`; or `make demo`.'

setup: .venv/jars ## All that the other commands need: .venv, the compiled kernel, Kafka's jars
	@$(if $(filter setup,$(MAKECMDGOALS)),echo $(ready),:)

# Each step of the set-up ends with the file that it is named after, so an interrupted one is done again, and a change of
# its inputs repeats it and the steps after it. Where nothing changed, only the tools of the machine are looked for.
kernel := src/evensplit/_kernel.abi3.so
identity := import os, sys, uv; print(os.getcwd(), sys.version)
offline := || { echo "If something could not be fetched: is there a network? Behind a proxy set HTTPS_PROXY; with a mirror" \
	"of your own set PIP_INDEX_URL and UV_DEFAULT_INDEX, for crates cargo's config; with a certificate authority of your" \
	"own set SSL_CERT_FILE. The next \`make\` goes on from here." >&2; exit 1; }

# An environment holds absolute paths and belongs to one Python: it is made anew where either has changed.
ifneq ($(shell { .venv/bin/python -c '$(identity)'; } 2>/dev/null),$(shell cat .venv/identity 2>/dev/null))
.PHONY: .venv/identity
endif
# The cache of the user may have been emptied.
ifeq ($(wildcard $(shell cat .venv/jars 2>/dev/null)/kafka_*.jar),)
.PHONY: .venv/jars
endif

.PHONY: tools-are-there
tools-are-there:
	@command -v $(PYTHON) >/dev/null || { \
		echo "There is no '$(PYTHON)' on PATH, and Python 3.11 or later is needed. Debian, Ubuntu: apt-get install" \
		"python3 python3-venv; Fedora: dnf install python3; macOS: brew install python@3.13" >&2; exit 2; }
	@$(or $(wildcard $(py)),$(PYTHON)) -m tools.needs >/dev/null

.venv/identity: requirements/uv.txt | tools-are-there
	@echo "[1/4] Making .venv"
	@rm -rf .venv
	@"$$($(PYTHON) -m tools.needs)" -m venv .venv
	@$(py) -m pip install --quiet --disable-pip-version-check --require-hashes --no-deps --only-binary :all: \
		-r requirements/uv.txt $(offline)
	@$(py) -c '$(identity)' >$@

.venv/packages: .venv/identity requirements/dev.txt requirements/sdist.txt
	@echo "[2/4] Installing the locked packages"
	@rm -f $@
	@$(py) -m uv pip sync --python $(py) --require-hashes requirements/dev.txt \
		--build-constraints requirements/sdist.txt $(offline)
	@touch $@

$(kernel): .venv/packages $(shell find native) Cargo.toml Cargo.lock pyproject.toml
	@echo "[3/4] Compiling the Rust kernel"
	@rm -f $@
	@$(py) -m maturin develop --uv --release --locked $(offline)
	@touch $@

.venv/jars: $(kernel) src/evensplit/testing/process/jars.py
	@echo "[4/4] Fetching Kafka's jars, unless they are in the user's cache"
	@rm -f $@
	@$(py) -m tools.kafka_jars >$@

lock: setup ## Compile the locks in requirements anew (ARGS=--upgrade takes newer versions)
	@$(compile) --extra spark --extra cli --extra dashboard --extra keystores --extra observe --extra plots \
		--extra examples --extra typed --group test --group check --group build --group docs \
		--output-file requirements/dev.txt pyproject.toml requirements/dev.in
	@$(compile) --extra spark --extra cli --extra typed --group test --output-file requirements/spark-4.2.txt pyproject.toml \
		requirements/spark-4.2.in
	@$(compile) --extra spark --extra cli --extra testing --extra dashboard --extra observe --extra typed \
		--output-file requirements/peer.txt pyproject.toml requirements/peer.in
	@$(compile) --output-file requirements/sdist.txt requirements/sdist.in
	@$(compile) --output-file requirements/release.txt requirements/release.in
	@$(compile) --output-file requirements/uv.txt requirements/uv.in
	@$(compile) --output-file requirements/kerberos.txt requirements/kerberos.in

clean: ## Remove all that was made here (Kafka's jars stay in the user's cache)
	rm -rf .venv target build dist docs/_build src/evensplit/_kernel*.so
	rm -rf .hypothesis .mypy_cache .import_linter_cache .pytest_cache .ruff_cache spark-warehouse metastore_db derby.log
	find src tests tools bench examples -name __pycache__ -type d -prune -exec rm -rf {} +
