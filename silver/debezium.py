"""Debezium records as changes: PostgreSQL's connector first, others by the same envelope.

c, u and r are upserts, d deletes, t truncates; logical messages, heartbeats, transaction markers,
schema records and log-compaction tombstones carry no change. Values are read by the record's own
schema block, else by the column's type. A new version of a row comes from `after` alone; of
`before` no more than the key is read, unless the table has no key: then it must be the whole old
row.
"""

from functools import lru_cache

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.names import literal, quote
from lakehouse.table import Table
from silver import debezium_order as order
from silver.contract import CHANGE_COLUMNS, DELETE, NONE, TRUNCATE, UPSERT
from silver.debezium_columns import ColumnPlan, Columns, columns_of, planned, renamed, unknown
from silver.debezium_envelope import opened, plain_object, position, whole_envelope
from silver.debezium_reading import (
    Reading,
    absent_columns,
    missing,
    readings,
    token_of,
    value_of,
    values_of,
)
from silver.debezium_reason import message, reason, unfit
from silver.debezium_recall import Recall, compared, looked_at, refused
from silver.debezium_schema import Survey, inferred, key_fields, survey, version_of
from silver.debezium_toast import may_hold_placeholders
from silver.shapes import noted
from silver.stages import apart_if_wide

_SESSIONS, _TYPES = 4, 256
_MAP = "MAP<STRING,STRING>"
_OLD_KEY = "`__debezium.oldkey`"
_OPERATIONS = {"c": UPSERT, "u": UPSERT, "r": UPSERT, "d": DELETE, "t": TRUNCATE, "m": NONE}


def to_changes(raw: DataFrame, table: Table) -> DataFrame:
    """Decodes bronze rows of one table, one row out per row in.

    Looks through the batch once (twice when a field's type must be told from its values) to learn
    its columns, then returns a plan that parses each record once.

    Args:
        raw: rows with the columns of `bronze.contract`, of the table's own topic.
        table: the table; `columns` holds what is declared and, as `LearnedColumn`, what was learned
            before.

    Returns:
        Keys, the table's columns, new columns by name, then the contract's change columns. Names
        that begin with `_` are left out.
    """
    return _surveyed(raw, table, survey(raw, keyed=bool(table.keys)))


def to_changes_again(raw: DataFrame, table: Table, recall: Recall) -> DataFrame:
    """The same by what `recall` holds of the table's last batch, or its own first records show.

    Then the job that reads the changes fails where a record shows that it is not enough (see
    `debezium_recall.is_unlike`). `recall` gets what this batch shows.
    """
    seen, checked = looked_at(raw, table, recall)
    if not checked:
        return _surveyed(raw, table, seen)
    found = columns_of(table, seen)
    return _decoded(raw, table, seen, found, planned(table, seen, found, {}), checked)


def _surveyed(raw: DataFrame, table: Table, seen: Survey) -> DataFrame:
    found = columns_of(table, seen, _hidden_keys(raw, table, seen))
    asked = unknown(table, seen, found)
    of_keys = {field for key in table.keys for field in found.fields[key]}
    types = inferred(raw, asked, of_keys) if asked else {}
    return _decoded(raw, table, seen, found, planned(table, seen, found, types))


def _decoded(
    raw: DataFrame,
    table: Table,
    seen: Survey,
    found: Columns,
    plans: list[ColumnPlan],
    checked: bool = False,
) -> DataFrame:
    """The changes of a batch; `checked` compares each record with what was seen."""
    types = _parsed(raw.sparkSession, tuple(plan.type for plan in plans))
    columns = readings(plans, types, table, seen.plain or not seen.versions)
    odd = unfit(found, table)
    row = _MAP if checked and not seen.versions else _row(plans, found)
    rows = opened(raw, whole_envelope(_before(table, plans, found) if table.keys else row, row))
    if checked:
        read = [field for plan in plans for field in plan.fields]
        rows = compared(rows, seen, read, bool(table.keys))
    changes = (
        rows.withColumns(_places(raw.sparkSession, bool(table.keys)))
        .transform(lambda rows: apart_if_wide(_with_tokens(rows, columns, table), len(columns)))
        .transform(lambda rows: _with_values(rows, columns, table, odd, seen if checked else None))
        .transform(lambda rows: apart_if_wide(rows, len(columns)))
        .select(
            *[F.col(c.value).alias(c.name) for c in columns],
            *_change_columns(raw.sparkSession, message(columns, table, odd)),
        )
    )
    return noted(changes, renamed(seen.shapes, found, table))


def _hidden_keys(raw: DataFrame, table: Table, seen: Survey) -> list[str]:
    """Fields of keys that no row of the batch shows, as in one of deletes alone."""
    shown = {name.lower() for one in seen.shapes for name in one.fields}
    hidden = [key for key in table.keys if key.lower() not in shown]
    return key_fields(raw, hidden) if hidden else []


@lru_cache(_TYPES)
def _parsed(spark: SparkSession, types: tuple[str, ...]) -> list[T.DataType]:
    nulls = [f"cast(NULL AS {type}) AS _{at}" for at, type in enumerate(types)]
    return [field.dataType for field in spark.range(0).selectExpr(*nulls).schema.fields]


def _row(plans: list[ColumnPlan], found: Columns) -> str:
    """The type to read a row as: a map, where names are looked at or tell a case apart."""
    if found.unfit or any(len(plan.fields) > 1 for plan in plans):
        return _MAP
    fields = (field for plan in plans for field in plan.fields)
    return f"STRUCT<{', '.join(f'{quote(field)} STRING' for field in fields)}>"


