"""Why a Debezium record cannot be applied: the contract's reason, and words for a person."""

from functools import reduce

from pyspark.sql import Column
from pyspark.sql import functions as F

from lakehouse.names import literal
from lakehouse.table import Table
from silver.column_lists import adds
from silver.contract import DELETE, NONE, UPSERT
from silver.debezium_columns import Columns, held_by
from silver.debezium_reading import Reading
from silver.inference import UNFIT

_SHOWN = 100


def unfit(found: Columns, table: Table) -> Column:
    """Whether a new row, as a map, has a field that no column can hold beside its others."""
    if not found.unfit:
        return F.lit(False)
    names = F.array_distinct(F.map_keys("_after"))
    lower = F.filter(F.transform(names, F.lower), lambda name: ~name.startswith("_"))
    held = F.filter(lower, lambda name: name.isin(*held_by(table, found.fields)))
    doubled = F.size(F.array_distinct(held)) < F.size(held)
    if not adds(table):
        return doubled
    columns = [name.lower() for name in found.fields]
    return doubled | F.exists(lower, lambda name: ~name.isin(*columns))


def reason(columns: list[Reading], table: Table, odd: Column) -> Column:
    """The first reason that holds, null when the record can be applied or carries no change.

    `odd` tells whether the row is unfit.
    """
    found = F.col("_found")
    changes = found.isin(UPSERT, DELETE)
    learned = [_misfit(c) for c in columns if c.learned]
    declared = [_misfit(c) for c in columns if not c.learned]
    return (
        F.when(F.col("_malformed"), F.lit("not_json"))
        .when(found.isNull(), F.lit("unknown_operation"))
        .when(found == NONE, F.lit(None).cast("string"))
        .when((found == UPSERT) & F.col("_after").isNull(), F.lit("illegal_change"))
        .when(changes & _keyless(columns, table), F.lit("no_key"))
        .when((found == UPSERT) & odd, F.lit("incompatible_schema"))
        .when(_any(learned), F.lit("incompatible_schema"))
        .when(_any(declared), F.lit("bad_value"))
        .when(F.col("_place").isNull() | _is_before_the_first(), F.lit("bad_sequence"))
    )


def message(columns: list[Reading], table: Table, odd: Column) -> Column:
    """What was found and what was expected; null when there is no reason."""
    why = F.col("_why")
    start = F.concat(F.lit("found "), F.left("_text", F.lit(_SHOWN)), F.lit(", expected "))
    op = F.coalesce(F.col("_op"), F.lit("none"))
    keys = ", ".join(table.keys) or "the old row in before (REPLICA IDENTITY FULL)"
    texts = {
        "not_json": F.concat(start, F.lit("one JSON object with a Debezium change")),
        "unknown_operation": F.concat(
            F.lit("found op "), op, F.lit(", expected c, u, r, d, t or m")
        ),
        "illegal_change": F.concat(F.lit("found op "), op, F.lit(" without after, expected a row")),
        "no_key": F.lit(
            f"found no value for {keys}, expected one in after, the record's key or before"
        ),
        "bad_sequence": F.when(
            _is_before_the_first(),
            F.concat(F.lit("found offset "), F.col("_offset"), F.lit(", expected one from 0")),
        ).otherwise(
            F.concat(
                F.lit("found source "),
                F.left(F.to_json("_source"), F.lit(300)),
                F.lit(", expected a position"),
            )
        ),
    }
    unread = F.when(odd, F.lit(UNFIT)).otherwise(_misfits(columns))
    misfits = F.when(why.isin("incompatible_schema", "bad_value"), unread)
    return reduce(
        lambda held, of: F.when(why == of[0], of[1]).otherwise(held), texts.items(), misfits
    )


def _is_before_the_first() -> Column:
    """No log has a record at a negative offset."""
    return F.coalesce(F.col("_offset") < 0, F.lit(False))


def _keyless(columns: list[Reading], table: Table) -> Column:
    if not table.keys:
        return F.col("_op").isin("u", "d") & F.col("_before").isNull()
    return _any([f"{c.token} IS NULL" for c in columns if c.name in table.keys])


def _misfit(column: Reading) -> str:
    return f"({column.token} IS NOT NULL AND {column.value} IS NULL)"


def _misfits(columns: list[Reading]) -> Column:
    """The misfits of a record, in words; one text of SQL, as there may be many columns."""
    told = [f"CASE WHEN {_misfit(c)} THEN {_found(c)} END" for c in columns]
    return F.expr(f"concat_ws({', '.join([literal('; '), *told])})")


def _found(column: Reading) -> str:
    found = literal(f"column {column.name}: found ")
    expected = literal(f", expected {column.type.simpleString()}")
    return f"concat({found}, left({column.token}, {_SHOWN}), {expected})"


def _any(conditions: list[str]) -> Column:
    return F.expr(" OR ".join(["false", *conditions]))
