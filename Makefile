# A fresh machine needs Python >= 3.11, git and make; everything else is installed into .venv by the first target.
.POSIX:
.PHONY: demo test slow lint smoke tables clean

PYTHON = python3
VENV = .venv
BIN = $(VENV)/bin
PIP = $(BIN)/python -m pip --disable-pip-version-check --quiet
COMMAND = $(BIN)/markdown-fastrag-mcp

# The demo starts from nothing and leaves nothing but .demo: no variable of the user's own set-up reaches it.
DEMO = env -i PATH="$$PATH" HOME="$$HOME" LANG=C.UTF-8 MARKDOWN_RAG_CACHE_DIR="$$PWD/.demo" $(COMMAND)
QUESTION = how do I move the index to a Milvus server?

demo: $(VENV)/.installed
	$(DEMO) service stop
	rm -rf .demo
	$(DEMO) index docs
	$(DEMO) search "$(QUESTION)"
	$(DEMO) service stop

test: $(VENV)/.installed-dev
	$(BIN)/python -m pytest -n 2

# Those of a Milvus server mostly wait for it, so they run beside the others.
slow: $(VENV)/.installed-dev
	@log=$$(mktemp); $(BIN)/python -m pytest -m server >"$$log" 2>&1 & server=$$!; \
	$(BIN)/python -m pytest -m '(slow or outside) and not server'; here=$$?; \
	wait $$server; there=$$?; echo 'with a Milvus server:'; cat "$$log"; rm -f "$$log"; \
	exit $$((here != 0 || there != 0))

lint: $(VENV)/.installed-dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .
	$(BIN)/mypy
	$(BIN)/lint-imports

smoke: $(VENV)/.installed-dev
	$(BIN)/python tests/smoke.py $(COMMAND)

# Writes the tables in README.md and docs/ that are made from the code; the tests compare them.
tables: $(VENV)/.installed-dev
	$(BIN)/python tests/docs/tables.py --write

clean:
	rm -rf $(VENV) .demo .mypy_cache .ruff_cache .pytest_cache .hypothesis .import_linter_cache

$(VENV)/.installed: pyproject.toml
	@$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11))' || \
		{ echo 'Python >= 3.11 is needed; name one: make PYTHON=python3.12 ...' >&2; exit 1; }
	test -x $(BIN)/python || $(PYTHON) -m venv $(VENV)
	$(PIP) install --upgrade "pip>=25.1"
	$(PIP) install --editable .
	touch $@

$(VENV)/.installed-dev: $(VENV)/.installed
	$(PIP) install --group dev
	touch $@
