"""Columns that the snapshot files of a date lack, and that those of the date before had.

Rows of CSV and Parquet files have all columns of their file, so the first row of each file is
enough. JSON objects may leave out nulls, so that files in JSON are not checked.
"""

import json
from collections.abc import Iterable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from silver.changelog.schema_changes import Noticed
from silver.decode.columns import Shape, is_published
from silver.state.drift import build_drop, build_return
from silver.state.table_state import TableState

CARRIED = "columns of extracts"
"""The fingerprint's entry with the columns of the newest date, in lower case, as JSON."""


def follow_columns(
    table: Table, state: TableState, types: Mapping[str, str], rows: DataFrame
) -> tuple[list[Noticed], dict[str, str]]:
    """The columns that are gone since a date or are back, and new entries of the fingerprint.

    Args:
        table: the table's configuration.
        state: the table's state.
        types: the business columns of the change log with their types.
        rows: the date's rows in bronze.
    """
    if table.feeds[0].file_format == "json":
        return [], {}
    headers = _read_headers(rows)
    now = set.intersection(*headers.values()) if headers else set()
    if not now:
        return [], {}
    before = set(json.loads(state.built.get(CARRIED) or "[]"))
    gone = {change.column: change.kind == "drop_column" for change in state.schema_changes}
    kept = {name: type for name, type in types.items() if is_published(table, name)}
    noticed: list[Noticed] = []
    for name, type in kept.items():
        lower = name.lower()
        if lower in before and lower not in now:
            file = next(file for file, names in headers.items() if lower not in names)
            noticed.append((build_drop(table, name, type, Shape({}, first_position=file)), file))
        elif lower in now and gone.get(name):
            noticed.append((build_return(name, type), None))
    return noticed, {} if now == before else {CARRIED: json.dumps(sorted(now))}


def _read_headers(rows: DataFrame) -> dict[str, set[str]]:
    """The columns of each file by its first row, in lower case; not if that is broken."""
    first = rows.where("_line = 0").select("_file", F.col("_raw").cast("string").alias("raw"))
    named = first.select("_file", F.json_object_keys("raw").alias("names")).collect()
    return {row["_file"]: _lower_names(row["names"]) for row in named if row["names"]}


def _lower_names(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}
