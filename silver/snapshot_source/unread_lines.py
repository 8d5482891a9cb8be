"""Lines of a snapshot file without a readable key: they may be rows that must not be deleted.

As long as a full snapshot has one, keys that it lacks are not deleted. A line no longer counts once
its file has come again, repaired: a later file of the same date, without such lines, that has the
same path or every key of the broken file. A CSV header that is repeated within its file is a dead
letter, but does not count.
"""

import re
from collections.abc import Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, Row
from pyspark.sql import functions as F

from lakehouse.config.csv_options import SEPARATORS
from lakehouse.config.table import Table
from silver.storage.row_columns import column, has_key

_AROUND_NAMES = r'^[\s"\x{feff}]+|[\s"]+$'
_FILE_DIGITS = 14
"""How many digits of an `_arrival` are the batch and the file (`bronze.files.batches`)."""


class UnreadLines(NamedTuple):
    """How many lines have no readable key, and the repaired files, as starts of `_arrival`s."""

    lines: int
    repaired: list[str]


def find_unread_lines(rows: DataFrame, table: Table) -> UnreadLines:
    """The lines of one snapshot date that have no readable key.

    Args:
        rows: all rows of the date, with the columns of a change.
        table: the table's configuration.
    """
    placed = rows.withColumns(
        {
            "__file": F.substring("_arrival", 1, _FILE_DIGITS),
            "__path": F.regexp_extract("_position", r"^(.*):[^:]*$", 1),
            "__unread": F.col("_reason").isNotNull() & ~has_key(table) & ~_is_header(rows, table),
        }
    )
    unread = F.count_if("__unread").alias("unread")
    counts = placed.groupBy("__file", "__path").agg(F.count(F.lit(1)).alias("rows"), unread)
    files = sorted(counts.collect(), key=lambda row: row["__file"])
    broken = [file for file in files if file["unread"]]
    repaired = [file for file in broken if _is_repaired(file, files, placed, table)]
    lines = sum(file["unread"] for file in broken if file not in repaired)
    return UnreadLines(lines, [file["__file"] for file in repaired])


def _is_header(rows: DataFrame, table: Table) -> Column:
    """Whether a line of a CSV file has names of columns as values, those of all keys included."""
    csv = table.feeds[0].csv
    if table.feeds[0].file_format != "csv" or not csv.header:
        return F.lit(False)
    names = {name.lower() for name in (*table.columns, *rows.columns) if not name.startswith("_")}
    separator = re.escape(csv.sep) if csv.sep else f"[{re.escape(''.join(SEPARATORS))}]"
    values = F.split(F.lower(F.col("_raw").cast("string")), separator)
    named = F.transform(values, lambda value: F.regexp_replace(value, _AROUND_NAMES, ""))
    keys = F.array(*[F.lit(key.lower()) for key in table.keys])
    are_names = F.forall(named, lambda name: name.isin(*names))
    return F.coalesce(are_names & (F.size(F.array_except(keys, named)) == 0), F.lit(False))


def _is_repaired(broken: Row, files: Sequence[Row], rows: DataFrame, table: Table) -> bool:
    """Whether a later file of the date, without such lines, replaces a broken one."""
    later = [f for f in files if f["__file"] > broken["__file"] and not f["unread"]]
    if any(file["__path"] == broken["__path"] for file in later):
        return True
    readable = broken["rows"] - broken["unread"]
    return any(
        file["rows"] >= max(readable, 1) and _has_all_keys(file, broken, rows, table)
        for file in later
    )


def _has_all_keys(file: Row, broken: Row, rows: DataFrame, table: Table) -> bool:
    keys = F.to_json(F.struct(*[column(k) for k in table.keys])).alias("key")
    readable = rows.where(~F.col("__unread"))
    before, after = (
        readable.where(F.col("__file") == each["__file"]).select(keys) for each in (broken, file)
    )
    return before.join(after, "key", "left_anti").isEmpty()
