"""The Delta tables of a flow: the target, its state, and its dead letters.

The target has the source's columns only, and follows the state: the rows of a batch are added to
the state, and from there merged into the target. A process that ends between the two leaves a batch
that the next call publishes.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path

from pyspark.errors import AnalysisException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import types as T

from lakehouse.storage.names import literal, quote

NOT_THERE = (
    "TABLE_OR_VIEW_NOT_FOUND", "DELTA_PATH_DOES_NOT_EXIST", "DELTA_TABLE_NOT_FOUND",
    "DELTA_MISSING_DELTA_TABLE", "PATH_NOT_FOUND", "DELTA_SCHEMA_NOT_SET",
)  # fmt: skip
"""Spark's and Delta's conditions of a table that has not been created."""


@dataclass(frozen=True)
class FlowTable:
    """A Delta table by its name in a catalog, or by its path. Its schema is looked at once."""

    spark: SparkSession
    place: str

    def table_beside(self, suffix: str) -> "FlowTable":
        """The table beside it, whose name ends in `suffix`."""
        return FlowTable(self.spark, self.place.rstrip("/") + suffix)

    @property
    def is_path(self) -> bool:
        """Whether the table is named by its path."""
        return "/" in self.place or "\\" in self.place

    @property
    def location(self) -> str:
        """The whole path of a table that is named by its path: Delta takes no other."""
        scheme = ":" in self.place.partition("/")[0]
        return self.place if scheme else str(Path(self.place).absolute())

    @property
    def name(self) -> str:
        """The quoted SQL name."""
        if self.is_path:
            return f"delta.{quote(self.location)}"
        return ".".join(quote(part.strip("`")) for part in self.place.split("."))

    @cached_property
    def schema(self) -> T.StructType | None:
        """The table's schema; None where there is no table."""
        try:
            return self.spark.table(self.name).schema
        except AnalysisException as error:
            if (error.getCondition() or "").partition(".")[0] in NOT_THERE:
                return None
            raise

    @property
    def exists(self) -> bool:
        """Whether there is such a table."""
        return self.schema is not None

    def forget_schema(self) -> None:
        """Has the schema looked at again."""
        self.__dict__.pop("schema", None)

    def read(self) -> DataFrame:
        """All rows."""
        return self.spark.table(self.name)

    def read_properties(self) -> dict[str, str]:
        """The table's properties."""
        rows = self.spark.sql(f"SHOW TBLPROPERTIES {self.name}").collect()
        return {row["key"]: row["value"] for row in rows}

    def set_properties(self, properties: Mapping[str, str]) -> None:
        """Sets properties, in a commit of its own."""
        self.spark.sql(f"ALTER TABLE {self.name} SET TBLPROPERTIES ({_pairs_sql(properties)})")

    def create(self, columns: str, comment: str, properties: Mapping[str, str]) -> None:
        """Creates the table, whose columns are SQL."""
        clause = f" TBLPROPERTIES ({_pairs_sql(properties)})" if properties else ""
        self.spark.sql(
            f"CREATE TABLE IF NOT EXISTS {self.name} ({columns}) USING delta"
            f" COMMENT {literal(comment)}{clause}"
        )
        self.forget_schema()

    def append(self, rows: DataFrame) -> None:
        """Adds rows by the names of their columns."""
        rows.writeTo(self.name).append()

    def add_columns(self, columns: str) -> None:
        """Adds columns, which are SQL."""
        self.spark.sql(f"ALTER TABLE {self.name} ADD COLUMNS ({columns})")
        self.forget_schema()

    def replace_rows(self, rows: DataFrame, retyped: bool = False) -> None:
        """Puts rows in place of the table's; `retyped` ones with whatever columns they have."""
        write = rows.write.format("delta").mode("overwrite").option("overwriteSchema", retyped)
        if self.is_path:
            write.save(self.location)
        else:
            write.saveAsTable(self.name)
        self.forget_schema()


def _pairs_sql(properties: Mapping[str, str]) -> str:
    return ", ".join(f"{literal(k)} = {literal(v)}" for k, v in properties.items())
