"""Operations, sequences and times that a table's YAML spells out as SQL over its decoded rows."""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.config.table import Table
from lakehouse.storage.names import quote
from silver.contract import DELETE, FILTERED, NONE, TRUNCATE, UPSERT
from silver.decode.change import BAD_SEQUENCE, UNKNOWN_OPERATION
from silver.decode.expressions.evaluation import (
    TIMES,
    evaluate_expression,
    finer_of,
    layer_column,
    replace_columns,
    restore_columns,
    with_members,
)
from silver.decode.expressions.groups import with_group_sequences
from silver.decode.expressions.names import (
    FAULT,
    MEMBER,
    OF_RECORD,
    columns_named,
    deletes_sql,
    filter_sql,
    has_expressions,
    row_expressions,
    row_orders,
    time_columns,
    truncates_sql,
    upserts_sql,
)
from silver.decode.expressions.sequence_columns import from_column, join_columns, with_finer
from silver.decode.protocols.rows import EVERY, OF_KEY, OF_VALUES
from silver.decode.values.sequences import LONGEST

_ORDERS = (
    "whole numbers from 0 on (of up to 38 digits), timestamps or dates since 1970, or text of 1 to "
    "4 hex sections"
)
_OF_TEXT = "; if this is a time or a number, declare its type in columns, or CAST it in sequence_by"
_OF_TIMES = (
    "; digits of a second beyond the sixth count in the last of several columns alone, and of an "
    "expression where one column in it has its value: name that column in sequence_by"
)
_BEGINS_WITH_A_DAY = r"\A\s*[+-]?\d{4,}-\d{1,2}-\d"
_SMALLEST_MILLISECONDS = 10**11


def with_expressions(decoded: DataFrame, table: Table) -> DataFrame:
    """Decoded rows with what the table's SQL expressions say, without the extra columns.

    `decoded` has the columns that the decoder of the table's format returns, and the layer's own.
    Sets `_operation` (format rows), `_sequence` (with `sequence_by`), `_source_time` (with
    `source.time_column`, or an order that is a timestamp), `_absent`, and `_group_sequences` (with
    `sequence_groups`). A row without an order, or with a group order that is none, becomes a dead
    letter (`bad_sequence`), as does one whose operation `apply_as_upserts` leaves open
    (`unknown_operation`); it needs `_raw`, so the decoder must keep that on every row.
    """
    if not has_expressions(table):
        return decoded
    extra = {FAULT, table.columns_to_update}
    kept = [n for n in decoded.columns if n not in extra and not n.startswith(MEMBER)]
    if table.format in ("rows", "bigquery"):
        decoded = _with_row_expressions(decoded, table)
    with_groups = with_group_sequences(decoded, table)
    return with_groups.select(*(F.col(quote(name)) for name in kept))


def _with_row_expressions(decoded: DataFrame, table: Table) -> DataFrame:
    members = with_members(decoded, [*row_expressions(table), *time_columns(table)])
    orders = enumerate(row_orders(table))
    placed = members.select(
        "*",
        *(evaluate_expression(members, order).alias(f"__order_{at}") for at, order in orders),
        _operation_column(members, table).alias("__operation"),
    )
    types = [field.dataType for field in placed.schema if field.name.startswith("__order_")]
    sequence, faulty = layer_column("_sequence"), _is_faulty(table)
    if types:
        sequence = _sequence_column(types, _finer_columns(members, table, types))
    given = F.coalesce(~placed["__operation"].isin(NONE, FILTERED), F.lit(False))
    disordered = given & sequence.isNull() & F.lit(bool(types))
    reason = F.when(faulty, layer_column("_reason")).when(disordered, BAD_SEQUENCE)
    message = F.when(faulty, layer_column("_message")).when(disordered, _describe_orders(types))
    if upserts := upserts_sql(table):
        unknown = placed["__operation"].isNull()
        reason = reason.when(unknown, UNKNOWN_OPERATION)
        message = message.when(unknown, _describe_operation(members, upserts))
    upsert = reason.isNull() & (placed["__operation"] == UPSERT)
    moments = [
        F.col(f"__order_{at}").cast("timestamp")
        for at, order in enumerate(types)
        if isinstance(order, TIMES)
    ]
    settled = replace_columns(
        placed,
        {
            "_operation": F.when(reason.isNull(), placed["__operation"]),
            "_sequence": sequence,
            "_absent": F.when(upsert, layer_column("_absent")),
            "_source_time": _time_column(placed, table, [*moments, layer_column("_source_time")]),
            "_reason": reason,
            "_message": message,
        },
    )
    return restore_columns(settled, decoded.columns)


