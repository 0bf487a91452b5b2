# Every target sets up what it needs in .venv, from nothing but Python, a C compiler and make.
# `make` alone lists them. Extra arguments go in ARGS: make test ARGS="-k session", make serve ARGS="--port 1884".

PYTHON ?= $(firstword $(foreach name,python3 python3.14 python3.13 python3.12 python3.11,$(if \
  $(shell $(name) -c 'import sys; print(sys.version_info >= (3, 11) or "")' 2>/dev/null),$(name))))
VENV := .venv
BIN := $(VENV)/bin
CC ?= cc
ARGS ?=
EXTENSION_SOURCES := $(shell find src -name '*.pyx' -o -name '*.pxd')
DEMO_SECONDS ?= 60
MINUTES ?= 10
SEEDS ?= 10000
FIRST ?= 0

# The pins hold in build isolation too; which of the two variables pip reads there depends on its version.
export PIP_CONSTRAINT := constraints.txt
export PIP_BUILD_CONSTRAINT := constraints.txt
export PIP_DISABLE_PIP_VERSION_CHECK := 1

.DEFAULT_GOAL := help
.DELETE_ON_ERROR:

.PHONY: help
help: ## list the targets
	@sed -n 's/^\([a-z-]*\):.*## \(.*\)/  make \1	\2/p' $(MAKEFILE_LIST) | expand -t 20

.PHONY: setup
setup: $(VENV)/.built ## install everything into .venv; .venv/bin/braidmq works after it

.PHONY: test
test: setup $(VENV)/.tools ## run the whole test suite
	@sh tools/install_judges.sh
	PYTHONHASHSEED=0 $(BIN)/pytest -n auto --dist loadgroup $(ARGS)

.PHONY: hunt
hunt: setup $(VENV)/.tools ## look for failures with new random examples, for MINUTES=10
	$(BIN)/python -m tests.hunt --minutes $(MINUTES) $(ARGS)

.PHONY: sim-cluster
sim-cluster: setup ## break simulated clusters, SEEDS=10000 of them on all cores; FIRST=0
	$(BIN)/braidmq sim cluster --seeds $(SEEDS) --first $(FIRST) $(ARGS)

.PHONY: check
check: setup $(VENV)/.tools ## style, types and import rules
	$(BIN)/ruff check .
	PATH="$(CURDIR)/$(BIN):$$PATH" cython-lint src
	$(BIN)/mypy
	$(BIN)/python -m tools.check_stubs
	$(BIN)/lint-imports --no-logo

.PHONY: serve
serve: setup ## start a broker on 127.0.0.1:1883
	$(BIN)/braidmq serve $(ARGS)

.PHONY: demo
demo: java setup $(VENV)/.spark ## two brokers, devices, the pipeline on Spark, and a check of every message
	$(BIN)/braidmq demo --seconds $(DEMO_SECONDS) $(ARGS)

.PHONY: java
java:
	@test -x "$$JAVA_HOME/bin/java" || command -v java >/dev/null || { \
	  echo "Spark needs a Java runtime, 17 or newer. On Debian: apt-get install openjdk-17-jre-headless" >&2; \
	  echo "Without it: make demo-small" >&2; exit 1; }

.PHONY: demo-small
demo-small: setup ## one broker, publishers and subscribers with a live table; needs no Java
	$(BIN)/braidmq demo --broker-only $(ARGS)

.PHONY: soak
soak: java setup $(VENV)/.tools ## kill and cut brokers, receivers, workers and Spark for minutes, then count every message
	$(BIN)/pytest -m soak tests/spark
	$(BIN)/python -m tests.spark.soak $(ARGS)

