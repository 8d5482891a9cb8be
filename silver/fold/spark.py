"""The Spark plan around the fold: changes and stored rows, by key and in order, through Arrow.

Nothing here knows of a lake: changes and stored rows are DataFrames, and so is what comes out.
"""

from collections.abc import Iterable, Iterator, Mapping
from functools import partial
from itertools import chain
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.storage.names import quote
from silver.fold.arrow import (
    COUNTED,
    COUNTS,
    CURRENT_FACTS,
    OLD_KEYS,
    STORED_FACTS,
    FoldPlan,
    fold_batches,
)
from silver.fold.arrow_history import CHANGE_COLUMNS, HISTORY_FACTS
from silver.fold.nested import mark_nulls, restore_nulls
from silver.fold.rules import KEPT, OUTCOMES, TIES, WRITTEN

_FACTS = T.StructType(
    [
        T.StructField("upsert", T.BinaryType()),
        T.StructField("removed", T.BinaryType()),
        T.StructField("columns", T.MapType(T.StringType(), T.BinaryType())),
        T.StructField("changes", T.ArrayType(T.BinaryType())),
    ]
)
_TYPES: Mapping[str, T.DataType] = {
    "binary": T.BinaryType(),
    "boolean": T.BooleanType(),
    "bigint": T.LongType(),
    "string": T.StringType(),
    "timestamp": T.TimestampType(),
    "array<string>": T.ArrayType(T.StringType()),
    "map<string,string>": T.MapType(T.StringType(), T.StringType()),
    dict(CURRENT_FACTS)["_facts"]: _FACTS,
}


_parse_counts = msgspec.json.Decoder(dict[str, int]).decode
_KEPT = "_keeps_values AND NOT _deleted"
_MARKS = ("_keeps_values", COUNTS)


