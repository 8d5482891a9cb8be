"""Rows of full or delta extracts: flat columns in files below `PATH/YYYY-MM-DD/`.

The folder is the business effective date, and the date is the sequence. As decoded, every row says
what its key is as of that date; `silver.extract_changes` compares and leaves what changed.
"""

import re
from datetime import date

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from lakehouse.table import Table
from silver.changes import ORIGIN, changes, fault, origin
from silver.contract import NONE, UPSERT
from silver.flat import rows
from silver.sequence import literal, section


def to_changes(raw: DataFrame, table: Table) -> DataFrame:
    """Decode rows; see `silver.contract` for what comes out. Columns that a row lacks are null."""
    documents = raw.select(origin(), F.col("_raw").alias("__document"))
    found = rows(documents, table, {})
    day = F.unix_date(effective_date(F.col(f"{ORIGIN}._file"), table))
    nothing = F.col("__document").isNull()
    parts = {
        "_operation": F.when(nothing, NONE).otherwise(UPSERT),
        "_sequence": section(day),
        "_source_time": F.timestamp_seconds(day.cast("bigint") * 86_400),
    }
    return changes(found.frame, found.columns, _fault(day), parts)


def effective_date(file: Column, table: Table) -> Column:
    """The date in a file's path; null where the folder below the table's is no day since 1970."""
    day = F.regexp_extract(file, _pattern(table), 1).try_cast("date")
    return F.when(day >= F.lit("1970-01-01").cast("date"), day)


def date_of(file: str, table: Table) -> str | None:
    """The same folder's name, of a path as text."""
    found = re.match(_pattern(table), file)
    return found[1] if found else None


def sequence_of(day: date) -> str:
    """The sequence of all changes of an extract."""
    return literal([(day - date(1970, 1, 1)).days])


def _pattern(table: Table) -> str:
    folder = re.escape(str(table.feeds[0].path).strip("/"))
    return rf"^.*/{folder}/(\d{{4}}-\d{{2}}-\d{{2}})/"


def _fault(day: Column) -> Column:
    place = F.concat(
        F.lit("file "), F.col(f"{ORIGIN}._file"), F.lit(": expected it below a folder YYYY-MM-DD")
    )
    checks = (
        F.when(day.isNull(), fault("bad_sequence", place)),
        F.when(~F.col("__whole"), fault("not_json", "the row is no JSON object")),
        F.col("__key_fault"),
        F.col("__value_fault"),
    )
    return F.when(F.col("__document").isNotNull(), F.coalesce(*checks))
