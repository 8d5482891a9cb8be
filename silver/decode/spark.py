"""The Spark plan of decoding: columns are looked for, records decoded, values finished in SQL.

A batch is decoded by the columns that are known: declared, learned before, or shown by its first
records. A record that shows others is marked `_mismatched`; who wrote such a batch then looks
through all of it and decodes it once more.
"""

import pickle
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial, reduce
from operator import or_
from types import MappingProxyType
from typing import NamedTuple

import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.config.table import Table
from lakehouse.storage.names import quote
from silver.contract import CHANGE_COLUMNS
from silver.decode.arrow import (
    CARRIED,
    OF_REJECTED,
    READ,
    DecodePlan,
    DiscoveryPlan,
    decode_batches,
    discover_batches,
    must_wait,
)
from silver.decode.change import BAD_VALUE, CHANGE_FIELDS
from silver.decode.columns import (
    Columns,
    DecodedColumn,
    Discovery,
    Shape,
    is_published,
    known_columns,
    shown_by,
    with_shown,
)
from silver.decode.expressions.names import MEMBER, has_expressions, members_read
from silver.decode.expressions.rows import with_expressions
from silver.decode.facts import FACTS
from silver.decode.protocols.rows import with_fault_column
from silver.decode.types import carrier_type, parse_type

FIRST_RECORDS = 2_000
_LONGEST_FETCHED = 64 << 10
_BINARY, _TIMES = ("_raw", "_key", "_headers"), ("_timestamp", "_arrived_at")
_CONTRACT = {column.name: column.type for column in CHANGE_COLUMNS}
_OF_TASK = {
    **{"_batch": "bigint", "_path": "string", "_line": "bigint"},
    **{"_raw": "binary", FACTS: "binary"},
}


class Look(NamedTuple):
    """What a look through records found: columns, and shapes in order of arrival.

    `whole` says that every record was looked at. The columns do for other records only if these
    have the one shape that was found.
    """

    columns: Columns
    shapes: list[Shape]
    whole: bool


class FirstRows(NamedTuple):
    """The first bronze rows of a batch, fetched to where the run is; `whole` says they are all."""

    rows: pa.Table
    whole: bool


def fetch_first(raw: DataFrame, table: Table) -> FirstRows | None:
    """Fetches the first `FIRST_RECORDS` rows of a batch; None where one of them is long.

    Neither a look at fetched rows nor decoding them, if they are all there are, needs a task.
    """
    long = F.greatest(*[F.octet_length(n) for n in _BINARY]) > _LONGEST_FETCHED
    names = (*READ, *CARRIED, "_position")
    rows = raw.limit(FIRST_RECORDS + 1).withColumn("_long", F.coalesce(long, F.lit(False)))
    kept = rows.withColumns({n: F.when(~F.col("_long"), F.col(n)) for n in _BINARY})
    fetched = kept.select(*_read_columns(table, names), "_long").toArrow()
    if pc.any(fetched.column("_long")).as_py():
        return None
    return FirstRows(fetched.drop_columns("_long"), fetched.num_rows <= FIRST_RECORDS)


def waits_for_form(first: FirstRows | None, table: Table, columns: Columns) -> bool:
    """Whether a batch has tombstones that mean nothing before an event shows the feed's form."""
    if first is None or not first.whole:
        return False
    return must_wait(DiscoveryPlan(table, columns), iter(first.rows.to_batches()))


def discover(
    raw: DataFrame,
    table: Table,
    columns: Columns,
    most: int | None = None,
    first: FirstRows | None = None,
) -> Look:
    """Looks through bronze rows of one table for columns; one job at most.

    Args:
        raw: rows with the columns of `bronze.contract`.
        table: the table's configuration.
        columns: the columns that are known before.
        most: of more rows, some so many are looked at; `FIRST_RECORDS` at most.
        first: the first rows, where they are fetched already.
    """
    plan = DiscoveryPlan(table, columns)
    if first is not None and (first.whole or most is not None):
        batches = discover_batches(plan, iter(first.rows.to_batches()))
        results = [row for batch in batches for row in batch.to_pylist()]
        whole = first.whole
    else:
        some = raw if most is None else raw.limit(most)
        given = some.select(*_read_columns(table, (*READ, "_position")))
        rows = given.mapInArrow(partial(discover_batches, plan), "discovery binary, records bigint")
        results = [row.asDict() for row in rows.collect()]
        whole = most is None or sum(row["records"] for row in results) < most
    states: list[Discovery] = [pickle.loads(row["discovery"]) for row in results]
    if not states:
        return Look(columns, [], whole)
    one, *others = states
    for other in others:
        one.merge(other)
    return Look(*one.settle(whole), whole)


