# Every target does all the set-up it needs by itself, in a virtual environment of the project.

PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/pip install --quiet --disable-pip-version-check

# uv installs in a third of the time, from pip's index; where it fails, pip does it, and says why it cannot.
# Given $$extras; arguments: options of uv, options of pip.
install = { test -x $(BIN)/uv && \
  index=$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null || true)} && \
  env $${index:+UV_DEFAULT_INDEX=$$index} \
    $(BIN)/uv pip install --quiet --python $(BIN)/python $(1) -e ".[$$extras]" 2>/dev/null; } || \
  $(PIP) $(2) -e ".[$$extras]"

# Processes of the tests: more than cores, for live tests mostly wait.
JOBS ?= $(shell echo $$(( 2 * $$(getconf _NPROCESSORS_ONLN) - 1 )))

# The tests start hundreds of processes, and each would compile every module again.
unexport PYTHONDONTWRITEBYTECODE

.PHONY: demo test quick lint types contracts kernel docs grammars bytecode properties bench experiments clean programs mosquitto graphviz java \
  images lock up down logs containers

## make demo: a server, three broker nodes, the Active Office, and composite events on the screen
demo: $(VENV)/.demo mosquitto graphviz
	$(BIN)/distced demo $(DEMO)

## make test: lint, types, contracts, and all tests but the long ones, in parallel; then a share of those in containers, whose
## images are built meanwhile
test:
	$(MAKE) --no-print-directory -j3 $(VENV)/.dev kernel programs
	$(MAKE) --no-print-directory -j2 types bytecode lint contracts docs
	@mkdir -p build; nice docker/build.sh >build/images.log 2>&1 & \
	  $(BIN)/pytest -n $(JOBS) --dist loadgroup --no-loadscope-reorder --max-worker-restart 2; \
	  code=$$?; wait; test $$code = 0 || exit $$code; \
	  $(BIN)/pytest -m 'containers and not slow' -r s tests/containers

## make quick: lint, types, contracts, the conformance cases on both engines, and the pure core, in about a minute
quick: $(VENV)/.dev
	$(MAKE) --no-print-directory -j2 lint types contracts
	$(BIN)/pytest -n $(JOBS) --dist loadgroup --hypothesis-profile quick -m 'not (mqtt or ray or spark or spawn or slow)' \
	  tests/conformance tests/middleware tests/detectors tests/policies tests/brokers

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

contracts: $(VENV)/.dev
	$(BIN)/lint-imports

## make docs: the documentation site, in build/site
docs: $(VENV)/.dev
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

## make grammars: grammars of the languages for editors, in docs/editors
grammars: $(VENV)/.fast
	$(BIN)/python -m distced.detectors.highlighting.textmate docs/editors/distced

# Functions of the columnar engine, compiled once for all processes of the tests. That needs few packages, and takes as
# long as the others take to install.
kernel: $(VENV)/.fast
	$(BIN)/python -m distced.detectors.warm_start

# Bytecode of the tests, compiled once for all processes of the tests.
bytecode: $(VENV)/.dev
	$(BIN)/pytest --collect-only -qq >/dev/null

## make properties: the long property and exhaustive runs
properties: $(VENV)/.dev
	$(BIN)/pytest -m properties --timeout 0

## make images: the container images of distced and its MQTT server
images:
	docker/build.sh

## make up: three sites in containers, a publisher and subscribers; make logs shows them, make down removes all of it
up: images
	docker/compose.sh up --detach

logs:
	docker/compose.sh logs --follow --tail 100

down:
	docker/compose.sh down --volumes --remove-orphans

## make containers: tests of the images and of the three sites, which need a Docker Engine, in about seven minutes
containers: $(VENV)/.dev
	$(BIN)/pytest -m containers --reruns 1 tests/containers

## make lock: versions and hashes of what the image installs
lock: $(VENV)/.dev
	index=$${PIP_INDEX_URL:-$$($(BIN)/pip config get global.index-url 2>/dev/null || true)}; \
	  printf 'setuptools>=77\n' | env $${index:+UV_DEFAULT_INDEX=$$index} $(BIN)/uv pip compile pyproject.toml - \
	  --extra ray --extra tables --extra remote --extra init --extra metrics --extra traces \
	  --python-version 3.11 --universal --upgrade \
	  --generate-hashes --no-annotate --no-header --quiet --output-file docker/requirements.lock

