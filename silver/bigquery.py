"""BigQuery's change rows: flat columns with `_CHANGE_TYPE` and maybe `_CHANGE_SEQUENCE_NUMBER`.

The rules and limits are those of BigQuery's change data capture: only UPSERT and DELETE, sequence
numbers of up to four hexadecimal sections, rows of one key without them in order of arrival, at
most 16 key columns and 2,000 columns. A row that leaves columns out changes only the others. With
`sequence_by` that orders the rows, and `_CHANGE_SEQUENCE_NUMBER` is not looked at.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import DataType

from lakehouse.table import Table
from lakehouse.table_rules import MOST_BIGQUERY_COLUMNS, MOST_BIGQUERY_KEYS
from silver import row_order
from silver.changes import ORIGIN, changes, fault, origin
from silver.contract import DELETE, NONE, UPSERT
from silver.expressions import with_named_columns
from silver.flat import Rows, absent, lacking, names_array, rows
from silver.presence import nulls_to_ignore
from silver.sequence import WIDTH, canonical, join, section
from silver.times import row_time

_TYPE, _NUMBER = "_CHANGE_TYPE", "_CHANGE_SEQUENCE_NUMBER"


def to_changes(raw: DataFrame, table: Table) -> DataFrame:
    """Decode rows; see `silver.contract` for what comes out."""
    documents = raw.select(origin(), F.col("_raw").alias("__document"))
    times = [feed.time_column for feed in table.feeds if feed.time_column]
    named = dict.fromkeys(row_order.underscored([*row_order.orders(table), *times]))
    found = rows(documents, table, {**named, _TYPE: "string", _NUMBER: "string"})
    complete = with_named_columns(found.frame, row_order.orders(table))
    ordered = row_order.placed(complete, table)
    types = row_order.types_of(ordered)
    parts = {
        "_operation": _operation(),
        "_sequence": _sequence(types),
        "_absent": F.when(_is(UPSERT), _absent(found, table)),
        "_source_time": row_time(ordered, table, row_order.moments(types)),
    }
    return changes(ordered, found.columns, _fault(table, types), parts, found.ignored)


def _is(operation: str) -> Column:
    return F.col(_TYPE) == operation.upper()


def _operation() -> Column:
    nothing = F.col("__document").isNull()
    return F.when(nothing, NONE).when(_is(UPSERT), UPSERT).when(_is(DELETE), DELETE)


def _sequence(types: list[DataType]) -> Column:
    if types:
        return row_order.sequence(types)
    number = F.col(_NUMBER)
    return F.when(number.isNull(), _by_arrival()).otherwise(canonical(number))


def _by_arrival() -> Column:
    """Before all numbers, each row at a place of its own: equal rows may come in turns."""
    digits = F.rpad(F.col(f"{ORIGIN}._arrival"), 3 * WIDTH, "0")
    parts = [F.substring(digits, 1 + at * WIDTH, WIDTH) for at in range(3)]
    return join(section(F.lit(0)), *parts)


def _absent(found: Rows, table: Table) -> Column:
    ignored = nulls_to_ignore(table, found.columns)
    return absent(found.columns, table.keys, lacking(found.columns), ignored)


def _fault(table: Table, types: list[DataType]) -> Column:
    known = F.coalesce(F.col(_TYPE).isin("UPSERT", "DELETE"), F.lit(False))
    wrong = _found(_NUMBER, "1 to 4 sections of 1 to 16 hex digits")
    wrong_number = fault("bad_sequence", row_order.found(types) if types else wrong)
    return F.when(
        F.col("__document").isNotNull(),
        F.coalesce(
            F.when(~F.col("__whole"), fault("not_json", "the row is no JSON object")),
            F.when(~known, fault("unknown_operation", _unknown())),
            _beyond_limits(table),
            F.col("__key_fault"),
            F.when(_is(UPSERT), F.col("__value_fault")),
            F.when(_sequence(types).isNull(), wrong_number),
        ),
    )


def _unknown() -> Column:
    said = F.lit("The given value is not a valid CHANGE_TYPE. ")
    return F.concat(said, _found(_TYPE, "UPSERT or DELETE"))


def _found(name: str, expected: str) -> Column:
    value = F.coalesce(F.concat(F.lit("'"), F.col(name), F.lit("'")), F.lit("nothing"))
    return F.concat(F.lit(f"{name}: found "), value, F.lit(f", expected {expected}"))


def _beyond_limits(table: Table) -> Column:
    if len(table.keys) > MOST_BIGQUERY_KEYS:
        return fault(
            "illegal_change", f"{len(table.keys)} key columns, at most {MOST_BIGQUERY_KEYS}"
        )
    columns = F.size(F.array_except(F.col("__names"), names_array([_TYPE, _NUMBER])))
    message = F.concat(columns.cast("string"), F.lit(f" columns, at most {MOST_BIGQUERY_COLUMNS}"))
    return F.when(columns > MOST_BIGQUERY_COLUMNS, fault("illegal_change", message))
