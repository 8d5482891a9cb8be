#!/usr/bin/env bash
# The environment of the Iceberg competitor: no Iceberg runtime exists for the project's own Spark.
set -euo pipefail
cd "$(dirname "$0")/.."
"${PYTHON:-python3}" -m venv .venv-iceberg
.venv-iceberg/bin/pip install --quiet "pyspark==4.0.1" "pyarrow==21.0.0"
