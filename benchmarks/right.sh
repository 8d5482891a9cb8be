#!/usr/bin/env bash
# The environment of those rivals of `python -m benchmarks right` that the lock has not.
set -euo pipefail
cd "$(dirname "$0")/.."
"${PYTHON:-python3}" -m venv .venv-right
.venv-right/bin/pip install --quiet "dlt[duckdb]==1.31.0" "pyiceberg[sql-sqlite,pyarrow]==0.12.0" \
  "duckdb==1.5.5" "duckdb-extensions==1.5.5" "duckdb-extension-ducklake==1.5.5"
# The table that Spark's AUTO CDC accepts: of Spark's own tests, in memory.
curl -fsSL -o .venv-right/spark-catalyst-tests.jar \
  https://repo.maven.apache.org/maven2/org/apache/spark/spark-catalyst_2.13/4.2.0/spark-catalyst_2.13-4.2.0-tests.jar
echo "9f46cfb6d4cb5dff696b76f8af3db1ecfc56cbc43ffb0fa785ef947ac4ad2620  .venv-right/spark-catalyst-tests.jar" | sha256sum --check --quiet
