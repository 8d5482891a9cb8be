"""`silver._schema_drift`: every change of a source's columns, and what was done about it.

A batch's changes are looked at before anything of it is written, so that a change which the table
refuses leaves no trace but its entry. An entry is written once, however often a batch is taken
again.
"""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime, timezone
from typing import Any

from pyspark.sql import DataFrame, SparkSession, Window
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import SchemaChangeRefused
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.writing import append
from silver.decode.columns import Shape
from silver.state.drift import Drift, declares, drifts, normal_type
from silver.state.fingerprint import SOURCE_COLUMNS, Built, source_columns
from silver.storage import layout
from silver.storage.side_columns import DRIFT_COLUMNS

DRIFT = "_schema_drift"
INCOMPATIBLE = "incompatible_schema"
_COLUMN = r"^column (.*?): found "
_SAME = ("kind", "column", "to_type", "action")


def follow(
    spark: SparkSession,
    target: Target,
    table: Table,
    shapes: Sequence[Shape],
    before: Built,
    run_id: str,
) -> None:
    """Records how a batch changes the source's columns, and learns them as they are after it.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration.
        shapes: what the batch's records announce, in order of arrival.
        before: what the table was built with, which gets the source's columns.
        run_id: the run.

    Raises:
        SchemaChangeRefused: some change is of a kind that the table's `schema_changes` fail.
    """
    held = {f.name: f.dataType.simpleString() for f in layout.learned(spark, target, table)}
    declared = {n: normal_type(c.type) for n, c in table.columns.items() if declares(table, n)}
    columns = source_columns(before.known)
    found, after = drifts(shapes, columns, declared | held, table)
    placed = [(drift, drift.shape.first_position or None) for drift in found]
    _record(spark, target, table, placed, run_id)
    refused = [drift for drift in found if drift.action == "failed"]
    if refused:
        kinds = sorted({drift.kind for drift in refused})
        raise SchemaChangeRefused(table.table, [drift.said for drift in refused], kinds)
    if after and after != columns:
        before.learn({SOURCE_COLUMNS: json.dumps(dict(after))})


def refuse_misfits(table: Table, changes: DataFrame) -> None:
    """Decodes a batch before it is written, where the table fails incompatible changes.

    Raises:
        SchemaChangeRefused: some value of the batch is of an incompatible kind.
    """
    if table.schema_changes.incompatible != "fail":
        return
    rows = changes.where(F.col("_reason") == INCOMPATIBLE).select("_message", "_position").limit(3)
    said = [f"{row['_message']} in {row['_position']}" for row in rows.collect()]
    if said:
        raise SchemaChangeRefused(table.table, said, ["incompatible"])


def record_misfits(
    spark: SparkSession, target: Target, table: Table, rejected: DataFrame, run_id: str
) -> None:
    """Records the columns of which a part of the log has values of an incompatible kind."""
    held = {f.name: f.dataType.simpleString() for f in layout.learned(spark, target, table)}
    column = F.regexp_extract("_message", _COLUMN, 1).alias("column")
    found = rejected.where(F.col("_reason") == INCOMPATIBLE).groupBy(column)
    rows = found.agg(F.min_by("_position", "_arrival").alias("position")).collect()
    misfits = [
        (_misfit(row["column"], held.get(row["column"])), row["position"])
        for row in rows
        if row["column"]
    ]
    known = {row["column"] for row in _known(spark, target, table) if row["kind"] == "incompatible"}
    fresh = [(drift, position) for drift, position in misfits if drift.column not in known]
    _record(spark, target, table, fresh, run_id)


def _misfit(column: str, held: str | None) -> Drift:
    return Drift("incompatible", column, held, None, "dead_letter", Shape({}))


def ensure(spark: SparkSession, target: Target) -> str:
    """Creates the table when it is missing, before many write to it at once; its SQL name."""
    return layout.ensure(spark, target, DRIFT, [], DRIFT_COLUMNS)[0]


def _known(spark: SparkSession, target: Target, table: Table) -> list[dict[str, Any]]:
    """What is recorded of the table; of each column, which entries are the newest."""
    rows = spark.table(ensure(spark, target)).where(F.col("table") == table.table)
    # A handful of entries of one table, not changes.
    newest = F.col("at") == F.max("at").over(Window.partitionBy("column"))
    return [row.asDict() for row in rows.select(*_SAME, newest.alias("newest")).collect()]


def _record(
    spark: SparkSession,
    target: Target,
    table: Table,
    found: Iterable[tuple[Drift, str | None]],
    run_id: str,
) -> None:
    """Records changes but those that are a column's newest: a batch that is taken again.

    The type that such a batch finds in the table may be the one that it brought.
    """
    changes = [(drift, {n: getattr(drift, n) for n in _SAME}, place) for drift, place in found]
    known = [row for row in _known(spark, target, table) if row.pop("newest")] if changes else []
    own = {"table": table.table, "run_id": run_id, "at": datetime.now(timezone.utc)}
    rows = [
        own | same | {"from_type": drift.from_type, "position": place}
        for drift, same, place in changes
        if same not in known
    ]
    if rows:
        schema = ", ".join(f"`{c.name}` {c.type}" for c in DRIFT_COLUMNS)
        append(spark, target, "silver", DRIFT, local_rows(spark, rows, schema))