.PHONY: bench
bench: setup $(VENV)/.tools ## measure against Mosquitto; results go to bench/results
	@PATH="$$PATH:/usr/sbin:/usr/local/sbin"; command -v mosquitto >/dev/null || { \
	  echo "make bench compares with Mosquitto, which isn't installed. On Debian: apt-get install mosquitto" >&2; \
	  exit 1; }
	$(BIN)/python -m bench.run $(ARGS)
	$(if $(ARGS),,$(BIN)/python -m bench.durability all)

.PHONY: bench-balance
bench-balance: setup $(VENV)/.tools ## measure shared subscriptions live, ten minutes; results go to bench/results
	$(BIN)/braidmq load balance --json bench/results/balance.json --figure docs/experiments/balance-live.png $(ARGS)

.PHONY: docs
docs: setup $(VENV)/.tools ## write the generated pages, docs/configuration.md and docs/conformance.md
	$(BIN)/python -m tools.configuration_doc
	$(BIN)/python -m tools.conformance_doc

# The wheel is tried where no compiler can run, since that is what it is for.
.PHONY: wheel
wheel: setup ## build a wheel into dist/ that installs without a compiler
	rm -rf build/lib* build/bdist* build/wheel-trial dist/*.whl
	$(BIN)/pip wheel -q --no-deps --wheel-dir dist .
	$(PYTHON) -m venv build/wheel-trial
	CC=/bin/false build/wheel-trial/bin/pip install -q --only-binary :all: dist/*.whl
	cd build/wheel-trial && bin/braidmq info && bin/braidmq demo --broker-only --seconds 2
	rm -rf build/wheel-trial
	@ls dist/*.whl

.PHONY: clean
clean: ## remove what was built, except .venv
	rm -rf build dist src/*.egg-info .pytest_cache .mypy_cache .ruff_cache .import_linter_cache .hypothesis
	find src tests bench -name '__pycache__' -prune -exec rm -rf {} + 2>/dev/null || true
	find src -name '*.so' -delete
	rm -f $(VENV)/.built

.PHONY: distclean
distclean: clean ## remove .venv too
	rm -rf $(VENV)

# Plain files as stamps: the environment follows the pins, the extensions follow their sources. Installing leaves
# the extensions out, since the build can't take over what it would compile. Who only wants to run a broker
# doesn't wait for the tools of the developers.
$(VENV)/.tools: $(VENV)/.installed
	BRAIDMQ_ONLY=none $(BIN)/pip install -q --no-build-isolation -e '.[dev]'
	@touch $@

$(VENV)/.spark: $(VENV)/.installed
	BRAIDMQ_ONLY=none $(BIN)/pip install -q --no-build-isolation -e '.[spark]'
	@touch $@

$(VENV)/.built: $(VENV)/.installed $(EXTENSION_SOURCES)
	$(BIN)/python setup.py -q build_ext --inplace
	@touch $@

$(VENV)/.installed: pyproject.toml setup.py constraints.txt $(VENV)/bin/python
	$(BIN)/pip install -q setuptools Cython
	BRAIDMQ_ONLY=none $(BIN)/pip install -q --no-build-isolation -e .
	@touch $@

$(VENV)/bin/python:
	@test -n "$(PYTHON)" || { \
	  echo "BraidMQ needs Python 3.11 or newer. On Debian: apt-get install python3 python3-venv python3-dev" >&2; exit 1; }
	@command -v $(firstword $(CC)) >/dev/null || { \
	  echo "BraidMQ needs a C compiler to build. On Debian: apt-get install gcc" >&2; exit 1; }
	@$(PYTHON) -c 'import ensurepip, venv' 2>/dev/null || { \
	  echo "$(PYTHON) has no venv module. On Debian: apt-get install python3-venv" >&2; exit 1; }
	@$(PYTHON) -c 'import pathlib, sys, sysconfig; \
	  sys.exit(not pathlib.Path(sysconfig.get_path("include"), "Python.h").exists())' || { \
	  echo "$(PYTHON) has no C headers. On Debian: apt-get install python3-dev" >&2; exit 1; }
	$(PYTHON) -m venv $(VENV)
