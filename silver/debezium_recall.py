"""Batches decoded by what the last one showed, without a look through them first.

A source's records seldom change their shape. Where the last batch had one shape only, of which the
table knows every column, the next is taken to have it too; so is a first batch whose first records
have. Every record is compared with it as it is decoded; the first one that differs fails the job,
and the batch is looked through and decoded again. What comes out is the same either way, also for a
batch without any row.
"""

from collections.abc import MutableMapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.names import literal, quote
from lakehouse.table import LearnedColumn, Table
from silver.debezium_columns import columns_of, normal, planned, unknown
from silver.debezium_schema import Survey, survey

_UNLIKE = "the batch is not of the shape that it was taken to have"
_CARRIES_A_ROW = ("c", "u", "r", "d")
_FIRST_RECORDS = 2_000


class Recalled(NamedTuple):
    """What a table's last batch showed, and how the table was configured then.

    `plan` is all of bronze decoded by it, where a batch was; `learned` are the columns known then.
    """

    table: Table
    seen: Survey
    learned: tuple[StructField, ...] = ()
    plan: DataFrame | None = None


Recall = MutableMapping[str, Recalled]


def looked_at(raw: DataFrame, table: Table, recall: Recall) -> tuple[Survey, bool]:
    """What is known of a batch, and whether its records must be compared with it.

    A batch is looked through where neither the last one nor its own first records tell its shape.
    """
    known, last = recalled(table, recall), recall.get(table.table)
    if known is not None:
        return known, True
    first = last is None or last.table != _configured(table)
    seen = survey(raw, bool(table.keys), _FIRST_RECORDS if first else None)
    if not seen.whole and not _is_settled(table, seen):
        seen = survey(raw, bool(table.keys))
    recall[table.table] = Recalled(_configured(table), seen)
    return seen, not seen.whole


def recalled(table: Table, recall: Recall) -> Survey | None:
    """What the last batch showed, where the next can be decoded by it."""
    last = recall.get(table.table)
    if last is None or last.table != _configured(table) or not _is_settled(table, last.seen):
        return None
    return last.seen


def plan_of(table: Table, learned: Sequence[StructField], recall: Recall) -> DataFrame | None:
    """The plan that decoded the last batch, where it decodes the next as well."""
    last = recall.get(table.table)
    if last is None or last.table != _configured(table) or last.learned != tuple(learned):
        return None
    return last.plan


def keep_plan(
    table: Table, learned: Sequence[StructField], recall: Recall, plan: DataFrame
) -> None:
    """Keeps the plan of a batch that was decoded by what the one before it had shown."""
    recall[table.table] = recall[table.table]._replace(learned=tuple(learned), plan=plan)


def recall_nothing(table: Table, recall: Recall) -> None:
    """Has the batch looked through, as it is not what it was taken for."""
    recall[table.table] = recall[table.table]._replace(seen=Survey([], False, ()), plan=None)


def is_unlike(failure: Exception) -> bool:
    """Whether a job failed because a record had another shape than was expected."""
    return _UNLIKE in str(failure)


def compared(rows: DataFrame, seen: Survey, read: list[str], keyed: bool) -> DataFrame:
    """Opened records with `_unlike`, whether one has another shape than was seen.

    Rows that came as maps become structs of the fields that are to be read.
    """
    if seen.versions:
        return rows.withColumn("_unlike", _of_another_block(seen.versions[0].digest))
    fields = list(seen.shapes[0].fields)
    maps = ("_after",) if keyed else ("_after", "_before")
    unlike = " OR ".join(["_schema IS NOT NULL", *[_of_other_fields(m, fields) for m in maps]])
    structs = {row: _struct(row, fields, read) for row in maps}
    return rows.withColumns({"_unlike": F.expr(unlike), **structs})


def refused(why: Column, keys: list[str], seen: Survey) -> Column:
    """The reason, that fails the job for a record of another shape.

    `keys` are the tokens of the keys. A plain record that lacks one may have it by another name,
    which only a look through the batch can tell.
    """
    lacking = " OR ".join(f"{key} IS NULL" for key in keys if not seen.versions) or "false"
    hidden = F.col("_op").isin(*_CARRIES_A_ROW) & F.expr(lacking)
    failed = F.raise_error(F.lit(_UNLIKE)).cast("string")
    return F.when(F.col("_unlike") | F.coalesce(hidden, F.lit(False)), failed).otherwise(why)


def _configured(table: Table) -> Table:
    own = {n: c for n, c in table.columns.items() if not isinstance(c, LearnedColumn)}
    return table.model_copy(update={"columns": own})


def _is_settled(table: Table, seen: Survey) -> bool:
    """Whether a batch of that one shape brings nothing new, whatever records of it come."""
    if len(seen.shapes) != 1 or len(seen.versions) + seen.plain != 1:
        return False
    found = columns_of(table, seen)
    if found.unfit or unknown(table, seen, found):
        return False
    shown = all(key in seen.shapes[0].fields for key in table.keys)
    exact = all(fields == (name,) for name, fields in found.fields.items())
    plans = planned(table, seen, found, {})
    return shown and exact and all(_type_of(table, p.name) == normal(p.type) for p in plans)


def _type_of(table: Table, name: str) -> str | None:
    column = table.columns.get(name)
    return None if column is None else normal(column.type)


def _of_another_block(digest: int) -> Column:
    """Without a block only what reads nothing of a row is alike."""
    reads = F.col("_op").isin(*_CARRIES_A_ROW)
    reads = reads | F.col("_after").isNotNull() | F.col("_before").isNotNull()
    other = F.when(F.col("_schema").isNotNull(), F.xxhash64("_schema") != digest)
    return F.coalesce(other.otherwise(reads), F.lit(False))


def _of_other_fields(row: str, fields: list[str]) -> str:
    """A row without any field is none, as in the look through a batch."""
    names, known = f"map_keys({row})", _array(fields)
    alike = f"{names} = {known} OR array_sort({names}) = {_array(sorted(fields))}"
    return f"coalesce(size({row}) > 0 AND NOT ({alike}), false)"


def _struct(row: str, fields: list[str], read: list[str]) -> Column:
    """By place where the fields stand in the order that was seen: a map is slow to search."""
    places = {field: f"map_values({row})[{at}]" for at, field in enumerate(fields)}
    placed = [places.get(field, "cast(NULL AS string)") for field in read]
    named = [f"{row}[{literal(field)}]" for field in read]
    return F.expr(
        f"CASE WHEN map_keys({row}) = {_array(fields)} THEN {_of(placed, read)} "
        f"WHEN {row} IS NOT NULL THEN {_of(named, read)} END"
    )


def _of(values: list[str], fields: list[str]) -> str:
    pairs = zip(values, fields, strict=True)
    return f"struct({', '.join(f'{value} AS {quote(field)}' for value, field in pairs)})"


def _array(names: list[str]) -> str:
    return f"array({', '.join(map(literal, names))})"
