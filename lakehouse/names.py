"""What a table is called in SQL on this target, and the one place where anything is quoted."""

from pathlib import Path
from typing import TYPE_CHECKING

from lakehouse.target import Layer, Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def name(target: Target, layer: Layer, table: str) -> str:
    """The table's quoted name: delta.`/root/lake/silver/T`, or `catalog`.`schema`.`T`."""
    folder = location(target, layer, table)
    if folder is not None:
        return f"delta.{quote(folder)}"
    return f"{schema(target, layer)}.{quote(table)}"


def schema(target: Target, layer: Layer) -> str:
    """The quoted schema of a layer in the target's catalog."""
    return f"{quote(str(target.catalog))}.{quote(getattr(target.schemas, layer))}"


def location(target: Target, layer: Layer, table: str) -> str | None:
    """The table's folder; None where a catalog keeps it."""
    return None if target.catalog else f"{target.lake}/{layer}/{table}"


def exists(spark: "SparkSession", target: Target, layer: Layer, table: str) -> bool:
    """Whether the table has been created; without a catalog one look at the file system."""
    folder = location(target, layer, table)
    if folder is not None:
        return Path(folder, "_delta_log").is_dir()
    return spark.catalog.tableExists(name(target, layer, table))


def quote(identifier: str) -> str:
    """An identifier (or a path) in backquotes, so that any name is safe in SQL."""
    return "`" + identifier.replace("`", "``") + "`"


def literal(text: str) -> str:
    """A SQL string literal: backslashes and single quotes escaped."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
