"""Names and folders of tables on a target, and all quoting for SQL."""

import re
from collections.abc import Collection, Iterable, Mapping

from lakehouse.config.target import Layer, Target
from lakehouse.places.place import Place, ask_each, list_folder


def table_name(target: Target, layer: Layer, table: str) -> str:
    """The table's quoted name: delta.`/root/lake/silver/T`, or `catalog`.`schema`.`T`."""
    folder = table_folder(target, layer, table)
    if folder is not None:
        return f"delta.{quote(folder)}"
    beside = rebuild_suffix(target) if layer == "silver" else ""
    return f"{schema_name(target, layer)}.{quote(table + beside)}"


def short_names(target: Target, text: str) -> str:
    """A message with tables of a lake without a catalog shortened to `silver.T`."""
    return re.sub(rf"delta\.`{re.escape(target.lake)}/(\w+)/([^`]+)`", r"\1.\2", text)


def schema_name(target: Target, layer: Layer) -> str:
    """The quoted schema of a layer in the target's catalog."""
    return f"{quote(str(target.catalog))}.{quote(getattr(target.schemas, layer))}"


def table_folder(target: Target, layer: Layer, table: str) -> str | None:
    """The table's folder; None in a catalog."""
    if target.catalog:
        return None
    if layer == "silver" and target.aside is not None:
        return f"{target.lake}/_rebuilds/{target.aside}/{table}"
    return f"{target.lake}/{layer}/{table}"


def folder_of(name: str) -> str | None:
    """The folder in a table's quoted name; None for a table of a catalog."""
    return name[7:-1].replace("``", "`") if name.startswith("delta.`") else None


def rebuild_suffix(target: Target) -> str:
    """The suffix of a rebuild's silver tables in a catalog; empty for live tables."""
    return "" if target.aside is None else f"__rebuild_{target.aside}"


def list_tables_in(folder: Place) -> list[str]:
    """The Delta tables in a folder that may be missing, by name."""
    entries = list_folder(folder)
    are_tables = ask_each(is_delta_table, entries)
    return sorted(f.name for f, is_table in zip(entries, are_tables, strict=True) if is_table)


def is_delta_table(folder: Place) -> bool:
    """Whether a folder is a Delta table: its log has a commit.

    A killed creation leaves a log without one, or with a temporary file.
    """
    return any(file.suffix == ".json" for file in list_folder(folder / "_delta_log"))


def quote(identifier: str) -> str:
    """An identifier or path in backquotes, safe in SQL."""
    return "`" + identifier.replace("`", "``") + "`"


def agree_on(left: str, right: str, columns: Iterable[str], nullable: Collection[str] = ()) -> str:
    """The condition that two relations agree on columns; null equals null in `nullable` ones."""
    return " AND ".join(
        f"{left}.{quote(c)} {'<=>' if c in nullable else '='} {right}.{quote(c)}" for c in columns
    )


def join_conditions(*conditions: str | None) -> str:
    """The conjunction of conditions; None is always true."""
    return " AND ".join(condition for condition in conditions if condition)


def literal(text: str) -> str:
    """A SQL string literal: backslashes and single quotes escaped."""
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def render_properties(given: Mapping[str, str]) -> str:
    """The list of table properties for TBLPROPERTIES, in brackets."""
    return f"({', '.join(f'{literal(key)} = {literal(value)}' for key, value in given.items())})"


def render_clustering(columns: Collection[str]) -> str:
    """The CLUSTER BY clause; empty without columns."""
    return f" CLUSTER BY ({', '.join(map(quote, columns))})" if columns else ""
