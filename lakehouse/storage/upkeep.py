"""Plans the maintenance of a Delta table's files: compaction, clustering, VACUUM.

Plans are pure functions of Delta's metadata of a table; Spark is only used to read it
(`read_facts`, `count_unused_files`) and by `carry_out`. Each threshold has its reason.
"""

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from types import MappingProxyType
from typing import Any, NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.places.place import to_place
from lakehouse.storage.delta_log import forget_old_log
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import folder_of, literal, render_clustering, render_properties
from lakehouse.storage.statements import apply_settings

MOST_VECTORS = 50
"""A table with more files with a deletion vector than this is compacted."""
MUCH_HIDDEN = 0.2
"""Also if this share of its files has one: reading such a file takes a third longer."""
MOST_SMALL_FILES = 20
SMALL = 32 * 1024 * 1024
"""More files than that, smaller than that on average, slow down every read."""
SORTED_FROM = 2 * 1024 * 1024 * 1024
"""A smaller table is compacted into a file or two, whose order does not help readers."""
SMALLEST, FILES = 16 * 1024 * 1024, 64
"""Least size and number of files of a clustered table: a filter that matches one file reads so much
less. A table smaller than two such files is not clustered."""
_JOINING = {
    "spark.databricks.delta.optimize.minFileSize": str(SMALLEST),
    "spark.databricks.delta.optimize.maxDeletedRowsRatio": "1.0",
}
MUCH_NEW = 0.2
"""A table is clustered again if this share of it was written since the last time."""
STATISTICS = "delta.dataSkippingStatsColumns"
RETAINED_HOURS = 168
"""Hours for which Delta keeps replaced files and reads old versions, unless set otherwise."""
COMMITS = 1000
_MEANWHILE = {
    "delta.deletedFileRetentionDuration": "interval 0 seconds",
    "delta.checkpointInterval": "1",
}
"""Properties by which replaced files can be deleted, and every commit writes a checkpoint."""
_BYTES_WRITTEN = ("numTargetBytesAdded", "numOutputBytes")
_RESETS = ("CREATE OR REPLACE TABLE AS SELECT", "REPLACE TABLE AS SELECT", "TRUNCATE")


class Layout(NamedTuple):
    """The wanted layout of a table's files: clustered by columns, sorted by one, with statistics.

    `statistics` are the columns with statistics in Delta's log; None changes nothing.
    """

    cluster_by: Sequence[str] = ()
    sorted_by: str | None = None
    statistics: str | None = None


NO_LAYOUT = Layout()


class FileFacts(NamedTuple):
    """A table's current files.

    `layout` is the table's current setting; `unordered` are the bytes written since the files were
    last clustered like this, None if they never were.
    """

    files: int
    size: int
    vectors: int
    layout: Layout = NO_LAYOUT
    unordered: int | None = None


class Step(NamedTuple):
    """A statement for a table, and why it is due; `settings` are the session's during it.

    `action` is settle (change a setting of the table), compact, cluster or vacuum.
    """

    action: str
    sql: str
    reason: str
    settings: Mapping[str, str] = MappingProxyType({})


def read_facts(spark: SparkSession, table: str) -> FileFacts:
    """Delta's metadata of a table by its SQL name."""
    detail = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0]
    history = spark.sql(f"DESCRIBE HISTORY {table} LIMIT {COMMITS}").collect()
    entries = [row.asDict() for row in history]
    vectors = min(deletion_vectors(entries), detail["numFiles"])
    clustered = _unquote_names(detail.asDict().get("clusteringColumns") or ())
    layout = Layout(clustered, statistics=detail["properties"].get(STATISTICS))
    sizes = (detail["numFiles"], detail["sizeInBytes"], vectors)
    return FileFacts(*sizes, layout, count_unordered(entries, clustered))


def count_unordered(history: Iterable[Mapping[str, Any]], clustered: Sequence[str]) -> int | None:
    """The bytes written since the table was clustered by these columns; `history`: newest first."""
    total = 0
    for commit in history:
        given, metrics = commit["operationParameters"] or {}, commit["operationMetrics"] or {}
        by = json.loads(given.get("clusterBy") or "[]")
        if commit["operation"] == "OPTIMIZE" and _unquote_names(by) == [*clustered]:
            return total
        total += sum(int(metrics.get(name, 0)) for name in _BYTES_WRITTEN)
    return None