def decode(
    raw: DataFrame,
    table: Table,
    columns: Columns,
    first: FirstRows | None = None,
    bounded: Sequence[str] = (),
) -> DataFrame:
    """Decodes bronze rows of one table, one row out per row in.

    Args:
        raw: rows with the columns of `bronze.contract`, and `_feed`.
        table: the table's configuration.
        columns: its columns; those of a look through all of `raw` leave no record `_mismatched`.
        first: the first rows, where they are fetched already.
        bounded: the keys whose least and greatest value are wanted.

    Returns:
        Key and business columns that the table publishes, then the contract's change columns, and
        `_facts`: on the last record of a task, what it knows of its changes.
    """
    if table.format == "rows":
        columns = with_fault_column(columns)
    kept = [n for n in columns.names if is_published(table, n) and not n.startswith("_")]
    plan = DecodePlan(
        table,
        columns,
        _carried_schema(columns.schema()),
        _keeps_raw(table, columns),
        tuple(bounded),
        None if len(kept) == len(columns.names) else frozenset(kept),
    )
    if first is not None and first.whole and first.rows.num_rows:
        rows = pa.Table.from_batches(decode_batches(plan, iter(first.rows.to_batches())))
        decoded = raw.sparkSession.createDataFrame(rows, _task_schema(plan)).coalesce(1)
    else:
        given = raw.select(*_read_columns(table, (*READ, *CARRIED)))
        decoded = given.mapInArrow(partial(decode_batches, plan), _task_schema(plan))
    changes = with_expressions(_parse_texts(decoded, columns), table)
    names = [name for name in columns.names if name in changes.columns]
    kept = [name for name in kept if name in names]
    layer = _contract_columns(kept, names)
    return changes.select(
        *[F.col(quote(n)) for n in kept], *[layer[c.name] for c in CHANGE_COLUMNS], FACTS
    )


def follow_log(raw: DataFrame, table: Table, columns: Columns, by_offset: bool) -> list[str]:
    """The segments of the source's log in bronze rows, followed in order by one task.

    The order is that of offsets where `by_offset`, else of arrival. `columns.reached` is the
    log position of earlier records.
    """
    plan = DecodePlan(table, columns, _carried_schema(columns.schema()), False)
    offsets = ("_topic", "_partition", "_offset") if by_offset else ()
    ordered = raw.coalesce(1).sortWithinPartitions(*offsets, "_arrival")
    given = ordered.select(*_read_columns(table, (*READ, *CARRIED)))
    decoded = given.mapInArrow(partial(decode_batches, plan), _task_schema(plan))
    return [row["_source_log"] for row in decoded.where("_source_log IS NOT NULL").collect()]


