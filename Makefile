# Every target does all the set-up it needs by itself, in a virtual environment of the project.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test lint types layers properties bench clean mosquitto java

## make demo: a server, three broker nodes, the Active Office, and composite events on the screen
demo: $(VENV)/.demo mosquitto
	$(BIN)/distced demo $(DEMO)

## make test: lint, types, layers, and all tests but the long ones
test: lint types layers mosquitto java
	$(BIN)/pytest

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

layers: $(VENV)/.dev
	$(BIN)/lint-imports

## make properties: the long property and exhaustive runs
properties: $(VENV)/.dev
	$(BIN)/pytest -m properties --timeout 0

## make bench: all benchmarks, with plots in reports/bench
bench: $(VENV)/.dev mosquitto java
	$(BIN)/distced bench seq3 --events 1000000 --report reports/bench
	$(BIN)/distced bench patterns --report reports/bench
	$(BIN)/distced bench instances --report reports/bench
	$(BIN)/distced bench plan --report reports/bench
	$(BIN)/distced bench replay --report reports/bench
	$(BIN)/distced bench place --report reports/bench
	$(BIN)/distced bench placement --report reports/bench
	$(BIN)/distced bench prediction --report reports/bench
	$(BIN)/distced bench live --report reports/bench
	$(BIN)/distced bench migrate --report reports/bench

## make clean: take the environment and everything that was generated away
clean:
	rm -rf $(VENV) build *.egg-info reports .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "distced needs Python 3.11 or later: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(call debian,python3-venv)
	$(PYTHON) -m venv $(VENV)

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[broker,tables]'
	@touch $@

$(VENV)/.dev: pyproject.toml | $(VENV)/bin/pip
	$(BIN)/pip install --quiet --disable-pip-version-check -e '.[broker,connect,place,dev]'
	@touch $@ $(VENV)/.demo

# mosquitto is used where it is installed. It is installed where that can be done without asking; without it the
# embedded server serves for first steps, and the tests that need mosquitto skip.
mosquitto:
	@command -v mosquitto >/dev/null || test -x /usr/sbin/mosquitto || $(call debian,mosquitto) || \
	  echo "mosquitto is not installed; the embedded server is used"

# Spark runs on Java. Without it the tests that need Spark skip.
java:
	@command -v java >/dev/null || $(call debian,openjdk-17-jre-headless) || \
	  echo "Java is not installed; what needs Spark is left out"

debian = { command -v apt-get >/dev/null && test "$$(id -u)" = 0 && apt-get update -qq && \
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null; }
