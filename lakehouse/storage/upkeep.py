"""When a Delta table's files want work, and what: compaction, clustering, VACUUM.

Decisions are pure functions of what Delta tells of a table; only `facts`, `unused` and `carry_out`
ask Spark. Thresholds stand here, each with its reason.
"""

import json
import math
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import datetime, timezone
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.config.target import Target
from lakehouse.places.place import place
from lakehouse.storage.delta_log import forget_old_log
from lakehouse.storage.names import clustering, folder_of, literal, properties
from lakehouse.storage.statements import told_session

MOST_VECTORS = 50
"""Files with a deletion vector in a partition, beyond which a table is compacted at once."""
MUCH_HIDDEN = 0.2
"""Or where so many of a table's files have one: reading each of them takes a third longer."""
MOST_SMALL_FILES = 20
SMALL = 32 * 1024 * 1024
"""More files than that, smaller than that on average: every read pays for opening them."""
SORTED_FROM = 2 * 1024 * 1024 * 1024
"""Below it a table compacts into a file or two, and their order saves no reader anything."""
SMALLEST, FILES = 16 * 1024 * 1024, 64
"""A clustered table has about so many files, none smaller: a filter that finds one reads as much
less; it is left as it is below two of them."""
MUCH_NEW = 0.2
"""Where so much of a clustered table was written since it was clustered, that is done again."""
STATISTICS = "delta.dataSkippingStatsColumns"
RETAINED_HOURS = 168
"""Files are kept this long after a commit has replaced them, whatever reads them meanwhile."""
COMMITS = 1000
_MEANWHILE = {
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
    "delta.checkpointInterval": "1",
}
"""Replaced files are no longer known, and every commit is followed by a checkpoint."""
_BYTES_WRITTEN = ("numTargetBytesAdded", "numOutputBytes")
_RESETS = ("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT", "TRUNCATE")


class Layout(NamedTuple):
    """How a table's files are to be: clustered by columns, sorted by one, with statistics.

    `statistics` are the columns that Delta keeps statistics of; None leaves those as they are.
    """

    cluster_by: Sequence[str] = ()
    sorted_by: str | None = None
    statistics: str | None = None


NO_LAYOUT = Layout()


class FileFacts(NamedTuple):
    """A table's files as of now; `commits` are times by version, the newest `COMMITS` of them.

    `layout` is what the table is set to; `unordered` are the bytes written since its files were
    clustered so, None where they never were.
    """

    files: int
    size: int
    vectors: int
    commits: dict[int, datetime]
    layout: Layout = NO_LAYOUT
    unordered: int | None = None


class Step(NamedTuple):
    """One statement for a table, and why it is due; `settings` are the session's meanwhile."""

    action: str
    sql: str
    reason: str
    settings: Mapping[str, str] = MappingProxyType({})


def facts(spark: SparkSession, table: str) -> FileFacts:
    """What Delta tells of a table by its SQL name."""
    detail = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]
    history = spark.sql(f"DESCRIBE HISTORY {table} LIMIT {COMMITS}").collect()
    told = [row.asDict() for row in history]
    vectors = min(deletion_vectors(told), detail["numFiles"])
    commits = {row["version"]: row["timestamp"] for row in history}
    clustered = _plain(detail.asDict().get("clusteringColumns") or ())
    layout = Layout(clustered, statistics=detail["properties"].get(STATISTICS))
    sizes = (detail["numFiles"], detail["sizeInBytes"], vectors)
    return FileFacts(*sizes, commits, layout, unordered(told, clustered))


def unordered(history: Iterable[Mapping[str, Any]], clustered: Sequence[str]) -> int | None:
    """The bytes that commits, newest first, have written since the table was clustered so."""
    total = 0
    for commit in history:
        given, metrics = commit["operationParameters"] or {}, commit["operationMetrics"] or {}
        by = json.loads(given.get("clusterBy") or "[]")
        if commit["operation"] == "OPTIMIZE" and _plain(by) == [*clustered]:
            return total
        total += sum(int(metrics.get(name, 0)) for name in _BYTES_WRITTEN)
    return None


def _plain(columns: Iterable[str]) -> list[str]:
    """The columns' names without the quotes that Delta puts around odd ones."""
    return [c[1:-1].replace("``", "`") if c.startswith("`") else c for c in columns]


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


def laying(table: str, known: FileFacts, wanted: Layout) -> Iterator[Step]:
    """The changes of a table's settings that are due. Delta clusters by columns with statistics."""
    clusters, before = [*wanted.cluster_by], [*known.layout.cluster_by]
    if before and clusters != before:
        yield Step("settle", f"ALTER TABLE {table} CLUSTER BY NONE", f"was by {_told(before)}")
    if wanted.statistics not in (None, known.layout.statistics):
        text = set_sql(table, {STATISTICS: str(wanted.statistics)})
        yield Step("settle", text, f"statistics of {wanted.statistics}")
    if clusters and clusters != before:
        yield Step("settle", cluster_sql(table, clusters), f"cluster_by is {_told(clusters)}")


def set_sql(table: str, given: Mapping[str, str]) -> str:
    """The ALTER TABLE text that sets properties."""
    return f"ALTER TABLE {table} SET TBLPROPERTIES {properties(given)}"


def cluster_sql(table: str, columns: Sequence[str]) -> str:
    """The ALTER TABLE text that has a table clustered by columns, from its next OPTIMIZE on."""
    return f"ALTER TABLE {table}{clustering(columns)}"


