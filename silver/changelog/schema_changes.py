"""Every change of a source's columns, and what was done about it; the table's state keeps them.

The changes of a batch are checked before anything of it is written, so that a change which the
table refuses leaves its entry only. An entry is made once, however often a batch is decoded again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone
from typing import TypeAlias

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.errors import SchemaChangeRefused
from silver.decode.columns import Shape
from silver.state.drift import ColumnDrift, declares_type, find_drifts, normal_type
from silver.state.fingerprint import SOURCE_COLUMNS, source_columns
from silver.state.table_state import SchemaChange, TableState
from silver.storage import layout

INCOMPATIBLE = "incompatible_schema"
_COLUMN = r"^column (.*?): found "

Noticed: TypeAlias = tuple[ColumnDrift, str | None]
"""A change of a column, and the position of the first record that shows it."""


def find_changes(
    table: Table, shapes: Sequence[Shape], held: Mapping[str, str], state: TableState
) -> tuple[list[Noticed], dict[str, str]]:
    """How a batch changes the source's columns.

    Args:
        table: the table's configuration.
        shapes: what the batch's records announce, in order of arrival.
        held: the business columns of the change log with their types.
        state: the table's state.

    Returns:
        The changes, each with the position of the record that shows it; and what the table's
        fingerprint gets of the source's columns.
    """
    declared = {n: normal_type(c.type) for n, c in table.columns.items() if declares_type(table, n)}
    columns = source_columns(state.built)
    drifts, after = find_drifts(shapes, columns, declared | dict(held), table)
    changed = bool(after) and after != columns
    learned = {SOURCE_COLUMNS: json.dumps(dict(after))} if changed else {}
    return [(drift, drift.shape.first_position or None) for drift in drifts], learned


def refuse_changes(table: Table, noticed: Iterable[Noticed]) -> None:
    """Fails a batch that changes the columns in a way which the table does not allow.

    Raises:
        SchemaChangeRefused: some change is of a kind that the table's `schema_changes` fail.
    """
    refused = [drift for drift, _ in noticed if drift.action == "failed"]
    if refused:
        kinds = sorted({drift.kind for drift in refused})
        raise SchemaChangeRefused(table.table, [drift.phrase for drift in refused], kinds)


def record_changes(state: TableState, noticed: Iterable[Noticed], run_id: str) -> TableState:
    """The state with the changes that a batch has shown.

    A change that is the newest one of its column is recorded already: the batch is decoded again,
    and the type that it finds in the table may be the one that it brought.
    """
    newest = {change.column: change.identity for change in state.schema_changes}
    at = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    fresh = []
    for drift, position in noticed:
        types = drift.from_type, drift.to_type
        change = SchemaChange(at, run_id, drift.kind, drift.column, *types, drift.action, position)
        if newest.get(drift.column) != change.identity:
            fresh.append(change)
    return state.replace(schema_changes=[*state.schema_changes, *fresh]) if fresh else state


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


def find_misfits(rejected: DataFrame, state: TableState) -> list[Noticed]:
    """The columns that have values of an incompatible type in a part of the log, each once."""
    types = {f.name: f.dataType.simpleString() for f in layout.list_source_fields(rejected.schema)}
    column = F.regexp_extract("_message", _COLUMN, 1).alias("column")
    misfits = rejected.where(F.col("_reason") == INCOMPATIBLE).groupBy(column)
    rows = misfits.agg(F.min_by("_position", "_arrival").alias("position")).collect()
    recorded = {change.column for change in state.schema_changes if change.kind == "incompatible"}
    fresh = [row for row in rows if row["column"] and row["column"] not in recorded]
    return [
        (_build_misfit(row["column"], types.get(row["column"])), row["position"]) for row in fresh
    ]


def _build_misfit(column: str, held: str | None) -> ColumnDrift:
    return ColumnDrift("incompatible", column, held, None, "dead_letter", Shape({}))
