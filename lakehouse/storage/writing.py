"""Creates Delta tables, and writes rows to them in one commit.

Columns are matched by name and cast to the table's types; a value that does not fit is an error.
Without a catalog tables are written by path: by name the query is planned twice, by Spark and by
Delta, which takes longer than writing a small batch.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.config.target import Layer, Target
from lakehouse.places.place import Place, remove_tree, to_place
from lakehouse.storage.lake import Lake
from lakehouse.storage.locks import hold_commit_lock
from lakehouse.storage.names import (
    is_delta_table,
    literal,
    quote,
    render_properties,
    table_folder,
    table_name,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Options = Mapping[str, str]
Declared = Sequence[tuple[str, str, str]]
NO_OPTIONS: Options = MappingProxyType({})
PATIENCE_SECONDS = 2.0
"""A log without a commit for longer than this is that of a killed creation."""


def hold_table_lock(target: Target, layer: Layer, table: str) -> AbstractContextManager[None]:
    """The lock for a commit to a table that runs share; no lock for other tables.

    Shared are gold's tables, and silver's whose names begin with an underscore. Every other table
    belongs to the run that holds its lock. The lock is not reentrant.
    """
    shared = layer == "gold" or (layer == "silver" and table.startswith("_"))
    return hold_commit_lock(target) if shared else nullcontext()


def create_table(lake: Lake, layer: Layer, table: str, statement: str) -> None:
    """Runs the CREATE TABLE statement of a table that does not exist.

    A killed creation leaves a log without a commit. Delta takes that for a table that it can
    neither read nor create, so it is removed, unless another run completes it meanwhile.
    """
    folder = table_folder(lake.target, layer, table)
    if folder is not None:
        _remove_killed(to_place(lake.target, folder))
    with hold_table_lock(lake.target, layer, table):
        lake.spark.sql(statement)


def _remove_killed(folder: Place) -> None:
    log, deadline = folder / "_delta_log", time.monotonic() + PATIENCE_SECONDS
    while log.is_dir() and not is_delta_table(folder):
        if time.monotonic() > deadline:
            remove_tree(log)
        time.sleep(0.05)


def append_rows(lake: Lake, layer: Layer, table: str, rows: "DataFrame") -> None:
    """Adds rows to an existing table."""
    if table_folder(lake.target, layer, table) is not None:
        rows = cast_to(rows, lake.spark.table(lake.name(layer, table)).schema)
    append_typed(lake.target, layer, table, rows)


def append_typed(
    target: Target, layer: Layer, table: str, rows: "DataFrame", options: Options = NO_OPTIONS
) -> None:
    """Adds rows that have the table's types already, without reading the schema.

    `options` are Delta's, such as `compression`.
    """
    folder = table_folder(target, layer, table)
    if folder is None:
        rows.writeTo(table_name(target, layer, table)).options(**options).append()
        return
    with hold_table_lock(target, layer, table):
        rows.write.format("delta").mode("append").options(**options).save(folder)


class DeclaredTable(NamedTuple):
    """A Delta table whose columns are declared in the code: name, type and comment of each."""

    layer: Layer
    name: str
    comment: str
    columns: Declared
    properties: Options = NO_OPTIONS

    def exists(self, lake: Lake) -> bool:
        """Whether the table has been created."""
        return lake.exists(self.layer, self.name)

    def create_sql(self, target: Target) -> str:
        """CREATE TABLE with a comment on the table and on each column."""
        columns = (f"{quote(c)} {kind} COMMENT {literal(text)}" for c, kind, text in self.columns)
        return (
            f"CREATE TABLE IF NOT EXISTS {table_name(target, self.layer, self.name)}"
            f" ({', '.join(columns)}) USING delta COMMENT {literal(self.comment)}"
            + (f" TBLPROPERTIES {render_properties(self.properties)}" if self.properties else "")
        )

    def ensure(self, lake: Lake) -> None:
        """Creates the table if it is missing."""
        if not self.exists(lake):
            create_table(lake, self.layer, self.name, self.create_sql(lake.target))

    def rows(self, spark: "SparkSession", values: Sequence[Mapping[str, object]]) -> "DataFrame":
        """Values by column as rows; missing columns are null."""
        from lakehouse.spark.local_rows import local_rows

        schema = ", ".join(f"{quote(column)} {kind}" for column, kind, _ in self.columns)
        return local_rows(spark, values, schema)

    def append(self, lake: Lake, values: Sequence[Mapping[str, object]]) -> None:
        """Adds values in one commit; writes nothing without values."""
        if values:
            self.ensure(lake)
            rows = self.rows(lake.spark, values).coalesce(1)
            append_rows(lake, self.layer, self.name, rows)

    def read(self, lake: Lake) -> "DataFrame":
        """All rows, unsorted; none if the table is missing."""
        if not self.exists(lake):
            return self.rows(lake.spark, [])
        return lake.spark.table(lake.name(self.layer, self.name))


def replace_rows(
    lake: Lake, layer: Layer, table: str, rows: "DataFrame", condition: str | None = None
) -> None:
    """Replaces all rows of a table, or those that meet a condition in SQL, as all new rows must.

    The table's columns and properties stay.
    """
    from pyspark.sql import functions as F

    folder = table_folder(lake.target, layer, table)
    if folder is None:
        every = F.lit(True) if condition is None else F.expr(condition)
        rows.writeTo(lake.name(layer, table)).overwrite(every)
        return
    fitting = cast_to(rows, lake.spark.table(lake.name(layer, table)).schema)
    where = {} if condition is None else {"replaceWhere": condition}
    with hold_table_lock(lake.target, layer, table):
        fitting.write.format("delta").mode("overwrite").options(**where).save(folder)


def cast_to(rows: "DataFrame", schema: "StructType") -> "DataFrame":
    """The rows cast to the types of a schema."""
    from pyspark.sql import functions as F

    types = {field.name.lower(): field.dataType for field in schema.fields}
    other = {
        field.name: F.col(quote(field.name)).cast(types[field.name.lower()])
        for field in rows.schema.fields
        if types.get(field.name.lower(), field.dataType) != field.dataType
    }
    return rows.withColumns(other) if other else rows
