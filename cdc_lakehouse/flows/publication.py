"""The second write of a batch: the target follows the state."""

from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from cdc_lakehouse.flows.sequences import value_sql
from cdc_lakehouse.flows.tables import FlowTable
from lakehouse.storage.statements import LIVE, Follower, note_commits
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
    state, target, note = into.state, into.target, f"{_NOTE}{newest}"
    history = into.definition.keeps_history
    bounds = (START, END) if history else ()
    kept = parse_type(sequence.simpleString())  # as Delta has it: every field may be null
    fields = [*state.fields, *(T.StructField(name, kept) for name in bounds)]
    if not target.exists:
        target.create(layout.columns_sql(fields, ()), "", {})
    elif not _add_missing_columns(target, fields):
        with note_commits(into.spark, note):
            target.replace_rows(_build_wanted(into, state.table.read(), sequence), retyped=True)
        return
    identity = [*into.definition.keys, *([START] if history else [])]
    follower = Follower(into.spark, target.name, identity)
    since = 1 + _find_published(follower)
    if state.cutoff_batch >= since or since == 1 < newest:
        wanted = _build_wanted(into, state.table.read(), sequence)
        follower.merge_rows(_with_gone(wanted, target.read(), identity), note)
    elif since > newest:
        return
    elif history:
        follower.merge_rows(_build_touched(into, since, sequence, identity), note)
    else:
        # The fold has compared the rows of a single batch already.
        several = since < newest
        rows = state.table.read().where(F.col("_batch") >= since)
        written = state.select_counting(rows) if several else rows
        live = (~F.col("_deleted")).alias(LIVE)
        shown = written.select(*[column(field.name) for field in fields], live)
        follower.merge_rows(shown, note, compared=several)


def _find_published(follower: Follower) -> int:
    """The newest batch that the target's newest commits note; 0 without one."""
    notes = (note.removeprefix(_NOTE) for note in follower.read_notes() if note.startswith(_NOTE))
    return max((int(number) for number in notes if number.isdigit()), default=0)


def _build_touched(
    into: "FlowTarget", since: int, sequence: T.DataType, identity: list[str]
) -> DataFrame:
    """The versions of the keys that batches from `since` on wrote, and those that are gone."""
    names, held = [*into.definition.keys], into.state.table.read()
    touched = held.where(F.col("_batch") >= since).select(*map(column, names)).distinct()
    wanted = _build_wanted(into, held.join(touched, names, "left_semi"), sequence)
    return _with_gone(wanted, into.target.read().join(touched, names, "left_semi"), identity)


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


def _with_gone(wanted: DataFrame, there: DataFrame, identity: list[str]) -> DataFrame:
    """The wanted rows, and those of the target that are none of them, which are to go."""
    named = [column(name) for name in identity]
    gone = there.select(*named).join(wanted.select(*named), identity, "left_anti")
    marked = gone.withColumn(LIVE, F.lit(False))
    return wanted.withColumn(LIVE, F.lit(True)).unionByName(marked, allowMissingColumns=True)


def _add_missing_columns(target: FlowTable, wanted: list[T.StructField]) -> bool:
    """Adds columns that the target lacks; whether its other columns have the wanted types."""
    there = {f.name: f.dataType for f in (target.schema or T.StructType()).fields}
    if any(there.get(f.name, f.dataType) != f.dataType for f in wanted):
        return False
    if new := [f for f in wanted if f.name not in there]:
        target.add_columns(layout.columns_sql(new, ()))
    return True
