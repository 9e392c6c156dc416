# Two commands do everything on a fresh machine with Python 3.11 and make:
#   make demo   runs the main job on the embedded models (fetches about 1.1 GB once)
#   make test   runs all the tests
# PYTHON chooses the interpreter that the environment is made with.
PYTHON ?= python3
VENV := .venv
BIN := $(VENV)/bin

.PHONY: demo test fast coverage lint types format bench help-docs clean

demo: $(VENV)/.embedded
	$(BIN)/corrigenda models pull
	$(BIN)/corrigenda ask "Who painted the Mona Lisa, and where does it hang?" --seed 3
	$(BIN)/corrigenda check --context demo/context.txt --answer-file demo/answer.txt

test: $(VENV)/.dev
	-$(BIN)/corrigenda models pull
	$(BIN)/python -m pytest

# Without the embedded models: seconds instead of minutes.
fast: $(VENV)/.dev
	$(BIN)/python -m pytest -m "not embedded"

# The pure core that decides and edits is covered branch by branch.
coverage: $(VENV)/.dev
	$(BIN)/python -m pytest -q tests/test_policies.py tests/test_text.py tests/test_sentences.py tests/test_sentences_stream.py tests/test_pipeline.py tests/test_ask.py tests/test_lookup.py tests/test_redecide.py tests/test_releasing_ends.py tests/stages/test_retrieve.py \
		--cov=corrigenda.policies --cov=corrigenda.text --cov=corrigenda.sentences \
		--cov=corrigenda.stages.reassemble --cov=corrigenda.stages.decide \
		--cov-branch --cov-report=term-missing --cov-fail-under=100

lint: $(VENV)/.dev
	$(BIN)/ruff check .
	$(BIN)/ruff format --check .

types: $(VENV)/.dev
	$(BIN)/mypy

format: $(VENV)/.dev
	$(BIN)/ruff check --fix .
	$(BIN)/ruff format .

# Measures all that docs/performance.md shows and writes it, on a machine that does nothing else. BENCH takes flags,
# for instance BENCH="--only start,calls"; BENCH=--help lists them.
bench: $(VENV)/.dev
	$(BIN)/python -m benchmarks.performance $(BENCH)

help-docs: $(VENV)/.dev
	$(BIN)/python -m tests.help_docs
	$(BIN)/python -m tests.methods_docs

clean:
	rm -rf $(VENV) .pytest_cache .mypy_cache .ruff_cache dist build

$(VENV)/bin/python:
	$(PYTHON) -c 'import sys; sys.exit(sys.version_info < (3, 11) and "Python 3.11 or newer is needed; set PYTHON=")'
	$(PYTHON) -m venv $(VENV)
	$(BIN)/python -m pip install --quiet --upgrade "pip>=25.1"

$(VENV)/.embedded: $(VENV)/bin/python pyproject.toml
	$(BIN)/python -m pip install --quiet --editable ".[embedded]"
	touch $@

$(VENV)/.dev: $(VENV)/bin/python pyproject.toml requirements-dev.txt
	$(BIN)/python -m pip install --quiet --requirement requirements-dev.txt
	$(BIN)/python -m pip install --quiet --editable ".[embedded,onnx,transformers,dola,eval,retrieval,server,batch,ray,integrations]" --group dev
	touch $@ $(VENV)/.embedded
