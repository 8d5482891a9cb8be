"""The second MERGE of a batch: the target follows the state."""

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_lakehouse.flows.sequences import value_sql
from cdc_lakehouse.flows.tables import FlowTable
from lakehouse.storage.names import agree_on, quote
from lakehouse.storage.statements import (
    execute_with_rows,
    note_commits,
    render_insert,
    render_update,
)
from silver.decode.types import parse_type
from silver.fold.order_key import sequence_sql
from silver.storage import layout
from silver.storage.row_columns import column

if TYPE_CHECKING:
    from cdc_lakehouse.flows.batch import FlowTarget

START, END = "__START_AT", "__END_AT"
_NOTE = "auto_cdc "


def publish_batch(into: "FlowTarget", sequence: T.DataType, newest: int) -> None:
    """Merges the batches of the state that are not yet published into the target.

    `newest` is the highest batch number of the state's rows; a batch without rows leaves its number
    to the next one. Commits to the target note this number. Where none of the target's newest
    commits has a note, all its rows are compared with the state.
    """
    state, target = into.state, into.target
    bounds = (START, END) if into.definition.keeps_history else ()
    kept = parse_type(sequence.simpleString())  # as Delta has it: every field may be null
    fields = [*state.fields, *(T.StructField(name, kept) for name in bounds)]
    if not target.exists:
        target.create(layout.columns_sql(fields, ()), "", {})
    elif not _add_missing_columns(target, fields):
        with note_commits(into.spark, f"{_NOTE}{newest}"):
            target.replace_rows(_build_wanted(into, state.table.read(), sequence), retyped=True)
        return
    since, compared = 1 + max(_read_published(target), default=0), True
    if state.cutoff_batch >= since or since == 1 < newest:
        rows = _with_gone(into, _build_wanted(into, state.table.read(), sequence), target.read())
    elif since > newest:
        return
    elif into.definition.keeps_history:
        rows = _build_touched(into, since, sequence)
    else:
        written = state.table.read().where(F.col("_batch") >= since)
        if compared := since < newest:
            written = state.select_counting(written)
        shown = [column(field.name) for field in fields]
        rows = written.select(*shown, F.col("_deleted").alias("_remove"))
    text = _target_sql(into, [field.name for field in fields], compared)
    with note_commits(into.spark, f"{_NOTE}{newest}"):
        execute_with_rows(into.spark, text, rows).collect()


def _build_touched(into: "FlowTarget", since: int, sequence: T.DataType) -> DataFrame:
    """The versions of the keys that batches from `since` on wrote, and those that are gone."""
    keys = [*map(column, into.definition.keys)]
    held = into.state.table.read()
    touched = held.where(F.col("_batch") >= since).select(*keys).distinct()
    names = [*into.definition.keys]
    wanted = _build_wanted(into, held.join(touched, names, "left_semi"), sequence)
    return _with_gone(into, wanted, into.target.read().join(touched, names, "left_semi"))


def _read_published(target: FlowTable) -> list[int]:
    """The batches that the newest commits of the target note."""
    notes = (note.removeprefix(_NOTE) for note in target.last_notes() if note.startswith(_NOTE))
    return [int(number) for number in notes if number.isdigit()]


def _build_wanted(into: "FlowTarget", held: DataFrame, sequence: T.DataType) -> DataFrame:
    """The target's rows by the state; `held` are all rows of the state, or all of some keys."""
    shown = [column(field.name) for field in into.state.fields]
    counting = into.state.select_counting(held)
    if not into.definition.keeps_history:
        return counting.where("NOT _deleted").select(*shown)
    ends = F.expr(sequence_sql("_from_order")) == F.expr(sequence_sql("_to_order"))
    versions = counting.where(F.col("_shown") & ~F.coalesce(ends, F.lit(False)))
    bounds = {START: "_from_order", END: "_to_order"}
    read = [F.expr(value_sql(order, sequence)).alias(name) for name, order in bounds.items()]
    return versions.select(*shown, *read)


def _identity_columns(into: "FlowTarget") -> list[str]:
    """The columns that identify a row of the target."""
    return [*into.definition.keys, *([START] if into.definition.keeps_history else [])]


def _with_gone(into: "FlowTarget", wanted: DataFrame, there: DataFrame) -> DataFrame:
    """The wanted rows, and those of the target that are none of them, to be removed."""
    identity = _identity_columns(into)
    named = [column(name) for name in identity]
    gone = there.select(*named).join(wanted.select(*named), identity, "left_anti")
    marked = gone.withColumn("_remove", F.lit(True))
    return wanted.withColumn("_remove", F.lit(False)).unionByName(marked, allowMissingColumns=True)


def _target_sql(into: "FlowTarget", columns: list[str], compared: bool) -> str:
    """The MERGE into the target; with `compared`, rows that have the wanted values are left alone.

    The rows of a single batch are written without a comparison: the fold has compared them, and
    comparing them again takes a fifth of the MERGE's time.
    """
    identity = _identity_columns(into)
    others = [name for name in columns if name not in identity]
    differs = " OR ".join(f"NOT (t.{quote(c)} <=> s.{quote(c)})" for c in others)
    if not compared or any("map<" in field.dataType.simpleString() for field in into.state.fields):
        differs = "true"  # Spark does not compare maps.
    update = f" WHEN MATCHED AND ({differs}) THEN {render_update(others)}" if others else ""
    return (
        f"MERGE INTO {into.target.name} t USING {{rows}} s"
        f" ON {agree_on('t', 's', identity, ())}"
        f" WHEN MATCHED AND s._remove THEN DELETE{update}"
        f" WHEN NOT MATCHED AND NOT s._remove THEN {render_insert(columns)}"
    )


def _add_missing_columns(target: FlowTable, wanted: list[T.StructField]) -> bool:
    """Adds columns that the target lacks; whether its other columns have the wanted types."""
    there = {f.name: f.dataType for f in (target.schema or T.StructType()).fields}
    if any(there.get(f.name, f.dataType) != f.dataType for f in wanted):
        return False
    if new := [f for f in wanted if f.name not in there]:
        target.add_columns(layout.columns_sql(new, ()))
    return True
