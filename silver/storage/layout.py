"""Silver's Delta tables: their DDL, and how they grow with the columns of the source.

Of the table that changes are merged into, Delta's log keeps statistics (least and greatest value
per file) of the source's columns as well: by them a reader's filter skips files. So it is created
for a table's configuration, `statistics_for`.

Every table is created with column mapping (column names of any shape) and type widening (a column
grows in place); one whose rows batches update has deletion vectors as well: an update writes the
changed rows only. All other tables (appended to, replaced as a whole, or small) are faster to read
without them: where a table may have some, every read lists its files twice.
"""

from collections.abc import Collection

from pyspark.sql import DataFrame
from pyspark.sql.types import StringType, StructField, StructType

from lakehouse.config.column_types import has_bounds, max_length
from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.storage.lake import LakeTable
from lakehouse.storage.upkeep import STATISTICS as STATISTICS_PROPERTY
from lakehouse.storage.upkeep import cluster_sql, set_sql
from lakehouse.storage.writing import append_rows, create_table, hold_table_lock, replace_rows
from silver.contract import CURRENT_COLUMNS, HISTORY_COLUMNS, LayerColumn
from silver.decode.types import can_widen

LETTER_COLUMN = LayerColumn(
    "_letter", "string", "snapshot tables: I U D N; null on dead letters and on repeats of a row"
)
TRANSACTION_COLUMNS = (
    LayerColumn("group", "string", "the consistency group"),
    LayerColumn("transaction", "string", "the transaction, as in the change logs"),
    LayerColumn("place", "string", "where its END stands in source order; null where unknown"),
    LayerColumn("expected", "map<string,bigint>", "how many records it has of each table"),
    LayerColumn("ended_at", "timestamp", "commit time, as the END has it"),
    LayerColumn("feed", "string", "bronze table that brought the END"),
    LayerColumn("feed_batch", "bigint", "ingest batch there"),
)
PROPERTIES = {"delta.columnMapping.mode": "name", "delta.enableTypeWidening": "true"}
OF_UPDATED_TABLES = {"delta.enableDeletionVectors": "true"}
UPDATED = (CURRENT_COLUMNS, HISTORY_COLUMNS)
_SINCE = "since batch "
FIRST_COLUMNS, SHORT_TEXT = 32, 32
"""So many columns of the source have statistics; texts only up to so many characters: Delta cuts
the least and the greatest text of a file to that length."""
_MEASURED_LAYER_COLUMNS = {
    "_batch", "_feed_batch", "_arrival", "_sequence", "_source_time", "_valid_to", "at",
    "resolved_at",
}  # fmt: skip


def list_source_fields(schema: StructType) -> list[StructField]:
    """The fields of the source, without silver's own (those begin with `_`)."""
    return [field for field in schema.fields if not field.name.startswith("_")]


def list_value_columns(schema: StructType, keys: Collection[str]) -> list[str]:
    """The columns of the source that are not in the key."""
    return [field.name for field in list_source_fields(schema) if field.name not in keys]


def columns_sql(fields: list[StructField], layer: tuple[LayerColumn, ...]) -> str:
    """Column list of a CREATE TABLE, layer columns first."""
    first = [f"{names.quote(c.name)} {c.type} COMMENT {names.literal(c.comment)}" for c in layer]
    given = [f"{names.quote(f.name)} {f.dataType.simpleString()}" for f in fields]
    return ", ".join(first + given)


def create_sql(
    name: str,
    fields: list[StructField],
    layer: tuple[LayerColumn, ...],
    statistics_for: Table | None = None,
) -> str:
    """The CREATE TABLE text of a silver table."""
    properties = properties_of(layer) | _statistics_property(fields, layer, statistics_for)
    clusters = names.render_clustering(clustered_by(fields, statistics_for))
    return (
        f"CREATE TABLE IF NOT EXISTS {name} ({columns_sql(fields, layer)}) USING delta"
        f"{clusters} TBLPROPERTIES {names.render_properties(properties)}"
    )


def properties_of(layer: tuple[LayerColumn, ...]) -> dict[str, str]:
    """The properties of a table with these layer columns; no statistics of the source's columns."""
    return (
        PROPERTIES
        | (OF_UPDATED_TABLES if layer in UPDATED else {})
        | _statistics_property([], layer)
    )


def _statistics_property(
    fields: list[StructField], layer: tuple[LayerColumn, ...], statistics_for: Table | None = None
) -> dict[str, str]:
    """The property that says of which columns Delta keeps statistics."""
    columns = list_statistics_columns(fields, layer, statistics_for)
    return {STATISTICS_PROPERTY: columns} if columns else {}


