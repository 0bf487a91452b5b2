# Every target sets up what it needs in .venv, from nothing.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
STAMP := $(VENV)/.installed

.PHONY: setup
setup: $(STAMP)

$(STAMP): pyproject.toml setup.py constraints.txt $(shell find src -name '*.pyx' -o -name '*.pxd')
	@command -v cc >/dev/null || { echo "A C compiler is needed to build BraidMQ. On Debian: apt-get install gcc python3-dev"; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	PIP_CONSTRAINT=constraints.txt $(BIN)/pip install -q --disable-pip-version-check -e '.[dev]'
	touch $@
