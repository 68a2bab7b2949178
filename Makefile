# `make run` and `make test` do all the set-up; they need python3 (3.11 or later, with venv) and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# setuptools prints a box about any editable installation.
INSTALL := PYTHONWARNINGS='ignore:Editable installation' $(BIN)/pip install --quiet
# Tests start some hundred processes, which read bytecode even where the environment says that none is written.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist worksteal
MODEL ?= golden_models/resnet_kept_bn.onnx
# Tests of what other packages do much of: reading, inference, conversion, kernels, options, graphs and pages.
CORE := $(patsubst %,tests/test_%.py,api cli diff files formats function_inlining graph graph_layout inference judgement \
    kernels operators opset_conversion pages pipelines round_trip settings silence value_info verify_and_bisect) \
    $(patsubst %,tests/passes/%,cleanup folding fusion structure)
SOURCES := $(shell find app core passes testing -name '*.py' -o -name '*.pyi')
# Types are checked again when one of these files, their list or the environment has changed.
TYPED := $(VENV)/typed-$(firstword $(shell echo $(sort $(SOURCES)) | cksum))

.PHONY: run test test-all test-oldest test-newest core lint types check check-all bench docs clean

run: $(VENV)/installed
	$(BIN)/passes run $(MODEL) --pipeline basic -o $(VENV)/optimized.onnx

test: lint  # first, as it is quick
	@$(MAKE) --no-print-directory --jobs 2 types check

test-all: lint  # with the tests marked slow
	@$(MAKE) --no-print-directory --jobs 2 types check-all

test-oldest:  # with the oldest releases that pyproject.toml allows
	mkdir -p build
	grep -oE '"[a-z0-9-]+>=[0-9.]+' pyproject.toml | sed 's/"//; s/>=/==/' >build/oldest.txt
	@$(MAKE) --no-print-directory core VENV=build/oldest CONSTRAINTS='--constraint build/oldest.txt'

test-newest: $(VENV)/installed-dev  # with the newest releases, and what their onnxruntime does that the tested one does not
	@$(MAKE) --no-print-directory core VENV=build/newest
	$(BIN)/python benchmarks/system_calls.py $(VENV) build/newest

core:
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip
	$(INSTALL) --upgrade --upgrade-strategy eager $(CONSTRAINTS) \
	    -e '.[cluster,parquet,prove]' 'hypothesis>=6.150' pytest pytest-xdist
	$(PYTEST) -q $(CORE)

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(TYPED)

$(TYPED): $(VENV)/installed-dev $(SOURCES)
	$(BIN)/basedpyright --warnings --pythonpath $(BIN)/python
	rm -f $(VENV)/typed-*
	touch $@

check: $(VENV)/installed-dev
	$(PYTEST) -q

check-all: $(VENV)/installed-dev
	$(PYTEST) -q -m "" --hypothesis-profile slow

bench: $(VENV)/installed-dev
	$(INSTALL) -e '.[peers]'
	$(BIN)/python benchmarks/peers.py

docs: $(VENV)/installed-dev  # build/site/index.html
	NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet --strict

$(VENV)/bin/python:
	$(PYTHON) -m venv $(VENV)
	$(INSTALL) --upgrade pip

$(VENV)/installed: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e .
	touch $@

$(VENV)/installed-dev: pyproject.toml | $(VENV)/bin/python
	$(INSTALL) -e '.[dev]'
	touch $(VENV)/installed $@

clean:
	rm -rf $(VENV) build *.egg-info .ruff_cache .hypothesis
