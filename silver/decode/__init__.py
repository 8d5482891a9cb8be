"""Raw bronze rows as changes: one module per source format, chosen from one dictionary."""

import importlib
from collections.abc import Callable, MutableMapping
from typing import Any

from pyspark.sql import DataFrame
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from lakehouse.formats import FORMATS
from lakehouse.names import quote
from lakehouse.table import LearnedColumn, Table
from silver import debezium, layout
from silver.column_lists import published
from silver.contract import CHANGE_COLUMNS
from silver.flat import names_array
from silver.group_order import with_group_sequences
from silver.null_rules import without_nulls

Decoder = Callable[[DataFrame, Table], DataFrame]
Recall = MutableMapping[str, Any]
RECALLING: dict[str, Callable[[DataFrame, Table, Recall], DataFrame]] = {
    "debezium": debezium.to_changes_again
}
"""The decoders that can go by what a table's last batch showed."""


def decoder(format: str) -> Decoder:
    """The decoder of a source format, from the module that `lakehouse.formats.FORMATS` names."""
    to_changes: Decoder = importlib.import_module(f"silver.{FORMATS[format]}").to_changes
    return to_changes


def decode(
    raw: DataFrame, table: Table, learned: list[StructField], recall: Recall | None = None
) -> DataFrame:
    """Decodes bronze rows of one table, one row out per row in.

    Args:
        raw: bronze rows.
        table: the table's configuration.
        learned: business columns that earlier batches brought, with their types.
        recall: what the run keeps of the last batches, by table, where it keeps anything.

    Returns:
        Key and business columns that the table publishes, then the contract's change columns.
    """
    known = with_learned(table, learned)
    if recall is not None and table.format in RECALLING:
        decoded = RECALLING[table.format](raw, known, recall)
    else:
        decoded = decoder(table.format)(raw, known)
    changes = with_group_sequences(decoded, table)
    given = [f.name for f in layout.business(changes.schema)]
    kept = [name for name in given if name in table.keys or published(table, name)]
    published_ones = F.array_intersect("_absent", names_array(kept))
    absent = F.when(F.size(published_ones) > 0, published_ones)
    shown = F.make_valid_utf8("_message")
    chosen = changes.withColumns({"_absent": absent, "_message": shown}).select(
        *[F.col(quote(name)) for name in kept], *[c.name for c in CHANGE_COLUMNS]
    )
    return without_nulls(chosen, table)


def with_learned(table: Table, learned: list[StructField]) -> Table:
    """The table with the columns of earlier batches declared.

    So that their types stay what they were.
    """
    known = {f.name: LearnedColumn(type=f.dataType.simpleString()) for f in learned}
    return table.model_copy(update={"columns": known | dict(table.columns)})
