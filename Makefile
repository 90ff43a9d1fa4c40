# Two commands do everything: `make up` starts the gateway, `make test` proves that it works.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin
PIP := $(BIN)/python -m pip --disable-pip-version-check --quiet

.PHONY: up test install lint lock clean help
.DEFAULT_GOAL := up

help: ## list these targets
	@echo "Two commands do everything: make up starts Tidegate, make test proves that it works."
	@sed -n 's/^\([a-z][a-z]*\):.*## \(.*\)/  make \1\t\2/p' Makefile | expand -t 16
	@echo "Options of the command go into ARGS: make up ARGS='--port 0'. Its own help: $(BIN)/tidegate help"

up: $(VENV)/.run ## start the gateway here and, in a terminal, a chat with the agent
	@exec $(BIN)/tidegate up $(ARGS)

test: install ## run all tests
	$(BIN)/pytest $(ARGS)

install: $(VENV)/.test ## make the environment with the product and its test tools

lint: install ## check style, types and layers
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/lint-imports

$(VENV)/.run: deploy/lock/run.txt pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo "Tidegate needs Python 3.11 or newer; run: make PYTHON=python3.12 up"; exit 1; }
	@echo "Setting up $(VENV), only this once; about half a minute ..."
	@$(PYTHON) -m venv $(VENV) || { echo "python3 has no venv; on Debian: apt-get install python3-venv"; exit 1; }
	@$(PIP) install --require-hashes --no-deps -r deploy/lock/run.txt
	@$(PIP) install --no-deps --editable .
	@touch $@
	@echo "$(VENV) is ready."

$(VENV)/.test: $(VENV)/.run deploy/lock/test.txt
	@echo "Adding the test tools, only this once; about half a minute ..."
	@$(PIP) install --require-hashes --no-deps -r deploy/lock/test.txt
	@touch $@

lock: ## write the lock files anew from pyproject.toml
	$(PIP) install pip-tools
	$(BIN)/pip-compile --quiet --upgrade --generate-hashes --strip-extras --no-header --no-emit-index-url \
		--no-emit-trusted-host --no-emit-find-links -o deploy/lock/run.txt pyproject.toml
	$(BIN)/pip-compile --quiet --upgrade --generate-hashes --strip-extras --no-header --no-emit-index-url \
		--no-emit-trusted-host --no-emit-find-links --allow-unsafe -c deploy/lock/run.txt -o deploy/lock/test.txt deploy/lock/test.in

clean: ## remove the environment and what was built
	rm -rf $(VENV) build dist
