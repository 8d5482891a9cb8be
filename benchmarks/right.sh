#!/usr/bin/env bash
# The environment of those rivals of `python -m benchmarks right` that the lock has not.
set -euo pipefail
cd "$(dirname "$0")/.."
"${PYTHON:-python3}" -m venv .venv-right
.venv-right/bin/pip install --quiet "dlt[duckdb]==1.31.0" "pyiceberg[sql-sqlite,pyarrow]==0.12.0" \
  "duckdb==1.5.5" "duckdb-extensions==1.5.5" "duckdb-extension-ducklake==1.5.5"