## make experiments: the shipped experiments with their reports, in experiments/; what is there is kept
experiments: $(VENV)/.dev
	for each in $(notdir $(basename $(wildcard simulations/experiments/files/*.toml))); do \
	  $(BIN)/distced experiment run $$each --jobs 0 || exit 1; done

## make bench: all benchmarks, with plots in reports/bench
bench: $(VENV)/.dev mosquitto java
	$(BIN)/distced bench seq3 --events 1000000 --report reports/bench --force
	$(BIN)/distced bench patterns --report reports/bench --force
	$(BIN)/distced bench instances --report reports/bench --force
	$(BIN)/distced bench plan --report reports/bench --force
	$(BIN)/distced bench replay --report reports/bench --force
	$(BIN)/distced bench place --report reports/bench --force
	$(BIN)/distced bench placement --report reports/bench --force
	$(BIN)/distced bench prediction --report reports/bench --force
	$(BIN)/distced bench live --report reports/bench --force
	$(BIN)/distced bench node --report reports/bench --force
	$(BIN)/distced bench detection --report reports/bench --force
	$(BIN)/distced bench recovery --report reports/bench --force
	$(BIN)/distced bench soak --report reports/bench --force
	$(BIN)/distced bench migrate --report reports/bench --force

## make clean: take the environment and everything that was generated away
clean:
	rm -rf $(VENV) build *.egg-info reports .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/bin/pip:
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
	  { echo "distced needs Python 3.11 or later: make PYTHON=python3.11"; exit 1; }
	@$(PYTHON) -c 'import ensurepip' 2>/dev/null || $(call debian,python3-venv)
	$(PYTHON) -m venv $(VENV)
	@$(PIP) uv 2>/dev/null || true

$(VENV)/.demo: pyproject.toml | $(VENV)/bin/pip
	@extras=broker,ray,tables,draw; $(call install,--compile-bytecode,)
	@touch $@

$(VENV)/.fast: pyproject.toml | $(VENV)/bin/pip
	@extras=fast; $(call install,,--no-compile)
	@touch $@

# Twelve thousand modules, of which the tests import a quarter: compiled when they are imported. Spark comes as an archive
# that a package is made of, and would be compressed once more.
$(VENV)/.dev: pyproject.toml $(VENV)/.fast
	@printf '[bdist_wheel]\ncompression = stored\n' >$(VENV)/build.cfg
	@export DIST_EXTRA_CONFIG=$(abspath $(VENV))/build.cfg; extras=all,dev; $(call install,,--no-compile)
	@touch $@ $(VENV)/.demo

# All that the tests can use, installed in one go.
programs: | $(VENV)/bin/pip
	@missing=; $(call need,mosquitto,mosquitto) $(call need,dot,graphviz) $(call need,java,openjdk-17-jre-headless) \
	test -z "$$missing" || $(call debian,$$missing) || \
	  echo "not installed:$$missing; the tests that need them skip, and the embedded MQTT server is used"

# mosquitto is used where it is installed. It is installed where that can be done without asking; without it the
# embedded server serves for first steps, and the tests that need mosquitto skip.
mosquitto:
	@command -v mosquitto >/dev/null || test -x /usr/sbin/mosquitto || $(call debian,mosquitto) || \
	  echo "mosquitto is not installed; the embedded server is used"

# Graphviz draws automata, graphs of detectors and topologies. Without it they are drawn as DOT or Mermaid text, and the
# tests that need it skip.
graphviz:
	@command -v dot >/dev/null || $(call debian,graphviz) || \
	  echo "Graphviz is not installed; --format svg and --format png need it"

# Spark runs on Java. Without it the tests that need Spark skip.
java:
	@command -v java >/dev/null || $(call debian,openjdk-17-jre-headless) || \
	  echo "Java is not installed; what needs Spark is left out"

need = command -v $(1) >/dev/null || test -x /usr/sbin/$(1) || missing="$$missing $(2)";

debian = { command -v apt-get >/dev/null && test "$$(id -u)" = 0 && apt-get update -qq && \
  DEBIAN_FRONTEND=noninteractive apt-get install -y -qq --no-install-recommends $(1) >/dev/null; }
