"""Columns that the snapshot files of a date lack, and that those of the date before had.

Rows of CSV and Parquet files have all columns of their file, so the first row of each file is
enough. JSON objects may leave out nulls, so that files in JSON are not checked.
"""

import json
from collections.abc import Iterator, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from silver.changelog import schema_changes
from silver.changelog.decoded_batch import RawBatch
from silver.decode.columns import is_published
from silver.state.drift import ColumnDrift, build_drop, build_return

FILE_COLUMNS = "columns of extracts"
"""The fingerprint's entry with the columns of the newest date, in lower case, as JSON."""


def follow_columns(batch: RawBatch) -> None:
    """Records the columns that the files of a date lack, or have again.

    Raises:
        SchemaChangeRefused: a column is gone, and the table does not allow that.
    """
    config = batch.table.config
    headers = {} if config.feeds[0].file_format == "json" else _read_headers(batch.raw)
    now = set.intersection(*headers.values()) if headers else set()
    if not now:
        return
    before = set(json.loads(batch.state.built.get(FILE_COLUMNS) or "[]"))
    drifts = list(_compare_headers(batch, headers, before))
    batch.drifts += drifts
    schema_changes.refuse_changes(config, drifts)
    if now != before:
        batch.learned[FILE_COLUMNS] = json.dumps(sorted(now))


def _compare_headers(
    batch: RawBatch, headers: Mapping[str, set[str]], before: set[str]
) -> Iterator[ColumnDrift]:
    """The published columns that files lack since this date, or that all files have again."""
    config, kinds = batch.table.config, {c.column: c.kind for c in batch.state.schema_changes}
    for field in batch.table.log.business:
        name, type = field.name, field.dataType.simpleString()
        lacking = (file for file, names in headers.items() if name.lower() not in names)
        file = next(lacking, None)
        if not is_published(config, name):
            continue
        if file is not None and name.lower() in before:
            yield build_drop(config, name, type, file)
        elif file is None and kinds.get(name) == "drop_column":
            yield build_return(name, type)


def _read_headers(rows: DataFrame) -> dict[str, set[str]]:
    """The columns of each file by its first row, in lower case; not if that is broken."""
    first = rows.where("_line = 0").select("_file", F.col("_raw").cast("string").alias("raw"))
    named = first.select("_file", F.json_object_keys("raw").alias("names")).collect()
    return {row["_file"]: {*map(str.lower, row["names"])} for row in named if row["names"]}
