"""Deletes everything about one key from silver: log, rows, versions, dead letters.

A record belongs to the key when it decodes to it. A dead letter that decodes to no key belongs to
it when it contains a text that no other key has. The log is deleted last: until then it shows which
records of bronze are the key's, so that an erasure that was killed can be repeated.
"""

from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType

from bronze.contract import arrival_sql
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.traces import build_pattern
from silver.changelog.dead_letters import SAME
from silver.storage import layout
from silver.storage.one_key import Key, check_types, is_key, says_key
from silver.storage.row_columns import column

SHORTEST = 5
"""Shorter texts identify nobody: they are not searched for."""
PLACE = ["_feed", "_arrival"]
"""What identifies a record."""
WITH_KEYS = ("", "_history", "_folded", "_digests", "_staged")
"""The suffixes of tables with rows of keys; 0.3 wrote the last two for snapshot tables."""


class KeyTraces(NamedTuple):
    """What silver holds of a key.

    `arrivals` identifies its records; `values` are its texts that no other row of the table holds;
    `key_changes` counts records of other keys that had this one before a key change.
    """

    records: int
    arrivals: DataFrame
    values: list[str]
    key_changes: int


def find_records(lake: Lake, table: Table, key: Key) -> KeyTraces | None:
    """The records to erase; None before the table's first record.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    if not lake.exists("silver", f"{table.table}_changes"):
        return None
    log = lake.spark.table(log_name(lake.target, table))
    check_types(lake.spark, key, log.schema)
    mine = F.coalesce(is_key(key, log.schema), F.lit(False))
    fields = layout.list_source_fields(log.schema)
    texts = [field.name for field in fields if isinstance(field.dataType, StringType)]
    values = find_unique_texts(log.where(~_has_no_key(table)), mine, texts)
    doomed = mine | _match_unreadable(table, values)
    key_changes = log.where(~mine & says_key("_old_key", key, log.schema)).count()
    arrivals = log.where(doomed).select(*PLACE).distinct()
    _refuse_shared_records(table, log, arrivals)
    return KeyTraces(arrivals.count(), arrivals, values, key_changes)


def _refuse_shared_records(table: Table, log: DataFrame, arrivals: DataFrame) -> None:
    """Refuses to erase records that have rows of other keys, too.

    Raises:
        ConfigurationError: there is such a record.
    """
    if table.feeds[0].parts is None:
        return
    of_record = F.expr(arrival_sql()).alias("_arrival")
    records = arrivals.select("_feed", of_record).distinct()
    others = log.join(arrivals, PLACE, "left_anti").select("_feed", of_record)
    if not others.join(records, PLACE, "left_semi").isEmpty():
        expected = "records with rows of one key"
        action = "erase the other keys of these records with it, or remove it at the source"
        found = "a record with rows of other keys"
        raise ConfigurationError("command line", "--key", found, expected, action)


def find_unique_texts(log: DataFrame, mine: Column, texts: list[str]) -> list[str]:
    """The key's texts that no other row of the table has."""
    if not texts:
        return []
    each = F.explode(F.array(*[column(t) for t in texts])).alias("value")
    long = F.length("value") >= SHORTEST
    key_texts = {r["value"] for r in log.where(mine).select(each).where(long).distinct().collect()}
    if not key_texts:
        return []
    others = log.where(~mine).select(each).where(F.col("value").isin(sorted(key_texts))).distinct()
    return sorted(key_texts - {row["value"] for row in others.collect()})


def _match_unreadable(table: Table, values: list[str]) -> Column:
    """Dead letters without a key that contain one of the values."""
    if not values:
        return F.lit(False)
    holds = F.coalesce(F.col("_raw").rlike(build_pattern(values)), F.lit(False))
    return _has_no_key(table) & holds


def _has_no_key(table: Table) -> Column:
    """Dead letters without a key."""
    no_key = F.coalesce(*[column(k).cast("string") for k in table.keys]).isNull()
    return F.col("_reason").isNotNull() & no_key


def remove_rows(lake: Lake, table: Table, key: Key, traces: KeyTraces) -> int:
    """Deletes the key's rows, versions and dead letters, not yet the log; returns how many."""
    removed = 0
    for name in (f"{table.table}{suffix}" for suffix in WITH_KEYS):
        if lake.exists("silver", name):
            removed += _remove_key(lake.spark, lake.name("silver", name), key)
    letters = f"{table.table}_dead_letters"
    if lake.exists("silver", letters):
        name = lake.name("silver", letters)
        removed += _remove_records(lake.spark, name, traces.arrivals)
    return removed


def log_name(target: Target, table: Table) -> str:
    """SQL name of the table's change log."""
    return names.table_name(target, "silver", f"{table.table}_changes")


def remove_log(lake: Lake, table: Table, traces: KeyTraces) -> None:
    """Deletes the key's records from the change log."""
    _remove_records(lake.spark, log_name(lake.target, table), traces.arrivals)


def list_leftovers(lake: Lake, table: Table, key: Key) -> list[str]:
    """The table's silver tables that still hold a row of the key."""
    suffixes = (*WITH_KEYS, "_changes")
    there = [f"{table.table}{s}" for s in suffixes]
    tables = []
    for name in there:
        if lake.exists("silver", name):
            rows = lake.spark.table(lake.name("silver", name))
            if not rows.where(is_key(key, rows.schema)).isEmpty():
                tables.append(f"silver.{name}")
    return tables


def _remove_records(spark: SparkSession, name: str, arrivals: DataFrame) -> int:
    count = spark.table(name).join(arrivals, PLACE, "left_semi").count()
    if not count:
        return 0
    text = f"MERGE INTO {name} t USING {{rows}} s ON {SAME}"
    spark.sql(f"{text} WHEN MATCHED THEN DELETE", rows=arrivals)
    return count


def _remove_key(spark: SparkSession, name: str, key: Key) -> int:
    """Deletes the key's rows; the statement names no value, as Delta keeps it in its log."""
    rows = spark.table(name)
    mine = rows.where(is_key(key, rows.schema))
    count = mine.count()
    if not count:
        return 0
    same = " AND ".join(f"t.{names.quote(k)} <=> s.{names.quote(k)}" for k in key)
    text = f"MERGE INTO {name} t USING {{rows}} s ON {same} WHEN MATCHED THEN DELETE"
    spark.sql(text, rows=mine.select(*[column(k) for k in key]).distinct())
    return count
