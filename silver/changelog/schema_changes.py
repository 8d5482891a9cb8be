"""Finds, refuses and records changes of a source's columns; a table's state has an entry for each.

The changes of a batch are checked before anything of it is written, so that a change which the
table refuses leaves its entry only. An entry is made once, however often a batch is decoded again.
"""

import json
from collections.abc import Iterable, Mapping, Sequence
from datetime import datetime, timezone

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.errors import SchemaChangeRefused
from silver.decode.columns import Shape
from silver.state.drift import (
    ColumnDrift,
    KnownColumns,
    declares_type,
    find_drifts,
    normal_type,
)
from silver.state.fingerprint import (
    SOURCE_COLUMNS,
    SOURCE_SINCE,
    load_source_columns,
    load_source_since,
)
from silver.state.table_state import SchemaChange, TableState
from silver.storage import layout

INCOMPATIBLE = "incompatible_schema"
_COLUMN = r"^column (.*?): found "


def find_changes(
    table: Table, shapes: Sequence[Shape], held: Mapping[str, str], state: TableState
) -> tuple[list[ColumnDrift], dict[str, str]]:
    """How a batch changes the source's columns.

    Args:
        table: the table's configuration.
        shapes: what the batch's records announce, in order of arrival.
        held: the business columns of the change log with their types.
        state: the table's state.

    Returns:
        The changes, and entries for the table's fingerprint where the source's columns are new.
    """
    declared = {n: normal_type(c.type) for n, c in table.columns.items() if declares_type(table, n)}
    before = load_source_columns(state.built)
    columns = KnownColumns(before, load_source_since(state.built))
    drifts, after = find_drifts(shapes, columns, declared | dict(held), table)
    if not after.fields or after == columns:
        return drifts, {}
    since = {} if after.since is None else {SOURCE_SINCE: str(after.since)}
    return drifts, {SOURCE_COLUMNS: json.dumps(dict(after.fields))} | since


def refuse_changes(table: Table, drifts: Iterable[ColumnDrift]) -> None:
    """Fails a batch that changes the columns in a way which the table does not allow.

    Raises:
        SchemaChangeRefused: some change is of a kind that the table's `schema_changes` fail.
    """
    refused = [drift for drift in drifts if drift.action == "failed"]
    if refused:
        kinds = sorted({drift.kind for drift in refused})
        raise SchemaChangeRefused(table.table, [drift.phrase for drift in refused], kinds)


def record_changes(state: TableState, drifts: Iterable[ColumnDrift], run_id: str) -> TableState:
    """The state with the changes that a batch has shown.

    A change equal to the newest entry of its column was recorded when the batch was decoded before.
    Its `from_type` does not count: the table may have the new type since.
    """
    newest = {change.column: change.identity for change in state.schema_changes}
    at = datetime.now(timezone.utc).isoformat().replace("+00:00", "Z")
    changes = [SchemaChange(at, run_id, **drift._asdict()) for drift in drifts]
    fresh = [change for change in changes if newest.get(change.column) != change.identity]
    return state.replace(schema_changes=[*state.schema_changes, *fresh]) if fresh else state


def refuse_misfits(table: Table, changes: DataFrame) -> None:
    """Looks for incompatible values in a decoded batch, if `schema_changes` say that they fail.

    Raises:
        SchemaChangeRefused: some value of the batch is of an incompatible kind.
    """
    if table.schema_changes.incompatible != "fail":
        return
    rows = changes.where(F.col("_reason") == INCOMPATIBLE).select("_message", "_position").limit(3)
    misfits = [f"{row['_message']} in {row['_position']}" for row in rows.collect()]
    if misfits:
        raise SchemaChangeRefused(table.table, misfits, ["incompatible"])


def find_misfits(rejected: DataFrame, state: TableState) -> list[ColumnDrift]:
    """A change for each column that has a value of an incompatible type and no such entry yet."""
    types = {f.name: f.dataType.simpleString() for f in layout.list_source_fields(rejected.schema)}
    column = F.regexp_extract("_message", _COLUMN, 1).alias("column")
    misfits = rejected.where(F.col("_reason") == INCOMPATIBLE).groupBy(column)
    rows = misfits.agg(F.min_by("_position", "_arrival").alias("position")).collect()
    recorded = {change.column for change in state.schema_changes if change.kind == "incompatible"}
    return [
        ColumnDrift("incompatible", name, types.get(name), None, "dead_letter", position)
        for name, position in rows
        if name and name not in recorded
    ]
