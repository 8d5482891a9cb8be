"""Names in CSV headers, and columns that folders give."""

import pickle
from collections.abc import Callable
from typing import Any

import pytest

from bronze.contract import NOT_TEXT
from lakehouse.config.table import Table
from silver.decode.columns import known_columns
from tests.helpers.builders import table
from tests.helpers.flat_records import decoded, discovery, record

COLUMNS = {"id": "int", "name": "string"}
CSV = {"file_format": "csv", "path": "in/t"}


def rows(source: dict[str, Any] = CSV, **options: Any) -> Table:
    return table("rows", ["id"], source, **({"sequence_by": "id", "columns": COLUMNS} | options))


def snapshot(source: dict[str, Any] = CSV, **options: Any) -> Table:
    given = {"mode": "full"} | source
    return table("snapshot", ["id"], given, **({"columns": COLUMNS} | options))


DAY = "file:/landing/in/t/2025-01-01/a.csv"


@pytest.mark.parametrize("make", [rows, snapshot])
def test_bytes_that_are_no_text_are_a_bad_value_of_their_row(make: Callable[..., Table]) -> None:
    lines = [{"id": 1, "NAME": "/w==", NOT_TEXT: ["NAME"]}, {"id": 2, "name": "/w=="}]
    parquet = {"file_format": "parquet", "path": "in/t"}

    found = decoded(make(parquet), lines, file=DAY)

    assert found.values("id", "name") == [(1, None), (2, "/w==")]
    assert found.told("reason") == ["bad_value", None]
    assert "column name: found bytes that are not UTF-8" in found.told("message")[0]
    assert found.columns.left_out == ()
    as_bytes = decoded(make(parquet, columns=COLUMNS | {"name": "binary"}), lines, file=DAY)
    assert as_bytes.values("name") == [b"\xff", b"\xff"]
    assert as_bytes.told("reason") == [None, None]


def test_a_discovery_of_files_is_picklable() -> None:
    of = rows()
    seen = discovery(of, known_columns(of, {}))
    seen.look(record({"ID": "1", "x": "2"}, file="/landing/in/t/region=eu/a.csv"), "p")

    columns, _ = pickle.loads(pickle.dumps(seen)).settle()

    assert columns.names[:4] == ["id", "name", "region", "x"]
