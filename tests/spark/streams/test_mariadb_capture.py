"""Events captured from a real MariaDB, through all layers, give the tables that the server held."""

import json

import pytest

from lakehouse.storage.lake import Lake
from tests.helpers import lakes, mariadb_capture
from tests.helpers.mariadb_capture import HELD
from tests.helpers.mariadb_truth import gold_rows, in_order


@pytest.mark.slow
def test_every_captured_table_equals_what_mariadb_held(lake: Lake) -> None:
    tables = [mariadb_capture.table(name, blocks=True) for name in HELD]
    lines = [json.dumps(record) for record in mariadb_capture.records()]
    middle = len(lines) // 2
    for at, part in enumerate((lines[:middle], lines[middle:])):
        lakes.land(lake.target, "shop", f"{at}.jsonl", part)
        lakes.run(lake, tables)
    for name, held in HELD.items():
        found = gold_rows(lakes.rows(lake, name), held.types)
        assert in_order(found) == held.rows, name