def _unquote_names(columns: Iterable[str]) -> list[str]:
    """The columns' names without Delta's backquotes around unusual ones."""
    return [c[1:-1].replace("``", "`") if c.startswith("`") else c for c in columns]


def deletion_vectors(history: Iterable[Mapping[str, Any]]) -> int:
    """The current number of deletion vectors, by the metrics of commits, newest first."""
    total = 0
    for commit in history:
        metrics = commit["operationMetrics"] or {}
        for name, count in metrics.items():
            if name.endswith("DeletionVectorsAdded"):
                total += int(count)
            elif name.endswith("DeletionVectorsRemoved"):
                total -= int(count)
        if _is_replacing(commit):
            break
    return max(0, total)


def plan_layout(table: str, facts: FileFacts, wanted: Layout) -> Iterator[Step]:
    """The due changes of a table's settings; Delta needs statistics of the clustering columns."""
    clusters, before = [*wanted.cluster_by], [*facts.layout.cluster_by]
    if before and clusters != before:
        reason = f"was by {', '.join(before)}"
        yield Step("settle", f"ALTER TABLE {table} CLUSTER BY NONE", reason)
    if wanted.statistics not in (None, facts.layout.statistics):
        text = set_sql(table, {STATISTICS: str(wanted.statistics)})
        yield Step("settle", text, f"statistics of {wanted.statistics}")
    if clusters and clusters != before:
        reason = f"cluster_by is {', '.join(clusters)}"
        yield Step("settle", cluster_sql(table, clusters), reason)


def set_sql(table: str, given: Mapping[str, str]) -> str:
    """The ALTER TABLE statement that sets properties."""
    return f"ALTER TABLE {table} SET TBLPROPERTIES {render_properties(given)}"


def cluster_sql(table: str, columns: Sequence[str]) -> str:
    """The ALTER TABLE statement that sets clustering columns, used from the next OPTIMIZE on."""
    return f"ALTER TABLE {table}{render_clustering(columns)}"


def plan_rewrite(table: str, facts: FileFacts, wanted: Layout = NO_LAYOUT) -> Iterator[Step]:
    """The steps of the rewrite that is due, if any.

    REORG skips files that Delta has clustered, so clustering is switched off during it; if that is
    interrupted, `plan_layout` switches it on again.
    """
    due = plan_compaction(table, facts, wanted)
    if due is None:
        return
    clustered = facts.layout.cluster_by if due.sql.startswith("REORG") else ()
    if clustered:
        yield Step("settle", f"ALTER TABLE {table} CLUSTER BY NONE", "to purge clustered files")
    yield due
    if clustered:
        yield Step("settle", cluster_sql(table, clustered), "it was clustered so")


def plan_compaction(table: str, facts: FileFacts, wanted: Layout = NO_LAYOUT) -> Step | None:
    """The rewrite that is due, if any; sorted if that is wanted and the table is large enough."""
    if wanted.cluster_by and facts.size >= 2 * SMALLEST:
        clusters = _plan_clustering(table, facts, wanted)
        if clusters is not None:
            return clusters
    hidden = _much_hidden(facts)
    if hidden is not None:
        return Step("compact", f"REORG TABLE {table} APPLY (PURGE)", hidden)
    average = facts.size / facts.files if facts.files else 0
    small = _file_size(facts) / 4 if wanted.cluster_by else SMALL
    if facts.files <= MOST_SMALL_FILES or average >= small:
        return None
    mib = average / 1024 / 1024
    size = f"{mib:.1f} MiB" if mib >= 1 else f"{average / 1024:.0f} KiB"
    reason = f"{facts.files} files of {size} on average, more than {MOST_SMALL_FILES}"
    if wanted.cluster_by:
        return Step("cluster", f"OPTIMIZE {table}", reason, _clustering_settings(facts))
    if wanted.sorted_by is not None and facts.size >= SORTED_FROM:
        return Step("cluster", f"OPTIMIZE {table} ZORDER BY ({wanted.sorted_by})", reason)
    return Step("compact", f"OPTIMIZE {table}", reason)


def _plan_clustering(table: str, facts: FileFacts, wanted: Layout) -> Step | None:
    """The clustering that is due: first of all rows, later of new ones."""
    if facts.unordered is None or [*wanted.cluster_by] != [*facts.layout.cluster_by]:
        reason = f"its files are not ordered by {', '.join(wanted.cluster_by)}"
        return Step("cluster", f"OPTIMIZE {table} FULL", reason, _clustering_settings(facts))
    share = facts.unordered / facts.size
    if share < MUCH_NEW:
        return None
    reason = f"{share:.0%} of it was written since it was clustered, a fifth or more"
    return Step("cluster", f"OPTIMIZE {table}", reason, _clustering_settings(facts))


