"""Delta tables made, and rows into them in one commit: the one place where either is done.

They go by the names of their columns and get the columns' types; a value that does not fit fails.
Without a catalog they are written by path: by name Delta has Spark plan the query and then plans it
once more for itself, which takes longer than to write what a small batch holds.
"""

import time
from collections.abc import Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from types import MappingProxyType
from typing import TYPE_CHECKING, NamedTuple

from lakehouse.config.target import Layer, Target
from lakehouse.places.place import Place, place, remove_tree
from lakehouse.storage.locks import sharing
from lakehouse.storage.names import created, exists, literal, location, name, quote

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructType

Options = Mapping[str, str]
Declared = Sequence[tuple[str, str, str]]
NO_OPTIONS: Options = MappingProxyType({})
PATIENCE_SECONDS = 2.0
"""How long a log may be without its first commit before its creation is taken for killed."""


def alone(target: Target, layer: Layer, table: str) -> AbstractContextManager[None]:
    """For a commit to a table that runs share: no other run commits to one meanwhile.

    Those are silver's tables whose names begin with an underscore, and gold's. Every other table is
    one run's, which holds its lock. A commit must not be made within another's context.
    """
    shared = layer == "gold" or (layer == "silver" and table.startswith("_"))
    return sharing(target) if shared else nullcontext()


def create(spark: "SparkSession", target: Target, layer: Layer, table: str, statement: str) -> None:
    """Runs the CREATE TABLE of a table that `names.exists` does not find.

    A creation that was killed left a log without a commit. Delta takes that for a table, which it
    can then neither read nor create, so it is removed, unless another run ends it meanwhile.
    """
    folder = location(target, layer, table)
    if folder is not None:
        _remove_killed(place(target, folder))
    with alone(target, layer, table):
        spark.sql(statement)


def _remove_killed(folder: Place) -> None:
    log, deadline = folder / "_delta_log", time.monotonic() + PATIENCE_SECONDS
    while log.is_dir() and not created(folder):
        if time.monotonic() > deadline:
            remove_tree(log)
        time.sleep(0.05)


def append(
    spark: "SparkSession",
    target: Target,
    layer: Layer,
    table: str,
    rows: "DataFrame",
    options: Options = NO_OPTIONS,
) -> None:
    """Adds rows to a table that is there; `options` are Delta's, such as `txnAppId`."""
    if location(target, layer, table) is not None:
        rows = cast_to(rows, spark.table(name(target, layer, table)).schema)
    append_typed(target, layer, table, rows, options)


def append_typed(
    target: Target, layer: Layer, table: str, rows: "DataFrame", options: Options = NO_OPTIONS
) -> None:
    """Adds rows that have the table's own types already: nobody asks for these types again."""
    folder = location(target, layer, table)
    if folder is None:
        rows.writeTo(name(target, layer, table)).options(**options).append()
        return
    with alone(target, layer, table):
        rows.write.format("delta").mode("append").options(**options).save(folder)


class DeclaredTable(NamedTuple):
    """A Delta table whose columns are declared in the code: name, type and comment of each."""

    layer: Layer
    name: str
    comment: str
    columns: Declared
    properties: Options = NO_OPTIONS

    def exists(self, spark: "SparkSession", target: Target) -> bool:
        """Whether the table has been created."""
        return exists(spark, target, self.layer, self.name)

    def create_sql(self, target: Target) -> str:
        """CREATE TABLE with a comment on the table and on each column."""
        columns = (f"{quote(c)} {kind} COMMENT {literal(text)}" for c, kind, text in self.columns)
        set_to = ", ".join(f"{literal(k)} = {literal(v)}" for k, v in self.properties.items())
        return (
            f"CREATE TABLE IF NOT EXISTS {name(target, self.layer, self.name)}"
            f" ({', '.join(columns)}) USING delta COMMENT {literal(self.comment)}"
            + (f" TBLPROPERTIES ({set_to})" if set_to else "")
        )

    def ensure(self, spark: "SparkSession", target: Target) -> None:
        """Creates the table where it is missing."""
        if not self.exists(spark, target):
            create(spark, target, self.layer, self.name, self.create_sql(target))

    def rows(self, spark: "SparkSession", values: Sequence[Mapping[str, object]]) -> "DataFrame":
        """Values of this process by column as rows; a column that a row lacks is null."""
        from lakehouse.spark.local_rows import local_rows

        schema = ", ".join(f"{quote(column)} {kind}" for column, kind, _ in self.columns)
        return local_rows(spark, values, schema)

    def append(
        self, spark: "SparkSession", target: Target, values: Sequence[Mapping[str, object]]
    ) -> None:
        """Adds values of this process, in one commit; none at all write nothing."""
        if values:
            self.ensure(spark, target)
            append(spark, target, self.layer, self.name, self.rows(spark, values))

    def read(self, spark: "SparkSession", target: Target) -> "DataFrame":
        """All rows, in no order; none where the table is missing."""
        if not self.exists(spark, target):
            return self.rows(spark, [])
        return spark.table(name(target, self.layer, self.name))


def replace(
    spark: "SparkSession", target: Target, layer: Layer, table: str, rows: "DataFrame"
) -> None:
    """Puts rows in place of all that a table holds; its columns and properties stay."""
    replace_where(spark, target, layer, table, rows, None)


def replace_where(
    spark: "SparkSession",
    target: Target,
    layer: Layer,
    table: str,
    rows: "DataFrame",
    condition: str | None,
) -> None:
    """Puts rows in place of those that meet a condition in SQL, which all new rows must meet."""
    from pyspark.sql import functions as F

    folder = location(target, layer, table)
    if folder is None:
        every = F.lit(True) if condition is None else F.expr(condition)
        rows.writeTo(name(target, layer, table)).overwrite(every)
        return
    fitting = cast_to(rows, spark.table(name(target, layer, table)).schema)
    where = {} if condition is None else {"replaceWhere": condition}
    with alone(target, layer, table):
        fitting.write.format("delta").mode("overwrite").options(**where).save(folder)


def cast_to(rows: "DataFrame", schema: "StructType") -> "DataFrame":
    """The rows with the types that a table of the schema has."""
    from pyspark.sql import functions as F

    types = {field.name.lower(): field.dataType for field in schema.fields}
    other = {
        field.name: F.col(quote(field.name)).cast(types[field.name.lower()])
        for field in rows.schema.fields
        if types.get(field.name.lower(), field.dataType) != field.dataType
    }
    return rows.withColumns(other) if other else rows