def _before(table: Table, plans: list[ColumnPlan], found: Columns) -> str:
    keys = [plan for plan in plans if plan.name in table.keys]
    return _row(keys or plans, found)


@lru_cache(_SESSIONS)
def _places(_: SparkSession, keyed: bool) -> dict[str, Column]:
    """What is told of every record, whatever its columns; written once for a session."""
    operation = F.lit(None).cast("string")
    for op, name in _OPERATIONS.items():
        operation = F.when(F.col("_op") == op, F.lit(name)).otherwise(operation)
    markers = (
        F.col("_status").isin("BEGIN", "END")
        | F.col("_ddl").isNotNull()
        | F.col("_ts_ms").isNotNull()
    )
    rowless = F.col("_after").isNull() & F.col("_before").isNull() & F.col("_op").isNull()
    nothing = F.col("_empty") | (rowless & ~F.col("_malformed") & markers)
    no_key = F.lit(None).cast("map<string,string>")
    source, lsn = F.col("_source"), order.position_of(F.col("_source"))
    return {
        "_found": F.when(nothing, F.lit(NONE)).otherwise(operation),
        "_place": order.sequence_of(source, lsn, F.col("_transaction.total_order")),
        "_lsn": lsn,
        "_micros": order.micros_of(source, F.col("_ts_us"), F.col("_ts_ms")),
        "_order": F.col("_transaction.total_order").try_cast("bigint"),
        "_version": version_of(F.col("_schema")),
        "_sourced": F.col("_source").isNotNull(),
        "_record_key": plain_object(F.col("_key")) if keyed else no_key,
        "_moved": plain_object(F.from_json("_headers", f"{_OLD_KEY} STRING")["__debezium.oldkey"]),
    }


def _with_tokens(rows: DataFrame, columns: list[Reading], table: Table) -> DataFrame:
    connector = F.coalesce(F.col("_source.connector"), F.lit("postgresql"))
    full = F.col("_before").isNotNull() & (connector == "postgresql")
    plain = F.col("_topic").isNull() & F.col("_headers").isNull()
    moved = F.col("_moved").isNotNull()
    holds = may_hold_placeholders(F.col("_op"), moved, plain, F.col("_order"), full)
    held = rows.withColumn("_holds", F.coalesce(holds, F.lit(False)))
    tokens = {c.token: F.expr(_token(c, table)) for c in columns}
    return held.withColumns({**tokens, "_absent": absent_columns(columns, table)})


def _token(column: Reading, table: Table) -> str:
    """SQL of a column's token, null where the record has none."""
    after, before = token_of(column, "_after"), token_of(column, "_before")
    upserts = f"_found = {literal(UPSERT)}"
    if not table.keys:
        return f"CASE WHEN _op = 'd' THEN {before} ELSE {after} END"
    if column.name not in table.keys:
        carried = f"CASE WHEN {upserts} THEN {after} END"
        lacks = missing(column, after)
        return f"CASE WHEN {lacks} THEN NULL ELSE {carried} END" if column.large else carried
    own = f"{token_of(column, '_record_key')}, _record_key[{literal(column.name)}]"
    bare = ", _pk" if len(table.keys) == 1 else ""
    gone, now = f"coalesce({own}, {before}{bare})", f"coalesce({after}, {own}{bare})"
    return f"CASE WHEN _op = 'd' THEN {gone} WHEN {upserts} THEN {now} END"


def _with_values(
    rows: DataFrame, columns: list[Reading], table: Table, odd: Column, compared: Survey | None
) -> DataFrame:
    values = [F.expr(value_of(c, c.token)).alias(c.value) for c in columns]
    why = reason(columns, table, odd)
    if compared is not None:
        keys = [c.token for c in columns if c.name in table.keys]
        why = refused(why, keys, compared)
    told = {"_why": why, "_old_key": _old_key(columns, table)}
    return rows.select("*", *values).withColumns(told)


def _old_key(columns: list[Reading], table: Table) -> Column:
    if not table.keys:
        return F.when(F.col("_before").isNotNull(), values_of(columns, "_before"))
    keys = [c for c in columns if c.name in table.keys]
    old = values_of(keys, "_moved")
    return F.when((F.col("_found") == UPSERT) & F.col("_moved").isNotNull(), old)


def _change_columns(spark: SparkSession, words: Column) -> list[Column]:
    own = _contract(spark) | {"_message": words.cast("string").alias("_message")}
    return [own[c.name] for c in CHANGE_COLUMNS]


@lru_cache(_SESSIONS)
def _contract(_: SparkSession) -> dict[str, Column]:
    """The contract's columns but for the message, written once for a session."""
    dead = F.col("_why").isNotNull()
    source, op = F.col("_source"), F.col("_op")
    found = {
        "_operation": F.when(~dead, F.col("_found")),
        "_sequence": F.when(F.coalesce(F.col("_found"), F.lit("")) != NONE, F.col("_place")),
        "_snapshot": order.snapshot_of(op, source, F.col("_lsn"), F.col("_place")),
        "_snapshot_last": order.snapshot_last_of(op, source),
        "_source_time": order.time_of(F.col("_micros")),
        "_transaction": order.transaction_of(F.col("_transaction.id"), source),
        "_transaction_order": F.col("_order"),
        "_group_sequences": F.lit(None),
        "_reason": F.col("_why"),
        "_rule": F.lit(None),
        "_warnings": F.lit(None),
        "_position": position(),
        "_feed_batch": F.col("_batch"),
        "_raw": F.col("_raw"),
    }
    return {
        c.name: found.get(c.name, F.col(c.name)).cast(c.type).alias(c.name)
        for c in CHANGE_COLUMNS
        if c.name != "_message"
    }
