# Every target makes the virtual environment from the lock file first.
PYTHON ?= $(shell for p in python3.12 python3.11 python3.10 python3; do \
  $$p -c 'import sys; sys.exit(not (3, 10) <= sys.version_info < (3, 13))' 2>/dev/null && echo $$p && break; done)
BIN := .venv/bin
STAMP := .venv/.made
# databricks-connect has a pyspark of its own, so it has an environment of its own.
DATABRICKS := .venv-databricks
COMPILE := uv pip compile pyproject.toml --universal --python-version 3.10 --generate-hashes --no-header -q
# What the jobs of the bundle install beside the wheel. pandas, numpy and pyarrow are the serverless environment's own.
FOR_JOBS := uv pip compile pyproject.toml --python-version 3.12 --python-platform linux --no-header --no-annotate -q
OF_THE_RUNTIME := $(foreach name,numpy pandas pyarrow,--no-emit-package $(name))

.PHONY: venv demo test test-slow test-live test-bundle test-report test-connect bench check lock

venv: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.10, 3.11 or 3.12 found: install one, or name it: make PYTHON=/path/to/python"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: venv
	$(BIN)/lakehouse demo

test: venv  # the quick suite, then kill -9 and the live tests: these are skipped where their parts are missing
	mkdir -p build/first/lake && $(BIN)/lakehouse sql "SELECT 1" --root build/first >/dev/null  # fetches Spark's jars: two at once would collide
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile
	$(BIN)/python -m pytest -m "not slow" tests/e2e

test-slow: venv  # what the quick suite leaves out
	$(BIN)/python -m pytest -m slow

test-live: venv  # PostgreSQL, Debezium and Kafka for real; LAKEHOUSE_LIVE=full takes the full figures
	tests/e2e/install.sh
	$(BIN)/python -m pytest tests/e2e

test-bundle: venv
	$(BIN)/python -m pytest tests/bundle

test-connect: venv $(DATABRICKS)/.made  # tests/spark on a Spark Connect server; the main job through databricks-connect
	$(BIN)/python -m tests.connect $(BIN)/python -m pytest tests/spark tests/connect

$(DATABRICKS)/.made: $(STAMP) requirements-databricks.lock
	$(BIN)/python -m venv $(DATABRICKS)
	$(DATABRICKS)/bin/python -m pip install --quiet --require-hashes -r requirements-databricks.lock
	@touch $@

test-report: venv  # looks at the report in a real browser: apt-get install chromium chromium-driver
	$(BIN)/python -m pytest tests/browser

PARTS ?= apply load compare scan fixed growth

bench: venv  # each part against its peers, figures into docs/benchmarks: make bench PARTS="apply load"
	$(BIN)/python -m benchmarks $(PARTS) --keep

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/unit

lock:  # resolve pyproject.toml anew
	$(COMPILE) --extra local --extra quality --extra postgres --group dev -o requirements.lock
	$(COMPILE) --extra databricks -o requirements-databricks.lock
	$(FOR_JOBS) -o environments/lakehouse.txt
	$(FOR_JOBS) --extra quality $(OF_THE_RUNTIME) -o environments/quality.txt