def _clustering_settings(facts: FileFacts) -> dict[str, str]:
    """Spark's settings for the file size of a clustered table, and for sorting within files."""
    return {
        "spark.databricks.delta.optimize.maxFileSize": str(_file_size(facts)),
        "spark.databricks.io.skipping.mdc.sortWithinFiles": "true",
    }


def _file_size(facts: FileFacts) -> int:
    return max(SMALLEST, facts.size // FILES)


def _much_hidden(facts: FileFacts) -> str | None:
    """Why a table with deletion vectors is to be rewritten without them; None if it is not."""
    if facts.vectors > MOST_VECTORS:
        return f"{facts.vectors} deletion vectors, more than {MOST_VECTORS}"
    if facts.vectors and facts.vectors >= MUCH_HIDDEN * facts.files:
        return f"{facts.vectors} of {facts.files} files have a deletion vector, a fifth or more"
    return None


def count_unused_files(spark: SparkSession, table: str) -> int:
    """How many files VACUUM would delete; Delta lists at most 1,000."""
    listed = spark.sql(f"VACUUM {table} DRY RUN").collect()
    return sum(row["path"].endswith((".parquet", ".bin")) for row in listed)


def plan_vacuum(table: str, files: int) -> Step | None:
    """The VACUUM that is due, if any file is unused."""
    if not files:
        return None
    many = "1000 or more" if files >= COMMITS else str(files)
    reason = f"{many} files that no version of the table's retention (7 days unless set) needs"
    return Step("vacuum", f"VACUUM {table}", reason)


def join_small_files(spark: SparkSession, table: str) -> None:
    """Joins the files that are smaller than `SMALLEST`; deletion vectors of larger ones stay.

    Delta's auto compaction is not used: at the first commit of every process it joins all files
    below 64 MiB.
    """
    with apply_settings(spark, _JOINING):
        spark.sql(f"OPTIMIZE {table}").collect()


def carry_out(spark: SparkSession, step: Step) -> None:
    """Runs the step's statement."""
    with apply_settings(spark, step.settings):
        spark.sql(step.sql).collect()


def forget_the_past(lake: Lake, table: str, with_log: bool = True) -> None:
    """Removes hidden rows, and all files and log entries but those of the newest version.

    Earlier versions cannot be read afterwards. The table's retention time is set to zero meanwhile;
    no check of Delta is switched off. Log entries have minimum and maximum values of removed files:
    without a catalog those before the newest checkpoint are deleted too, if `with_log`. In a
    catalog they expire by themselves.
    """
    _purge_hidden_rows(lake.spark, table)
    shown = lake.spark.sql(f"SHOW TBLPROPERTIES {table}").where(F.col("key").isin([*_MEANWHILE]))
    before = {row["key"]: row["value"] for row in shown.collect()}
    folder = folder_of(table)
    lake.spark.sql(set_sql(table, _MEANWHILE))
    try:
        lake.spark.sql(f"VACUUM {table} RETAIN 0 HOURS").collect()
        if with_log and folder is not None:
            forget_old_log(to_place(lake.target, folder))
    finally:
        gone = ", ".join(literal(key) for key in _MEANWHILE if key not in before)
        if gone:
            lake.spark.sql(f"ALTER TABLE {table} UNSET TBLPROPERTIES IF EXISTS ({gone})")
        if before:
            lake.spark.sql(set_sql(table, before))


def _purge_hidden_rows(spark: SparkSession, table: str) -> None:
    """Rewrites files with hidden rows; without clustering meanwhile, as REORG skips such files."""
    detail = spark.sql(f"DESCRIBE DETAIL {table}").collect()[0].asDict()
    clustered = _unquote_names(detail.get("clusteringColumns") or ())
    if clustered:
        spark.sql(f"ALTER TABLE {table} CLUSTER BY NONE")
    try:
        spark.sql(f"REORG TABLE {table} APPLY (PURGE)").collect()
    finally:
        if clustered:
            spark.sql(cluster_sql(table, clustered))


def _is_replacing(commit: Mapping[str, Any]) -> bool:
    mode = (commit.get("operationParameters") or {}).get("mode")
    overwrites = commit["operation"] == "WRITE" and mode == "Overwrite"
    return overwrites or commit["operation"] in _RESETS