def list_statistics_columns(
    fields: list[StructField], layer: tuple[LayerColumn, ...], table: Table | None
) -> str:
    """The columns that files have statistics of, as the property lists them.

    These are some of silver's own; of the source's `fields` the first, the keys and those of
    `cluster_by`. A text is taken only as a key, to be clustered by, or where its declared type
    keeps it short; a sensitive column never.
    """
    layer_columns = [c.name for c in layer if c.name in _MEASURED_LAYER_COLUMNS]
    if table is None:
        return ",".join(layer_columns)
    named = {*table.keys, *table.cluster_by}
    first = [f for f in fields[:FIRST_COLUMNS] if _is_short(f, table)]
    every = [*first, *(f for f in fields if f.name in named and f not in first)]
    return ",".join(
        [*layer_columns, *(names.quote(f.name) for f in every if _may_have_statistics(f, table))]
    )


def clustered_by(fields: list[StructField], table: Table | None) -> list[str]:
    """The columns among the fields that the table's configuration clusters by."""
    have = {field.name for field in fields}
    return [name for name in table.cluster_by if name in have] if table else []


def _is_short(field: StructField, table: Table) -> bool:
    if not isinstance(field.dataType, StringType):
        return True
    declared = table.columns.get(field.name)
    most = max_length(declared.type) if declared else None
    return most is not None and most <= SHORT_TEXT


def _may_have_statistics(field: StructField, table: Table) -> bool:
    return has_bounds(field.dataType.simpleString()) and not table.is_sensitive(field.name)


def ensure_table(
    table: LakeTable,
    fields: list[StructField],
    layer: tuple[LayerColumn, ...],
    batch: int | None = None,
    statistics_for: Table | None = None,
) -> bool:
    """Creates the table, or grows it by the fields it lacks, which came with `batch`.

    Returns whether the table is new.
    """
    if not table.exists:
        text = create_sql(table.name, fields, layer, statistics_for)
        create_table(table.lake, table.layer, table.table, text)
        return True
    growth = growth_sql(table.name, table.schema, fields, batch)
    for statement in growth:
        with hold_table_lock(table.lake.target, table.layer, table.table):
            table.lake.spark.sql(statement)
    if growth:
        table.forget()
        if statistics_for is not None:
            wanted = _statistics_property(table.business, layer, statistics_for)
            table.lake.spark.sql(set_sql(table.name, wanted))
    return False


def drop_retyped(table: LakeTable, fields: list[StructField]) -> None:
    """Drops the columns whose types cannot be widened to those of the fields."""
    for name in list_retyped(table.schema, fields):
        table.lake.spark.sql(f"ALTER TABLE {table.name} DROP COLUMN {names.quote(name)}")
    table.forget()


def list_retyped(now: StructType, fields: list[StructField]) -> list[str]:
    """The columns of a schema whose types cannot be widened to those of the fields."""
    types = {field.name.lower(): field.dataType for field in fields}
    both = [(f.name, f.dataType, types.get(f.name.lower(), f.dataType)) for f in now.fields]
    return [name for name, old, new in both if old != new and not can_widen(old, new)]


def drop_source_columns(table: LakeTable) -> None:
    """Drops the source's columns of a table without rows; their types may come from a few rows."""
    for field in table.business:
        table.lake.spark.sql(f"ALTER TABLE {table.name} DROP COLUMN {names.quote(field.name)}")
    table.forget()


def load_rows(
    table: LakeTable, rows: DataFrame, anew: bool, clustered_for: Table | None = None
) -> None:
    """Adds rows to a table, or (`anew`) replaces all its rows.

    Replacing all rows removes Delta's clustering of the table, so that is declared again.
    """
    write = replace_rows if anew else append_rows
    write(table.lake, table.layer, table.table, rows)
    if anew and (clusters := clustered_by(table.business, clustered_for)):
        table.lake.spark.sql(cluster_sql(table.name, clusters))


def growth_sql(
    name: str, now: StructType, fields: list[StructField], batch: int | None = None
) -> list[str]:
    """ALTER TABLE texts that let a table of schema `now` hold `fields`.

    New columns, with the batch that brought them as comment, and wider types.
    """
    have = {field.name.lower(): field.dataType for field in now.fields}
    new = [f for f in fields if f.name.lower() not in have]
    wider = [
        f for f in fields if f.name.lower() in have and can_widen(have[f.name.lower()], f.dataType)
    ]
    texts = [
        f"ALTER TABLE {name} ALTER COLUMN {names.quote(f.name)} TYPE {f.dataType.simpleString()}"
        for f in wider
    ]
    if new:
        since = "" if batch is None else f" COMMENT {names.literal(f'{_SINCE}{batch}')}"
        columns = ", ".join(
            f"{names.quote(f.name)} {f.dataType.simpleString()}{since}" for f in new
        )
        texts.append(f"ALTER TABLE {name} ADD COLUMNS ({columns})")
    return texts


def find_late_columns(schema: StructType) -> dict[str, int]:
    """The columns that came to a change log after its first batch, with the batch."""
    comments = {f.name: str(f.metadata.get("comment", "")) for f in list_source_fields(schema)}
    return {
        name: int(comment.removeprefix(_SINCE))
        for name, comment in comments.items()
        if comment.startswith(_SINCE)
    }
