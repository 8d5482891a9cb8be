"""What a table is called in SQL on this target, and the one place where anything is quoted."""

import re
from collections.abc import Collection, Iterable, Mapping
from typing import TYPE_CHECKING

from lakehouse.config.target import Layer, Target
from lakehouse.places.place import Place, ask_each, list_folder, place

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def name(target: Target, layer: Layer, table: str) -> str:
    """The table's quoted name: delta.`/root/lake/silver/T`, or `catalog`.`schema`.`T`."""
    folder = location(target, layer, table)
    if folder is not None:
        return f"delta.{quote(folder)}"
    beside = suffix(target) if layer == "silver" else ""
    return f"{schema(target, layer)}.{quote(table + beside)}"


def short_names(target: Target, text: str) -> str:
    """A text for a person, in which tables of a lake without a catalog are called `silver.T`."""
    return re.sub(rf"delta\.`{re.escape(target.lake)}/(\w+)/([^`]+)`", r"\1.\2", text)


def schema(target: Target, layer: Layer) -> str:
    """The quoted schema of a layer in the target's catalog."""
    return f"{quote(str(target.catalog))}.{quote(getattr(target.schemas, layer))}"


def location(target: Target, layer: Layer, table: str) -> str | None:
    """The table's folder; None where a catalog keeps it."""
    if target.catalog:
        return None
    if layer == "silver" and target.aside is not None:
        return f"{target.lake}/_rebuilds/{target.aside}/{table}"
    return f"{target.lake}/{layer}/{table}"


def folder_of(name: str) -> str | None:
    """The folder of a table that has its quoted name from it; None of a catalog's table."""
    return name[7:-1].replace("``", "`") if name.startswith("delta.`") else None


def suffix(target: Target) -> str:
    """What ends the names of a catalog's silver tables that stand beside the live ones."""
    return "" if target.aside is None else f"__rebuild_{target.aside}"


def listed(spark: "SparkSession", target: Target, layer: Layer) -> list[str]:
    """The layer's tables by their own names, as `name` takes them; without a catalog the folders.

    Tables beside the live ones belong to their own target only.
    """
    folder = location(target, layer, "")
    if folder is not None:
        return in_folder(place(target, folder))
    beside = suffix(target) if layer == "silver" else ""
    found = [table.name for table in spark.catalog.listTables(schema(target, layer))]
    if beside:
        return sorted(n.removesuffix(beside) for n in found if n.endswith(beside))
    return sorted(n for n in found if "__rebuild_" not in n)


def rebuilds(spark: "SparkSession", target: Target) -> list[str]:
    """The ids of the rebuilds of which silver tables stand beside the live ones."""
    if not target.catalog:
        folder = place(target, target.lake, "_rebuilds")
        return sorted(f.name for f in list_folder(folder) if f.is_dir())
    found = [table.name for table in spark.catalog.listTables(schema(target, "silver"))]
    ids = (re.search(r"__rebuild_([^_]+)$", name) for name in found)
    return sorted({match[1] for match in ids if match})


def exists(spark: "SparkSession", target: Target, layer: Layer, table: str) -> bool:
    """Whether the table has been created; without a catalog one look at the file system."""
    folder = location(target, layer, table)
    if folder is not None:
        return created(place(target, folder))
    return spark.catalog.tableExists(name(target, layer, table))


def in_folder(folder: Place) -> list[str]:
    """The Delta tables in a folder that may be missing, by name."""
    found = list_folder(folder)
    are_tables = ask_each(created, found)
    return sorted(f.name for f, is_table in zip(found, are_tables, strict=True) if is_table)


def created(folder: Place) -> bool:
    """Whether a folder is a Delta table: it has a commit.

    A creation that was killed leaves a log without one, or with the temporary file of one.
    """
    return any(file.suffix == ".json" for file in list_folder(folder / "_delta_log"))


def quote(identifier: str) -> str:
    """An identifier (or a path) in backquotes, so that any name is safe in SQL."""
    return "`" + identifier.replace("`", "``") + "`"


def same(left: str, right: str, columns: Iterable[str], nullable: Collection[str] = ()) -> str:
    """SQL of whether two relations agree on the columns; null equals null in `nullable` ones."""
    return " AND ".join(
        f"{left}.{quote(c)} {'<=>' if c in nullable else '='} {right}.{quote(c)}" for c in columns
    )


def all_of(*conditions: str | None) -> str:
    """SQL of whether all conditions hold; None is one that always does."""
    return " AND ".join(condition for condition in conditions if condition)


def literal(text: str) -> str:
    """A SQL string literal: backslashes and single quotes escaped."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def properties(given: Mapping[str, str]) -> str:
    """SQL of table properties, in brackets."""
    return f"({', '.join(f'{literal(key)} = {literal(value)}' for key, value in given.items())})"


def clustering(columns: Collection[str]) -> str:
    """The clause of a table that is clustered by the columns; nothing without any."""
    return f" CLUSTER BY ({', '.join(map(quote, columns))})" if columns else ""