class Counts(NamedTuple):
    """What a fold did: the new changes by outcome, ties among them, and rows that it wrote.

    `left` are rows that changed and were left for another write.
    """

    outcomes: dict[str, int]
    ties: int = 0
    rows: int = 0
    left: int = 0

    def divided(self, by: int) -> "Counts":
        """The counts of one of `by` equal evaluations."""
        outcomes = {name: n // by for name, n in self.outcomes.items()}
        return Counts(outcomes, self.ties // by, self.rows // by, self.left // by)


class Observed(NamedTuple):
    """Folded rows that are to be written, without the columns of the counts.

    `seen` has the counts: at once, or once the rows are written. With `leaves_kept`, live rows that
    keep their values are left for another write.
    """

    rows: DataFrame
    seen: Observation | Mapping[str, Any]
    leaves_kept: bool = False

    @property
    def counts(self) -> Counts:
        """The counts; waits for the write where they are observed in it."""
        seen = self.seen.get if isinstance(self.seen, Observation) else self.seen
        return counts_of(seen, self.leaves_kept)


def fold(
    changes: DataFrame, stored: DataFrame | None, plan: FoldPlan, partitions: int | None = None
) -> DataFrame:
    """Folds changes into the stored rows of their keys.

    Args:
        changes: upserts and deletes with the columns that `silver.fold.arrow` names.
        stored: the stored rows of these keys (others pass unchanged); None where there are none. A
            value column that it lacks is null.
        plan: what is folded, and how.
        partitions: into how many parts; Spark decides by default.

    Returns:
        Rows that are new or differ, and rows of counts, as `silver.fold.arrow` has them.
    """
    values = [changes.schema[name] for name in (*plan.keys, *plan.rules.columns)]
    fields = {field.name: field.dataType for field in values} | _list_change_columns(changes, plan)
    if stored is None:
        rows = _select_columns(changes, fields, {})
    else:
        rows = _unite_rows(changes, stored, fields | _list_stored_columns(stored, plan), plan)
    keys = [_column_of(k) for k in plan.keys]
    by_key = rows.repartition(partitions, *keys) if partitions else rows.repartition(*keys)
    ordered = by_key.sortWithinPartitions(*keys, *_sort_columns(plan.history, stored is not None))
    columns = [mark_nulls(_column_of(f.name), f.dataType, f.name) for f in ordered.schema]
    filled = ordered.select(*chain(*columns))
    # `mapInArrow` looks up its columns by name and takes no name with a backtick.
    numbered = filled.toDF(*[f"_{at}" for at in range(len(filled.columns))])
    function = partial(_fold_batches, plan, tuple(filled.columns))
    return numbered.mapInArrow(function, _output_schema(values, plan.output))


def _unite_rows(
    changes: DataFrame, stored: DataFrame, fields: Mapping[str, T.DataType], plan: FoldPlan
) -> DataFrame:
    if not plan.history:
        stored = stored.withColumn("_facts", F.to_json("_facts"))
    rows = _select_columns(changes, fields, {"_stored": F.lit(False)})
    marks = {"_new": F.lit(False), "_stored": F.lit(True)}
    return rows.union(_select_columns(stored, fields, marks))


def observe(folded: DataFrame, leave_kept: bool = False) -> Observed:
    """The folded rows that are to be written, and the counts, taken while they are written.

    With `leave_kept` live rows that keep their values are left for another write.
    """
    seen = Observation()
    rows = _select_rows(folded.observe(seen, _collect_counts()))
    written = rows.where(f"NOT ({_KEPT})") if leave_kept else rows
    return Observed(written.drop(*_MARKS), seen, leave_kept)


def count(folded: DataFrame) -> Observed:
    """The folded rows that are to be written, and the counts, which a query of their own takes.

    For writes of which Spark sends the client no counts: a MERGE through Spark Connect.
    """
    (seen,) = folded.agg(_collect_counts()).collect()
    return Observed(_select_rows(folded).drop(*_MARKS), seen.asDict())


def select_kept(folded: DataFrame) -> DataFrame:
    """The folded rows that are live and keep their values."""
    return _select_rows(folded).where(_KEPT).drop(*_MARKS)


def counts_of(seen: Mapping[str, Any], leaves_kept: bool = False) -> Counts:
    """The counts that were observed: those of every task that folded."""
    tasks = [_parse_counts(text) for text in seen[COUNTS] or ()]
    sums = {name: sum(counts[name] for counts in tasks) for name in COUNTED}
    outcomes = {name: sums[name] for name in OUTCOMES if sums[name]}
    left = sums[KEPT] if leaves_kept else 0
    return Counts(outcomes, sums[TIES], sums[WRITTEN] - left, left)


def _collect_counts() -> Column:
    return F.collect_list(COUNTS).alias(COUNTS)


def _select_rows(folded: DataFrame) -> DataFrame:
    """The folded rows without those that have the counts."""
    return folded.where(F.col(COUNTS).isNull())


def _list_change_columns(changes: DataFrame, plan: FoldPlan) -> dict[str, T.DataType]:
    """The columns that the fold takes of changes beside keys and values, with their types."""
    left_out = {"_absent"} - {*changes.columns}
    if not plan.rules.grouped:
        left_out.add("_group_sequences")
    always = ((name, type) for name, type in CHANGE_COLUMNS if name not in left_out)
    old_keys = ((name, type) for name, type in OLD_KEYS if name in changes.columns)
    return _to_types([*always, *old_keys, ("_new", "boolean")])


def _list_stored_columns(stored: DataFrame, plan: FoldPlan) -> dict[str, T.DataType]:
    """The columns that the fold takes of stored rows, with their types."""
    facts = HISTORY_FACTS if plan.history else STORED_FACTS
    absent = [("_absent", "array<string>")] if "_absent" in stored.columns else []
    return _to_types([*facts, *absent, ("_stored", "boolean")])


def _to_types(columns: Iterable[tuple[str, str]]) -> dict[str, T.DataType]:
    return {name: _TYPES[type] for name, type in columns}


def _select_columns(
    rows: DataFrame, fields: Mapping[str, T.DataType], marks: Mapping[str, Column]
) -> DataFrame:
    """Rows with exactly these columns; one that they lack is null."""
    present = {*rows.columns}
    columns = {
        name: _column_of(name) if name in present else F.lit(None).cast(type)
        for name, type in fields.items()
    }
    return rows.select(*[column.alias(name) for name, column in (columns | dict(marks)).items()])


def _sort_columns(history: bool, with_stored: bool) -> list[Column]:
    stored = [F.desc("_stored")] if with_stored else []
    if history:
        return [F.col("_order"), *stored, F.col("_new")]
    return [*stored, F.col("_order")]


def _fold_batches(
    plan: FoldPlan, names: tuple[str, ...], batches: Iterator[pa.RecordBatch]
) -> Iterator[pa.RecordBatch]:
    named = (batch.rename_columns(list(names)) for batch in batches)
    return fold_batches(plan, map(restore_nulls, named))


def _output_schema(fields: list[T.StructField], output: Iterable[tuple[str, str]]) -> T.StructType:
    values = [T.StructField(field.name, field.dataType) for field in fields]
    return T.StructType([*values, *(T.StructField(name, _TYPES[type]) for name, type in output)])


def _column_of(name: str) -> Column:
    """The column of exactly this name, whatever characters it has."""
    return F.col(quote(name))
