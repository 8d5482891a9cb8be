"""A lake as the layers use it: the Spark session, and the places of the tables."""

import re
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

from lakehouse.config.target import Layer, Target
from lakehouse.places.place import list_folder, to_place
from lakehouse.storage import names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession
    from pyspark.sql.types import StructField, StructType


@dataclass(frozen=True)
class Lake:
    """A Spark session and the target that it works on.

    `at_once` queries are best run in parallel: planning a query over many tables keeps one
    processor busy.
    """

    spark: "SparkSession"
    target: Target
    at_once: ClassVar[int] = 2

    def name(self, layer: Layer, table: str) -> str:
        """The quoted SQL name of a table."""
        return names.table_name(self.target, layer, table)

    def exists(self, layer: Layer, table: str) -> bool:
        """Whether a table has been created; without a catalog only its folder is listed."""
        folder = names.table_folder(self.target, layer, table)
        if folder is not None:
            return names.is_delta_table(to_place(self.target, folder))
        return self.spark.catalog.tableExists(self.name(layer, table))

    def list_tables(self, layer: Layer) -> list[str]:
        """A layer's tables by their own names; those of a rebuild only for the rebuild's target."""
        folder = names.table_folder(self.target, layer, "")
        if folder is not None:
            return names.list_tables_in(to_place(self.target, folder))
        beside = names.rebuild_suffix(self.target) if layer == "silver" else ""
        tables = self._list_registered(layer)
        if beside:
            return sorted(n.removesuffix(beside) for n in tables if n.endswith(beside))
        return sorted(n for n in tables if "__rebuild_" not in n)

    def list_rebuilds(self) -> list[str]:
        """The ids of the rebuilds that have silver tables."""
        if not self.target.catalog:
            folder = to_place(self.target, self.target.lake, "_rebuilds")
            return sorted(f.name for f in list_folder(folder) if f.is_dir())
        ids = (re.search(r"__rebuild_([^_]+)$", name) for name in self._list_registered("silver"))
        return sorted({match[1] for match in ids if match})

    def _list_registered(self, layer: Layer) -> list[str]:
        schema = names.schema_name(self.target, layer)
        return [table.name for table in self.spark.catalog.listTables(schema)]

    def column_types(self, layer: Layer, table: str) -> dict[str, str]:
        """The columns of a table with their types in Spark's SQL."""
        fields = self.spark.table(self.name(layer, table)).schema.fields
        return {field.name: field.dataType.simpleString() for field in fields}

    def ask(self, query: str) -> list[dict[str, Any]]:
        """The rows of a query, by column; times are in UTC, without a zone."""
        return [row.asDict(recursive=True) for row in self.spark.sql(query).collect()]


class LakeTable:
    """A Delta table of a lake. Its schema is read once, and again after `forget`."""

    def __init__(self, lake: Lake, layer: Layer, table: str) -> None:
        self.lake, self.layer, self.table = lake, layer, table
        self._schema: StructType | None = None

    @property
    def name(self) -> str:
        """The quoted SQL name."""
        return self.lake.name(self.layer, self.table)

    @property
    def exists(self) -> bool:
        """Whether the table has been created."""
        return self._schema is not None or self.lake.exists(self.layer, self.table)

    @property
    def schema(self) -> "StructType":
        """The table's schema; the table must exist."""
        if self._schema is None:
            self._schema = self.read().schema
        return self._schema

    @property
    def business(self) -> "list[StructField]":
        """The columns of the source, whose names do not begin with `_`; none without the table."""
        if not self.exists:
            return []
        return [field for field in self.schema.fields if not field.name.startswith("_")]

    def read(self) -> "DataFrame":
        """All rows."""
        return self.lake.spark.table(self.name)

    def forget(self) -> None:
        """Drops the schema, which is then read again."""
        self._schema = None