def _operation_column(members: DataFrame, table: Table) -> Column:
    """A row's operation, whatever its faults; null where it is not known."""
    if table.format != "rows":
        return layer_column("_operation")
    change = F.when(layer_column("_operation") == NONE, NONE)
    if (counts := filter_sql(table)) is not None:
        is_counted = F.coalesce(_is_true(members, counts), F.lit(False))
        change = change.when(~is_counted, FILTERED)
    said = layer_column("_operation")
    change = change.when(said != UPSERT, said)
    for operation, condition in ((TRUNCATE, truncates_sql(table)), (DELETE, deletes_sql(table))):
        if condition:
            change = change.when(_is_true(members, condition), operation)
    upserts = upserts_sql(table)
    return change.when(_is_true(members, upserts), UPSERT) if upserts else change.otherwise(UPSERT)


def _is_true(members: DataFrame, condition: str) -> Column:
    """The condition as a boolean, also where it is a name that no row has, which is a null text."""
    return evaluate_expression(members, condition) & F.lit(True)


def _is_faulty(table: Table) -> Column:
    """Whether the decoder's fault rules out the row's operation."""
    if table.format != "rows":
        return layer_column("_reason").isNotNull()
    operation, fault = F.col("__operation"), layer_column(FAULT)
    of_key = (fault == OF_KEY) & operation.isin(UPSERT, DELETE)
    of_values = (fault == OF_VALUES) & (operation == UPSERT)
    return F.coalesce((fault == EVERY) | of_key | of_values, F.lit(False))


def _sequence_column(types: list[T.DataType], finer: list[Column | None]) -> Column:
    """Null where an order is null or no order, or where the sections are too many.

    Digits that only the last order can be given by a section of their own make others no order, and
    so do digits of which it is not known whether they are the order's.
    """
    parts = [from_column(F.col(f"__order_{at}"), each) for at, each in enumerate(types)]
    *others, last = finer
    parts = [
        part if more is None else F.when(more.isNull(), part)
        for part, more in zip(parts, [*others, None], strict=True)
    ]
    sequence = join_columns(*parts) if last is None else with_finer(join_columns(*parts), last)
    return F.when(F.length(sequence) <= LONGEST, sequence)


def _finer_columns(
    members: DataFrame, table: Table, types: list[T.DataType]
) -> list[Column | None]:
    """Of each order that is a time, what of a row's text the time does not hold."""
    return [
        finer_of(members, order, F.col(f"__order_{at}")) if isinstance(each, TIMES) else None
        for at, (order, each) in enumerate(zip(row_orders(table), types, strict=True))
    ]


def _describe_operation(members: DataFrame, condition: str) -> Column:
    """What the columns have that say which rows are upserts."""
    named = {name.lower() for name in columns_named(condition)}
    shown = (
        F.concat_ws(
            " ",
            F.lit(name.removeprefix(OF_RECORD)),
            F.coalesce(F.col(quote(name)).cast("string"), F.lit("null")),
        )
        for name in members.columns
        if name.lower() in named
    )
    expected = ", expected an operation that the table's YAML knows"
    return F.concat(F.lit("found "), F.concat_ws(", ", *shown), F.lit(expected))


def _describe_orders(types: list[T.DataType]) -> Column:
    shown = (
        F.concat(
            F.coalesce(F.col(f"__order_{at}").cast("string"), F.lit("null")),
            F.lit(f" ({each.simpleString()})"),
        )
        for at, each in enumerate(types)
    )
    values = F.concat_ws(", ", *shown)
    is_text = any(isinstance(each, T.StringType) for each in types)
    notes = _OF_TIMES if any(isinstance(each, TIMES) for each in types) else ""
    expected = f"{f'{_OF_TEXT}; ' if is_text else ', '}expected {_ORDERS}{notes}"
    return F.concat(F.lit("sequence_by: found "), values, F.lit(expected))


def _time_column(frame: DataFrame, table: Table, otherwise: list[Column]) -> Column:
    """The time in `source.time_column`, else the first of `otherwise` that is there."""
    names = [name for name in time_columns(table) if name in frame.columns]
    moments = [_to_timestamp(frame.schema[name].dataType, F.col(quote(name))) for name in names]
    return F.coalesce(*moments, *otherwise)


def _to_timestamp(data_type: T.DataType, value: Column) -> Column:
    if isinstance(data_type, T.IntegralType):
        return _from_count(value.cast("bigint"))
    if isinstance(data_type, T.StringType):
        return F.when(value.rlike(_BEGINS_WITH_A_DAY), value.try_cast("timestamp"))
    return value.try_cast("timestamp")


def _from_count(count: Column) -> Column:
    """A whole number of seconds, milli-, micro- or nanoseconds since 1970, by its size.

    Below 10^11 it counts seconds (until the year 5138), below a thousand times that milliseconds
    (from the spring of 1973), and so on. Null for a negative one.
    """
    size = F.lit(_SMALLEST_MILLISECONDS)
    micros = (
        F.when(count < size, count * 1_000_000)
        .when(count < size * 1_000, count * 1_000)
        .when(count < size * 1_000_000, count)
        .otherwise((count.cast("decimal(20,0)") / 1_000).cast("bigint"))
    )
    return F.when(count >= 0, F.timestamp_micros(micros))
