"""When a Delta table's files want work, and what: compaction, clustering, VACUUM.

Decisions are pure functions of what Delta tells of a table; only `facts`, `unused` and `carry_out`
ask Spark. Thresholds stand here, each with its reason.
"""

import math
from collections.abc import Iterable, Mapping
from datetime import datetime, timezone
from typing import Any, NamedTuple

from pyspark.sql import SparkSession

MOST_VECTORS = 50
"""Files with a deletion vector in a partition, beyond which a table is compacted at once."""
MUCH_HIDDEN = 0.2
"""Or where so many of a table's files have one: reading each of them takes a third longer."""
MOST_SMALL_FILES = 20
SMALL = 32 * 1024 * 1024
"""More files than that, smaller than that on average: every read pays for opening them."""
CLUSTERED_FROM = 2 * 1024 * 1024 * 1024
"""Below it a table compacts into a file or two, and their order saves no reader anything."""
RETAINED_HOURS = 168
"""Files are kept this long after a commit has replaced them, whatever reads them meanwhile."""
COMMITS = 1000
_RESETS = ("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT", "TRUNCATE")


class FileFacts(NamedTuple):
    """A table's files as of now; `commits` are times by version, the newest `COMMITS` of them."""

    files: int
    size: int
    vectors: int
    commits: dict[int, datetime]


class Step(NamedTuple):
    """One statement for a table, and why it is due."""

    action: str
    sql: str
    reason: str


def facts(spark: SparkSession, table: str) -> FileFacts:
    """What Delta tells of a table by its SQL name."""
    detail = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]
    history = spark.sql(f"DESCRIBE HISTORY {table} LIMIT {COMMITS}").collect()
    counted = deletion_vectors([row.asDict() for row in history])
    vectors = min(counted, detail["numFiles"])
    commits = {row["version"]: row["timestamp"] for row in history}
    return FileFacts(detail["numFiles"], detail["sizeInBytes"], vectors, commits)


def deletion_vectors(history: Iterable[Mapping[str, Any]]) -> int:
    """Deletion vectors in force, summed from the metrics of commits, newest first."""
    total = 0
    for commit in history:
        metrics = commit["operationMetrics"] or {}
        for name, count in metrics.items():
            if name.endswith("DeletionVectorsAdded"):
                total += int(count)
            elif name.endswith("DeletionVectorsRemoved"):
                total -= int(count)
        if _replaces(commit):
            break
    return max(0, total)


def compaction(table: str, known: FileFacts, cluster_by: str | None = None) -> Step | None:
    """The rewrite that is due, if any; ordered by a column where the table is large enough."""
    hidden = _much_hidden(known)
    if hidden is not None:
        return Step("compact", f"REORG TABLE {table} APPLY (PURGE)", hidden)
    average = known.size / known.files if known.files else 0
    if known.files <= MOST_SMALL_FILES or average >= SMALL:
        return None
    reason = f"{known.files} files of {_size(average)} on average, more than {MOST_SMALL_FILES}"
    if cluster_by is not None and known.size >= CLUSTERED_FROM:
        return Step("cluster", f"OPTIMIZE {table} ZORDER BY ({cluster_by})", reason)
    return Step("compact", f"OPTIMIZE {table}", reason)


def _much_hidden(known: FileFacts) -> str | None:
    """Why deletion vectors hide so much of a table that it is written anew without them."""
    if known.vectors > MOST_VECTORS:
        return f"{known.vectors} deletion vectors, more than {MOST_VECTORS}"
    if known.vectors and known.vectors >= MUCH_HIDDEN * known.files:
        return f"{known.vectors} of {known.files} files have a deletion vector, a fifth or more"
    return None


def hours_kept(known: FileFacts, pinned: Iterable[int], now: datetime) -> int | None:
    """How long replaced files stay, so that every pinned version can be read.

    A version needs what later commits have replaced: all since the commit after it. None when that
    commit is too long ago to be told.
    """
    hours = RETAINED_HOURS
    for version in pinned:
        if version >= max(known.commits, default=version):
            continue
        after = known.commits.get(version + 1)
        if after is None:
            return None
        age = now - _aware(after)
        hours = max(hours, math.ceil(age.total_seconds() / 3600) + 24)
    return hours


def unused(spark: SparkSession, table: str, hours: int) -> int:
    """How many files VACUUM would delete; Delta lists a thousand at most."""
    listed = spark.sql(f"VACUUM {table} RETAIN {hours} HOURS DRY RUN").collect()
    return sum(row["path"].endswith((".parquet", ".bin")) for row in listed)


def vacuum(table: str, files: int, hours: int) -> Step | None:
    """The VACUUM that is due, if any file is unused."""
    if not files:
        return None
    many = "1000 or more" if files >= COMMITS else str(files)
    reason = f"{many} files that no version of the last {hours} hours needs"
    return Step("vacuum", f"VACUUM {table} RETAIN {hours} HOURS", reason)


def carry_out(spark: SparkSession, step: Step) -> None:
    """Runs the step's statement."""
    spark.sql(step.sql).collect()


def forget_the_past(spark: SparkSession, table: str) -> None:
    """Rewrites what deletion vectors hide and deletes every file but those of the newest version.

    Earlier versions cannot be read afterwards. The time that replaced files are kept is set to zero
    on the table itself meanwhile, so no check is switched off anywhere.
    """
    spark.sql(f"REORG TABLE {table} APPLY (PURGE)").collect()
    kept = "'delta.deletedFileRetentionDuration'"
    spark.sql(f"ALTER TABLE {table} SET TBLPROPERTIES ({kept} = 'interval 0 seconds')")
    try:
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()
    finally:
        spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({kept})")


def _replaces(commit: Mapping[str, Any]) -> bool:
    mode = (commit.get("operationParameters") or {}).get("mode")
    overwrites = commit["operation"] == "WRITE" and mode == "Overwrite"
    return overwrites or commit["operation"] in _RESETS


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def _size(size: float) -> str:
    return f"{size / 1024 / 1024:.1f} MiB" if size >= 1024 * 1024 else f"{size / 1024:.0f} KiB"
