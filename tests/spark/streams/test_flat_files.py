"""CSV and Parquet files of flat formats through all layers, and a feed that is read once."""

import datetime
from pathlib import Path
from typing import Any

import pytest

from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from tests.helpers import lakes

pytestmark = pytest.mark.slow

EMPLOYEES = Table.model_validate(
    {
        "table": "employees",
        "source": {"format": "bigquery", "path": "employees", "file_format": "csv"},
        "keys": ["ID"],
        "columns": {"ID": "int", "Name": "string", "Salary": "decimal(9,2)"},
    }
)
EXTRACT = {"format": "rows", "path": "old", "file_format": "parquet", "once": True}
STREAM = {"format": "rows", "path": "new", "file_format": "csv"}
STOCK = Table.model_validate(
    {
        "table": "stock",
        "sources": [EXTRACT, STREAM],
        "keys": ["sku"],
        "columns": {"sku": "string", "qty": "int", "at": "date", "note": "string"},
        "sequence_by": "seq",
        "apply_as_deletes": "op = 'D'",
        "except_column_list": ["op", "seq"],
    }
)


def parquet(lake: Lake, name: str, *rows: str) -> None:
    query = f"SELECT * FROM VALUES {', '.join(rows)} AS t(sku, qty, at, seq)"
    aside = Path(lake.target.landing, "_aside", name)
    lake.spark.sql(query).coalesce(1).write.parquet(str(aside))
    folder = Path(lake.target.landing, "old")
    folder.mkdir(parents=True, exist_ok=True)
    next(aside.glob("part-*.parquet")).rename(folder / name)


def shown(lake: Lake, name: str) -> list[tuple[Any, ...]]:
    return sorted((tuple(row.values()) for row in lakes.rows(lake, name)), key=repr)


def test_csv_and_parquet_files_end_to_end(lake: Lake) -> None:
    header = "ID,Name,Salary,_CHANGE_TYPE,_CHANGE_SEQUENCE_NUMBER"
    changes = ["1,Ann,10.50,UPSERT,1", '2,"",,UPSERT,1', "3,Bob,1,UPSERT,1", "3,,,DELETE,2"]
    refused = ["4,Eve,1,INSERT,1", "5,Eve,1,UPSERT,x"]
    lakes.land(lake.target, "employees", "1.csv", [header, *changes, *refused])
    old = ["('a', 1, DATE '2024-01-01', 5L)", "('b', 2, NULL, 5L)", "('c', 3, NULL, 5L)"]
    parquet(lake, "1.parquet", *old)
    news = ["b,20,2024-02-02,6,,first", "c,,,6,D,", "a,9,,4,,late", "d,4,,,,", "e,many,,7,,"]
    lakes.land(lake.target, "new", "1.csv", ["sku,qty,at,seq,op,note", *news])
    lakes.run(lake, [EMPLOYEES, STOCK])
    found = [(id, name, salary and str(salary)) for id, name, salary in shown(lake, "employees")]
    assert found == [(1, "Ann", "10.50"), (2, "", None)]
    day, other = datetime.date(2024, 1, 1), datetime.date(2024, 2, 2)
    assert shown(lake, "stock") == [("a", 1, day, "late"), ("b", 20, other, "first")]
    assert reasons(lake, "stock") == ["bad_sequence", "bad_value"]
    assert reasons(lake, "employees") == ["bad_sequence", "unknown_operation"]
    parquet(lake, "2.parquet", "('z', 1, NULL, 9L)")
    lakes.land(lake.target, "new", "2.csv", ["sku,qty,seq", "b,21,7"])
    lakes.run(lake, [STOCK])
    again = [("a", 1, day, "late"), ("b", 21, other, "first")]
    assert shown(lake, "stock") == again


def reasons(lake: Lake, name: str) -> list[str]:
    letters = lake.spark.table(lake.name("silver", f"{name}_dead_letters"))
    return sorted(row["reason"] for row in letters.select("reason").collect())
