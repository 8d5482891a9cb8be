"""Older versions of a Delta table: which can still be read, and which show the same rows.

Delta refuses a version whose commit is older than the table's `delta.deletedFileRetentionDuration`
(7 days unless set), even where all its files are there, unless it is the newest. So what is shown
for long moves on to the newest version with the same rows, and is made young before a write.
"""

import re
from datetime import datetime, timedelta, timezone
from typing import NamedTuple

from pyspark.sql import Row, SparkSession
from pyspark.sql import functions as F

from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage.names import literal
from lakehouse.storage.upkeep import RETAINED_HOURS, set_sql

REFUSED = "DELTA_UNSUPPORTED_TIME_TRAVEL_BEYOND_DELETED_FILE_RETENTION_DURATION"
SAME_ROWS = re.compile(r"OPTIMIZE|REORG|VACUUM|CLUSTER|COMPUTE|(UN)?SET TBLPROPERTIES")
"""The operations of commits that change no row, as Delta's history names them."""
RETAINED = timedelta(hours=RETAINED_HOURS)
YOUNG = RETAINED / 2
"""A version that is shown while others are written is no older than this."""
_RENEWED = "lakehouse.renewed"


class Past(NamedTuple):
    """A version of a table as it can be read today.

    Attributes:
        version: the newest version with the same rows.
        newest: the table's newest version.
        time: when the newest version was committed.
        readable: whether `version` can be read, and its files are kept.
    """

    version: int
    newest: int
    time: datetime
    readable: bool

    @property
    def is_renewable(self) -> bool:
        """Whether the newest version shows the same rows, but is so old that a write ends that."""
        return self.version == self.newest and datetime.now(timezone.utc) - self.time > YOUNG


def look_back(spark: SparkSession, table: str, version: int) -> Past:
    """What is left of a version of a table, by the table's SQL name."""
    (last,) = _read_history(spark, table, 1)
    newest, made_at = int(last["version"]), _in_utc(last["timestamp"])
    if newest <= version:
        return Past(newest, newest, made_at, True)
    commits = {row["version"]: row for row in _read_history(spark, table, newest - version)}
    alike = version
    while alike < newest and _changes_no_row(commits.get(alike + 1)):
        alike += 1
    readable = alike == newest or _is_kept(spark, table, alike, commits.get(alike + 1))
    return Past(alike, newest, made_at, readable)


def at_time_sql(spark: SparkSession, table: str, moment: str, version: int | None = None) -> str:
    """The clause that shows a table as it was at a moment (UTC as SQL writes it), or at a version.

    Of versions with the same rows it names the newest, which Delta reads for longest.
    """
    if version is None:
        commits = spark.sql(f"DESCRIBE HISTORY {table}")
        by_then = commits.where(f"timestamp <= TIMESTAMP {literal(moment)}")
        version = by_then.agg(F.max("version")).collect()[0][0]
    if version is None:
        return f"TIMESTAMP AS OF {literal(moment)}"
    return f"VERSION AS OF {look_back(spark, table, version).version}"


def renew(spark: SparkSession, table: str) -> None:
    """Commits a new version with the same rows, which can be read for days whatever is written."""
    spark.sql(set_sql(table, {_RENEWED: datetime.now(timezone.utc).isoformat()}))


def _read_history(spark: SparkSession, table: str, commits: int) -> list[Row]:
    return spark.sql(f"DESCRIBE HISTORY {table} LIMIT {commits}").collect()


def _changes_no_row(commit: Row | None) -> bool:
    return commit is not None and SAME_ROWS.match(commit["operation"]) is not None


def _is_kept(spark: SparkSession, table: str, version: int, later: Row | None) -> bool:
    """Whether VACUUM keeps the files of a version, and Delta reads it; `later` replaced it."""
    if later is None or datetime.now(timezone.utc) - _in_utc(later["timestamp"]) > RETAINED:
        return False
    try:
        _ = spark.sql(f"SELECT * FROM {table} VERSION AS OF {version}").schema
    except SPARK_FAILURES:
        return False
    return True


def _in_utc(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)