def decode_alone(
    raw: DataFrame,
    table: Table,
    learned: Iterable[T.StructField],
    shown: Mapping[str, str] | None = None,
    schemas: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """Decodes bronze rows by the columns that a look through all of them finds.

    `learned` are business columns that earlier batches brought, `shown` what these batches showed
    of how the source writes (`silver.decode.columns.shown_by`), `schemas` the Avro schemas that
    bronze keeps.
    """
    columns = known_columns(table, {field.name: field.dataType for field in learned})
    columns = replace(with_shown(columns, shown or {}), schemas=dict(schemas))
    return decode(raw, table, discover(raw, table, columns).columns)


def decode_known(
    raw: DataFrame,
    table: Table,
    learned: Iterable[T.StructField],
    shown: Mapping[str, str],
    schemas: Mapping[str, str] = MappingProxyType({}),
) -> DataFrame:
    """Decodes bronze rows by the columns that earlier batches brought, and by no others.

    Only for members that expressions of the table use and no column holds, all rows are looked at.
    `shown` is as in `decode_alone`; where it is empty, some rows of Debezium are looked at for it.
    `schemas` are the Avro schemas that bronze keeps.
    """
    columns = known_columns(table, {field.name: field.dataType for field in learned})
    columns = replace(with_shown(columns, shown), schemas=dict(schemas))
    if table.format == "debezium" and not shown_by(columns):
        seen = discover(raw, table, columns, FIRST_RECORDS).columns
        columns = with_shown(columns, shown_by(seen))
    if members_read(table):
        every = discover(raw, table, columns).columns.columns
        members = [column for column in every if column.name.startswith(MEMBER)]
        columns = replace(columns, columns=(*columns.columns, *members))
    return decode(raw, table, columns)


def position_column() -> Column:
    """Where a raw record lies: topic/partition/offset, else file and line in it."""
    return _spell_position(F.col("_file"), F.col("_line"))


def logged_position() -> Column:
    """Where a record of Kafka lies: topic/partition/offset; null for any other."""
    logged = F.concat_ws("/", "_topic", F.col("_partition"), F.col("_offset"))
    return F.when(F.col("_offset").isNotNull(), logged)


def _spell_position(file: Column, number: Column) -> Column:
    split = F.shiftright(number, 33)
    line = (number - F.shiftleft(split, 33)).cast("string")
    within = F.when(split == 0, line).otherwise(F.concat_ws("+", split.cast("string"), line))
    return F.coalesce(logged_position(), F.concat(file, F.lit(":"), within))


def _read_columns(table: Table, names: Iterable[str]) -> list[Column]:
    """Columns of bronze as a task reads them; a file's path only where the format needs it.

    Snapshots need it for their day, other flat rows for columns that folders give.
    """
    read = {name: _as_read(name) for name in names}
    if table.format in ("rows", "bigquery"):
        read["_file"] = F.when(F.col("_file").contains("="), F.col("_file"))
    elif table.format != "snapshot":
        read["_file"] = F.lit(None).cast("string")
    return [column.alias(name) for name, column in read.items()]


def _as_read(name: str) -> Column:
    if name in _BINARY:
        return F.col(name).cast("binary")
    if name in _TIMES:
        return F.unix_micros(name)
    if name == "_position":
        return position_column()
    if name == "_path":
        return F.when(F.col("_offset").isNull(), F.col("_file"))
    return F.coalesce(name, F.lit(False)) if name == "_whole" else F.col(name)


def _carried_schema(schema: T.StructType) -> T.StructType:
    return T.StructType([T.StructField(f.name, carrier_type(f.dataType)) for f in schema.fields])


def _keeps_raw(table: Table, columns: Columns) -> bool:
    """Whether the plan may reject a change after its task decoded it."""
    parsed = any(carrier_type(column.type) != column.type for column in columns.columns)
    judged = any(expectation.severity == "critical" for expectation in table.expectations)
    return parsed or judged or has_expressions(table)


def _task_schema(plan: DecodePlan) -> T.StructType:
    """The columns that `decode_batches` gives."""
    names = dict.fromkeys((*CHANGE_FIELDS, *CARRIED, *OF_REJECTED, "_source_log", FACTS))
    types = {**_CONTRACT, **_OF_TASK}
    layer = [T.StructField(n, parse_type(types[n])) for n in names]
    return T.StructType([*plan.schema.fields, *layer])


def _contract_columns(kept: Sequence[str], decoded: Sequence[str]) -> dict[str, Column]:
    """The contract's columns of what `decode_batches` gives; `kept` are published columns."""
    is_less = len(kept) < len(decoded)
    is_placed = reduce(or_, [F.col(n).isNotNull() for n in ("_reason", "_raw", "_path")])
    absent = F.array_intersect("_absent", F.array(*map(F.lit, kept)).cast("array<string>"))
    special = {
        "_absent": F.when(F.size(absent) > 0, absent) if is_less else F.col("_absent"),
        "_rule": F.lit(None),
        "_position": F.when(is_placed, _spell_position(F.col("_path"), F.col("_line"))),
        "_feed_batch": F.col("_batch"),
    }
    return {
        name: special.get(name, F.col(name)).cast(type).alias(name)
        for name, type in _CONTRACT.items()
    }


def _parse_texts(decoded: DataFrame, columns: Columns) -> DataFrame:
    """Changes with the values that left their task as JSON text; a misfit is a dead letter."""
    texts = [column for column in columns.columns if carrier_type(column.type) != column.type]
    if not texts:
        return decoded
    parsed = decoded.withColumns({f"__{n}": _parse_text(one) for n, one in enumerate(texts)})
    misfits = [
        F.when(F.col(quote(one.name)).isNotNull() & F.col(f"__{n}").isNull(), _misfit_message(one))
        for n, one in enumerate(texts)
    ]
    judged = parsed.withColumn("__misfit", F.coalesce(*misfits))
    bad = F.col("_reason").isNull() & F.col("__misfit").isNotNull()
    values = {one.name: F.col(f"__{n}") for n, one in enumerate(texts)}
    layer = {
        "_operation": F.when(~bad, F.col("_operation")),
        "_absent": F.when(~bad, F.col("_absent")),
        "_reason": F.when(bad, BAD_VALUE).otherwise(F.col("_reason")),
        "_message": F.when(bad, F.col("__misfit")).otherwise(F.col("_message")),
    }
    given = values | layer
    return judged.select(*[given.get(n, F.col(quote(n))).alias(n) for n in decoded.columns])


def _misfit_message(column: DecodedColumn) -> Column:
    expected = column.type.simpleString()
    return F.lit(f"column {column.name}: found no JSON that fits, expected {expected}")


def _parse_text(column: DecodedColumn) -> Column:
    text = F.col(quote(column.name))
    if isinstance(column.type, T.VariantType):
        return F.try_parse_json(text)
    return F.from_json(text, column.type.json())
