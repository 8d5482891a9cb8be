"""`silver._schema_drift`: every change of a source's columns, and what was done about it.

A batch's changes are looked at before anything of it is written, so that a change which the table
refuses leaves no trace but its entry. An entry is written once, however often a batch is taken
again.
"""

import json
import re
from collections.abc import Collection, Iterable, Mapping, Sequence
from datetime import datetime, timezone

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.errors import SchemaChangeRefused
from lakehouse.local_rows import local_rows
from lakehouse.table import Table
from lakehouse.target import Target
from lakehouse.writing import append
from silver import built, debezium_schema, layout
from silver.built import SOURCE_COLUMNS, Remembered, source_columns
from silver.debezium_columns import normal
from silver.drift import Drift, declares, drifts
from silver.shapes import Shape, announced
from silver.side_columns import DRIFT_COLUMNS

DRIFT = "_schema_drift"
INCOMPATIBLE = "incompatible_schema"
_COLUMN = r"^column (.*?): found "
_SAME = ("kind", "column", "from_type", "to_type", "action", "position")


def follow(
    spark: SparkSession,
    target: Target,
    table: Table,
    raw: DataFrame,
    changes: DataFrame,
    remembered: Remembered,
    confirmed: Mapping[str, str],
    run_id: str,
) -> None:
    """Records how a batch changes the source's columns, and remembers them as they are after it.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration.
        raw: the batch's bronze rows.
        changes: the same rows decoded; nothing of them is written yet.
        remembered: what the table was built with, by aspect.
        confirmed: what else is to be remembered of it.
        run_id: the run.

    Raises:
        SchemaChangeRefused: some change is of a kind that the table's `schema_changes` fail.
    """
    held = {f.name: f.dataType.simpleString() for f in layout.learned(spark, target, table)}
    declared = {n: normal(c.type) for n, c in table.columns.items() if declares(table, n)}
    before = source_columns(remembered)
    found, after = drifts(announced(changes), before, declared | held, table)
    _record(spark, target, table, _placed(raw, changes, found), run_id)
    refused = [drift for drift in found if drift.action == "failed"]
    said, kinds = [drift.said for drift in refused], {drift.kind for drift in refused}
    if table.schema_changes.incompatible == "fail" and not refused:
        said = _misfits(changes)
        kinds = {"incompatible"} if said else set()
    if said:
        raise SchemaChangeRefused(table.table, said, sorted(kinds))
    news = {SOURCE_COLUMNS: json.dumps(dict(after))} if after and after != before else {}
    built.remember(spark, target, table, run_id, {**confirmed, **news})


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


def _misfits(changes: DataFrame) -> list[str]:
    """What the first values of an incompatible kind are, as phrases for a person."""
    rows = changes.where(F.col("_reason") == INCOMPATIBLE).select("_message", "_position").limit(3)
    return [f"{row['_message']} in {row['_position']}" for row in rows.collect()]


def _placed(
    raw: DataFrame, changes: DataFrame, found: Sequence[Drift]
) -> list[tuple[Drift, str | None]]:
    """Each change with the place of the first record that shows it; one query for all of a kind."""
    marks = {drift.shape.mark for drift in found} - {""}
    marked = debezium_schema.first_positions(raw, marks) if marks else {}
    named = _first_carried(changes, {drift.column for drift in found if not drift.shape.mark})
    return [(d, marked.get(d.shape.mark) if d.shape.mark else named[d.column]) for d in found]


def _first_carried(changes: DataFrame, columns: Collection[str]) -> dict[str, str | None]:
    """Where the first record lies that names each of some columns."""
    if not columns:
        return {}
    listed = sorted(columns)
    members = [re.escape(json.dumps(name, ensure_ascii=False)) + r"\s*:" for name in listed]
    arrivals = [F.when(F.col("_raw").rlike(member), F.col("_arrival")) for member in members]
    firsts = [F.min_by("_position", arrival).alias(f"p{n}") for n, arrival in enumerate(arrivals)]
    return dict(zip(listed, changes.agg(*firsts).collect()[0], strict=True))


def ensure(spark: SparkSession, target: Target) -> str:
    """Creates the table when it is missing, before many write to it at once; its SQL name."""
    return layout.ensure(spark, target, DRIFT, [], DRIFT_COLUMNS)[0]


def _known(spark: SparkSession, target: Target, table: Table) -> list[dict[str, str | None]]:
    rows = (
        spark.table(ensure(spark, target))
        .where(F.col("table") == table.table)
        .select(*_SAME)
        .collect()
    )
    return [row.asDict() for row in rows]


def _record(
    spark: SparkSession,
    target: Target,
    table: Table,
    found: Iterable[tuple[Drift, str | None]],
    run_id: str,
) -> None:
    entries = [_entry(drift, position) for drift, position in found]
    known = _known(spark, target, table) if entries else []
    own = {"table": table.table, "run_id": run_id, "at": datetime.now(timezone.utc)}
    rows = [own | entry for entry in entries if entry not in known]
    if rows:
        schema = ", ".join(f"`{c.name}` {c.type}" for c in DRIFT_COLUMNS)
        append(spark, target, "silver", DRIFT, local_rows(spark, rows, schema))


def _entry(drift: Drift, position: str | None) -> dict[str, str | None]:
    return {name: getattr(drift, name) for name in _SAME[:-1]} | {"position": position}
