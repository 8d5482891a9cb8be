"""Events captured from a real MariaDB, through all layers, give the tables that the server held."""

import json

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from tests.helpers import lake, mariadb_capture
from tests.helpers.mariadb_capture import HELD
from tests.helpers.mariadb_truth import gold_rows, in_order


@pytest.mark.slow
def test_every_captured_table_equals_what_mariadb_held(spark: SparkSession, target: Target) -> None:
    tables = [mariadb_capture.table(name, blocks=True) for name in HELD]
    lines = [json.dumps(record) for record in mariadb_capture.records()]
    middle = len(lines) // 2
    for at, part in enumerate((lines[:middle], lines[middle:])):
        lake.land(target, "shop", f"{at}.jsonl", part)
        lake.run(spark, target, tables)
    for name, held in HELD.items():
        found = gold_rows(lake.rows(spark, target, name), held.types)
        assert in_order(found) == held.rows, name