def rewriting(table: str, known: FileFacts, wanted: Layout = NO_LAYOUT) -> Iterator[Step]:
    """The rewrite that is due, if any.

    REORG leaves files that Delta has clustered as they are, so the table is clustered by nothing
    meanwhile; where that is broken off, `laying` has it clustered again.
    """
    due = compaction(table, known, wanted)
    if due is None:
        return
    clustered = known.layout.cluster_by if due.sql.startswith("REORG") else ()
    if clustered:
        yield Step("settle", f"ALTER TABLE {table} CLUSTER BY NONE", "to purge clustered files")
    yield due
    if clustered:
        yield Step("settle", cluster_sql(table, clustered), "it was clustered so")


def compaction(table: str, known: FileFacts, wanted: Layout = NO_LAYOUT) -> Step | None:
    """The rewrite that is due, if any; ordered where that is wanted and the table large enough."""
    if wanted.cluster_by and known.size >= 2 * SMALLEST:
        clusters = _clustering(table, known, wanted)
        if clusters is not None:
            return clusters
    hidden = _much_hidden(known)
    if hidden is not None:
        return Step("compact", f"REORG TABLE {table} APPLY (PURGE)", hidden)
    average = known.size / known.files if known.files else 0
    small = _file_size(known) / 4 if wanted.cluster_by else SMALL
    if known.files <= MOST_SMALL_FILES or average >= small:
        return None
    reason = f"{known.files} files of {_size(average)} on average, more than {MOST_SMALL_FILES}"
    if wanted.cluster_by:
        return Step("cluster", f"OPTIMIZE {table}", reason, _settings(known))
    if wanted.sorted_by is not None and known.size >= SORTED_FROM:
        return Step("cluster", f"OPTIMIZE {table} ZORDER BY ({wanted.sorted_by})", reason)
    return Step("compact", f"OPTIMIZE {table}", reason)


def _clustering(table: str, known: FileFacts, wanted: Layout) -> Step | None:
    """The clustering that is due: of all rows the first time, later of what came since."""
    if known.unordered is None or [*wanted.cluster_by] != [*known.layout.cluster_by]:
        reason = f"its files are not ordered by {_told(wanted.cluster_by)}"
        return Step("cluster", f"OPTIMIZE {table} FULL", reason, _settings(known))
    share = known.unordered / known.size
    if share < MUCH_NEW:
        return None
    reason = f"{share:.0%} of it was written since it was clustered, a fifth or more"
    return Step("cluster", f"OPTIMIZE {table}", reason, _settings(known))


def _settings(known: FileFacts) -> dict[str, str]:
    """How large Delta makes the files of a clustered table, and that it sorts within them."""
    return {
        "spark.databricks.delta.optimize.maxFileSize": str(_file_size(known)),
        "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    }


def _file_size(known: FileFacts) -> int:
    return max(SMALLEST, known.size // FILES)


def _told(columns: Sequence[str]) -> str:
    return ", ".join(columns)


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
    with told_session(spark, step.settings):
        spark.sql(step.sql).collect()


def forget_the_past(spark: SparkSession, target: Target, table: str, with_log: bool = True) -> None:
    """Rewrites what deletion vectors hide; deletes all but the files and log of the newest version.

    Earlier versions cannot be read afterwards. The time that replaced files are kept is set to zero
    on the table itself meanwhile, so no check is switched off anywhere. Delta's log has the least
    and greatest values of files that are gone: its entries before the newest checkpoint go as well
    where no catalog keeps the table, unless the log is to stay (not `with_log`). Elsewhere
    they go by themselves, after their own time.
    """
    _purge(spark, table)
    shown = spark.sql(f"SHOW TBLPROPERTIES {table}").where(F.col("key").isin([*_MEANWHILE]))
    before = {row["key"]: row["value"] for row in shown.collect()}
    folder = folder_of(table)
    spark.sql(set_sql(table, _MEANWHILE))
    try:
        spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()
        if with_log and folder is not None:
            forget_old_log(place(target, folder))
    finally:
        gone = ", ".join(literal(key) for key in _MEANWHILE if key not in before)
        if gone:
            spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({gone})")
        if before:
            spark.sql(set_sql(table, before))


def _purge(spark: SparkSession, table: str) -> None:
    """Rewrites what deletion vectors hide; REORG leaves files that Delta has clustered as they are.

    So the table is clustered by nothing meanwhile.
    """
    detail = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].asDict()
    clustered = _plain(detail.get("clusteringColumns") or ())
    if clustered:
        spark.sql(f"ALTER TABLE {table} CLUSTER BY NONE")
    try:
        spark.sql(f"REORG TABLE {table} APPLY (PURGE)").collect()
    finally:
        if clustered:
            spark.sql(cluster_sql(table, clustered))


def _replaces(commit: Mapping[str, Any]) -> bool:
    mode = (commit.get("operationParameters") or {}).get("mode")
    overwrites = commit["operation"] == "WRITE" and mode == "Overwrite"
    return overwrites or commit["operation"] in _RESETS


def _aware(time: datetime) -> datetime:
    return time if time.tzinfo else time.replace(tzinfo=timezone.utc)


def _size(size: float) -> str:
    return f"{size / 1024 / 1024:.1f} MiB" if size >= 1024 * 1024 else f"{size / 1024:.0f} KiB"
