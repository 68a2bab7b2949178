# `make run` and `make test` do all the set-up; they need python3 (3.11 or later, with venv) and make.
PYTHON ?= python3
VENV ?= .venv
BIN := $(VENV)/bin
# setuptools prints a box about any editable installation.
INSTALL := PYTHONWARNINGS='ignore:Editable installation' $(BIN)/pip install --quiet
# Tests start some hundred processes, which read bytecode even where the environment says that none is written.
PYTEST := PYTHONDONTWRITEBYTECODE= $(BIN)/pytest -n 2 --dist worksteal
MODEL ?= golden_models/resnet_kept_bn.onnx

.PHONY: run test test-all lint types check check-all bench docs clean

run: $(VENV)/installed
	$(BIN)/passes run $(MODEL) --pipeline basic -o $(VENV)/optimized.onnx

test: lint  # first, as it is quick
	@$(MAKE) --no-print-directory --jobs 2 types check

test-all: lint  # with the tests marked slow
	@$(MAKE) --no-print-directory --jobs 2 types check-all

lint: $(VENV)/installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/installed-dev
	$(BIN)/basedpyright --warnings --pythonpath $(BIN)/python

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
