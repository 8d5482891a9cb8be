"""`silver.T_digests`, the last state of a snapshot table: a digest of each live key and its values.

It follows from the change log alone, so a run that was killed between the two is brought to its end
by the next one.
"""

from datetime import date, timedelta

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from lakehouse.writing import replace
from silver import extract_days, layout, log
from silver.compact import column
from silver.extract_changes import digested, last_state, newest
from silver.extract_days import Day, Days
from silver.extract_rows import sequence_of
from silver.extracts import DIGESTS, KEY_DIGEST
from silver.side_columns import DIGEST_COLUMNS


def before(
    spark: SparkSession, target: Target, table: Table, days: Days, day: date
) -> DataFrame | None:
    """The state that an extract is compared with; None when there is none yet.

    That is the last one, or, where a later extract has been compared, that before its date.
    """
    if not names.exists(spark, target, "silver", _table(table)):
        return None
    if not extract_days.compared_since(days, day):
        return spark.table(names.name(target, "silver", _table(table)))
    earlier = log.read(spark, target, table).where(F.col("_sequence") < sequence_of(day))
    return last_state(earlier, table)


def settle(
    spark: SparkSession, target: Target, table: Table, days: dict[date | None, Day]
) -> dict[date | None, Day]:
    """Brings the digests and the list of extracts up to the log; returns that list.

    The newest batch of the log may be ahead of them, and no other.
    """
    if not names.exists(spark, target, "silver", f"{table.table}_changes"):
        return days
    rows = log.read(spark, target, table)
    settled = max((day.batch or 0 for day in days.values()), default=0)
    rows = rows.where(F.col("_batch") > settled)
    found = rows.agg(
        F.max("_batch").alias("batch"),
        F.max("_sequence").alias("sequence"),
        F.max("_feed_batch").alias("feed_batch"),
        F.count_if(F.col("_letter").isNotNull()).alias("letters"),
    ).collect()[0]
    if found["batch"] is None:
        return days
    day = _day(found["sequence"])
    mode = str(table.feeds[0].mode)
    left = None
    if found["letters"] and day is not None:
        _refresh(spark, target, table, rows, bool(extract_days.compared_since(days, day)))
        left = _not_supplied(spark, target, table, rows) if mode == "delta" else None
        later = [at for at in extract_days.compared_since(days, day) if at > day]
        days = {**days, **{at: days[at]._replace(batch=None, feed_batch=0) for at in later}}
    elif day in days:
        left = days[day].not_supplied
    days = {**days, day: Day(day, mode, found["batch"], found["feed_batch"], left)}
    extract_days.write(spark, target, table, days)
    return days


def _refresh(
    spark: SparkSession, target: Target, table: Table, rows: DataFrame, anew: bool
) -> None:
    """Digests after the changes `rows`, or anew from the whole log."""
    keys = [field for field in layout.business(rows.schema) if field.name in table.keys]
    name, created = layout.ensure(spark, target, _table(table), keys, DIGEST_COLUMNS)
    if anew or created:
        everything = log.read(spark, target, table)
        replace(spark, target, "silver", _table(table), last_state(everything, table))
        return
    spark.sql(merge_sql(name, table.keys), changes=newest(rows, table))


def merge_sql(name: str, keys: list[str]) -> str:
    """The MERGE INTO text; the source is the placeholder `{changes}`."""
    columns = [*DIGESTS, *keys]
    sets = ", ".join(f"t.{digest} = s.{digest}" for digest in DIGESTS if digest != KEY_DIGEST)
    listed = ", ".join(names.quote(c) for c in columns)
    values = ", ".join(f"s.{names.quote(c)}" for c in columns)
    return (
        f"MERGE INTO {name} t USING {{changes}} s ON t.{KEY_DIGEST} = s.{KEY_DIGEST}"
        " WHEN MATCHED AND s._gone THEN DELETE"
        f" WHEN MATCHED THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND NOT s._gone THEN INSERT ({listed}) VALUES ({values})"
    )


def _not_supplied(spark: SparkSession, target: Target, table: Table, rows: DataFrame) -> int:
    """How many live keys an extract did not carry."""
    live = spark.table(names.name(target, "silver", _table(table)))
    came = digested(rows.select(*[column(key) for key in table.keys]), table)
    return live.join(came.select(KEY_DIGEST), KEY_DIGEST, "left_anti").count()


def _day(sequence: str | None) -> date | None:
    return None if sequence is None else date(1970, 1, 1) + timedelta(days=int(sequence, 16))


def _table(table: Table) -> str:
    return f"{table.table}_digests"
