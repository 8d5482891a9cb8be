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

LISTS := cdc_lakehouse/project/template/environments

QUICK := tests/unit tests/properties tests/spark

.PHONY: venv demo test test-live test-slow test-bundle test-report test-connect bench check docs bundle lock

# pip compiles nothing: what is imported is compiled once, when it is.
unexport PYTHONDONTWRITEBYTECODE

venv: $(STAMP)

$(STAMP): requirements.lock pyproject.toml
	@test -n "$(PYTHON)" || { echo "no Python 3.10, 3.11 or 3.12 found: install one, or name it: make PYTHON=/path/to/python"; exit 2; }
	$(PYTHON) -m venv .venv
	$(BIN)/python -m pip install --quiet --no-compile --require-hashes -r requirements.lock
	$(BIN)/python -m pip install --quiet --no-compile --no-deps --no-build-isolation -e .
	@touch $(STAMP)

demo: venv
	$(BIN)/lakehouse demo

test: venv  # about 7 minutes on 2 cores: unit, Spark and property tests
	mkdir -p build/first/lake && $(BIN)/lakehouse sql "SELECT 1" --root build/first >/dev/null  # fetches Spark's jars: two at once would collide
	$(BIN)/python -m pytest -m "not slow" -n 2 --dist loadfile $(QUICK)

# What README, Getting started and the examples say; PostgreSQL, Debezium, Kafka and a schema registry for real; runs that are killed; disks that fail. Where a part cannot be had, its tests are skipped and say so.
# About half an hour. LAKEHOUSE_LIVE=short leaves out object stores and the cluster, and takes seven minutes; LAKEHOUSE_LIVE=full takes the full figures.
BEYOND := tests/e2e/test_object_storage.py tests/e2e/test_open_cluster.py
LEFT_OUT := @echo "not tried, as LAKEHOUSE_LIVE is short: $(BEYOND)" >&2
SHORT := $(if $(filter full,$(LAKEHOUSE_LIVE)),,-m "not slow")
test-live: venv
	PYTHON=$(PYTHON) tests/e2e/install.sh || echo "the live tests will be skipped: their parts could not be installed" >&2
	$(BIN)/python -m pytest $(SHORT) -n 2 --dist loadfile tests/pages
	$(BIN)/python -m pytest $(SHORT) -n 2 --dist loadfile tests/e2e  # apart: its sessions have Kafka's connector
	$(if $(filter short,$(LAKEHOUSE_LIVE)),$(LEFT_OUT),$(if $(SHORT),$(BIN)/python -m pytest $(BEYOND)))

test-slow: venv  # what these two leave out: more cases, more kills, larger figures, many more examples
	$(BIN)/python -m pytest -m slow $(QUICK) tests/pages
	$(BIN)/python -m pytest -m slow tests/e2e
	LAKEHOUSE_EXAMPLES=3000 $(BIN)/python -m pytest tests/properties/test_fold.py tests/properties/test_fold_key.py
	LAKEHOUSE_EXAMPLES=250 $(BIN)/python -m pytest tests/unit/silver/fold tests/unit/silver/decode tests/properties/test_slices.py

test-bundle: venv  # the bundle, the wheel, and that the code uses nothing that serverless compute lacks
	$(BIN)/python -m pytest tests/bundle tests/unit/tree/test_architecture.py tests/unit/tree/test_function_memory.py

test-connect: venv $(DATABRICKS)/.made  # tests/spark on a Spark Connect server; the main job through databricks-connect
	$(BIN)/python -m tests.connect $(BIN)/python -m pytest tests/spark tests/connect

$(DATABRICKS)/.made: $(STAMP) requirements-databricks.lock
	$(BIN)/python -m venv $(DATABRICKS)
	$(DATABRICKS)/bin/python -m pip install --quiet --no-compile --require-hashes -r requirements-databricks.lock
	@touch $@

test-report: venv  # looks at the report in a real browser: apt-get install chromium chromium-driver
	$(BIN)/python -m pytest tests/browser

SITE := NO_MKDOCS_2_WARNING=1 $(BIN)/mkdocs build --quiet  # strict: any warning fails

PARTS ?= apply load compare scan fixed recent

bench: venv  # each part against its peers, figures into docs/benchmarks: make bench PARTS="apply load"
	$(BIN)/python -m benchmarks $(PARTS) --keep

check: venv
	$(BIN)/ruff format --check .
	$(BIN)/ruff check .
	$(BIN)/mypy
	$(BIN)/python -m pytest tests/unit
	$(SITE)

docs: venv  # writes the generated reference, then the site into build/site
	$(BIN)/python docs/generate_reference.py
	$(SITE)

lock:  # resolve pyproject.toml anew
	$(COMPILE) --extra local --extra quality --extra postgres --extra mysql --extra capture --extra shell --extra openlineage --group dev --group docs -o requirements.lock
	$(COMPILE) --extra databricks -o requirements-databricks.lock
	$(FOR_JOBS) $(OF_THE_RUNTIME) -o environments/lakehouse.txt
	$(FOR_JOBS) --extra quality $(OF_THE_RUNTIME) -o environments/quality.txt
	$(FOR_JOBS) --extra postgres --extra mysql $(OF_THE_RUNTIME) -o environments/source.txt
	for list in lakehouse quality source; do { head -n 2 $(LISTS)/$$list.txt.tmpl && printf '{{end}}' && cat environments/$$list.txt; } > build/list && mv build/list $(LISTS)/$$list.txt.tmpl; done

# The repository's own databricks.yml, resources/ and conf/targets, from the template of projects.
bundle: venv
	$(BIN)/python docs/generate_bundle.py
