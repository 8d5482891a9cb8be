"""Raw bronze rows as changes: one module per source format, chosen from one dictionary."""

from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.table import Column, Table
from silver import bigquery, debezium, extract_rows, layout, rows, ydb
from silver.contract import CHANGE_COLUMNS
from silver.null_rules import without_nulls

Decoder = Callable[[DataFrame, Table], DataFrame]

DECODERS: Mapping[str, Decoder] = {
    "debezium": debezium.to_changes,
    "ydb": ydb.to_changes,
    "bigquery": bigquery.to_changes,
    "rows": rows.to_changes,
    "snapshot": extract_rows.to_changes,
}


def decode(raw: DataFrame, table: Table, learned: list[StructField]) -> DataFrame:
    """Decodes bronze rows of one table, one row out per row in.

    Args:
        raw: bronze rows.
        table: the table's configuration.
        learned: business columns that earlier batches brought, with their types.

    Returns:
        Key and business columns that the table publishes, then the contract's change columns.
    """
    changes = DECODERS[table.format](raw, with_learned(table, learned))
    given = [f.name for f in layout.business(changes.schema)]
    kept = [name for name in given if name in table.keys or published(table, name)]
    chosen = changes.select(
        *[F.col(f"`{name}`") for name in kept], *[c.name for c in CHANGE_COLUMNS]
    )
    return without_nulls(chosen, table)


def published(table: Table, name: str) -> bool:
    """Whether a column is one the table keeps, by its column lists."""
    if table.column_list is not None:
        return name in table.column_list
    return name not in (table.except_column_list or [])


def with_learned(table: Table, learned: list[StructField]) -> Table:
    """The table with the columns of earlier batches declared.

    So that their types stay what they were.
    """
    known = {f.name: Column(type=f.dataType.simpleString()) for f in learned}
    return table.model_copy(update={"columns": known | dict(table.columns)})
