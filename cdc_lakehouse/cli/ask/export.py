"""`export`: what a view of gold shows, written once to a folder."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from cdc_lakehouse.cli.front import check_lake, command, load_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.terminal.console import show_progress
from lakehouse.config.loading import select_tables
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import quote
from lakehouse.words import JSON_OPTIONS, render_count

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

Name = Annotated[str, typer.Argument(metavar="TABLE", help="A table, or TABLE_history.")]
Destination = Annotated[str, typer.Argument(metavar="DEST", help="A new or empty folder.")]
Kind = Literal["delta", "parquet", "csv"]
Written = Annotated[Kind, typer.Option("--format", help="What is written.")]
_HISTORY = "_history"


@command("export")
def export(chosen: Chosen, table: Name, dest: Destination, format: Written = "delta") -> None:
    """Write the rows that gold shows of TABLE to the folder DEST, once.

    Pending changes are included. Delta and Parquet files need no special reader.
    """
    target, tables = load_conf(chosen._replace(only=()))
    histories = {f"{t.table}{_HISTORY}" for t in tables if t.stored_as_scd_type == 2}
    name = table.removesuffix(_HISTORY) if table in histories else table
    (one,) = select_tables(tables, [name])
    folder = _empty_folder(target, dest)
    check_lake(target)
    lake = open_lake(target, [one])
    rows = write_view(lake, table, (folder, format))
    print(f"{table}: {render_count(rows, 'row')} of gold.{table} written to {folder} as {format}")


def write_view(lake: Lake, view: str, to: tuple[str, Kind]) -> int:
    """Writes a view of gold to a folder in a format; returns the number of rows.

    Raises:
        ConfigurationError: gold has no such view yet.
    """
    from pyspark.sql import Observation
    from pyspark.sql import functions as F

    from gold.published import PLAIN, plain_rows
    from gold.views import catalog

    folder, format = to
    shown = catalog.read_view(lake, view)
    if shown is None:
        action = "run `lakehouse run` first"
        raise ConfigurationError("command line", "TABLE", view, "a table that gold has", action)
    seen = Observation()
    rows = (_as_text(shown) if format == "csv" else plain_rows(shown)).observe(
        seen, F.count(F.lit(1)).alias("rows")
    )
    options = {"delta": PLAIN, "csv": {"header": "true", "escape": '"'}}.get(format, {})
    with show_progress(f"writing {view}"):
        rows.write.format(format).mode("errorifexists").options(**options).save(folder)
    return int(seen.get["rows"])


def _as_text(rows: "DataFrame") -> "DataFrame":
    """The rows with nested values and bytes as JSON has them: CSV has no form of its own."""
    from pyspark.sql import functions as F
    from pyspark.sql import types as T

    nested = (T.ArrayType, T.MapType, T.StructType, T.VariantType)
    texts = {}
    for field in rows.schema.fields:
        column = F.col(quote(field.name))
        if isinstance(field.dataType, nested):
            texts[field.name] = F.to_json(column, JSON_OPTIONS)
        elif isinstance(field.dataType, T.BinaryType):
            texts[field.name] = F.base64(column)
    return rows.withColumns(texts) if texts else rows


def _empty_folder(target: Target, dest: str) -> str:
    """The folder as Spark takes it; only a local one is checked, and removed if it is empty.

    Raises:
        ConfigurationError: it is not empty, or a file.
    """
    if "://" in dest or target.kind != "local":
        return dest
    folder = Path(dest).expanduser().absolute()
    if folder.exists() and not (folder.is_dir() and not any(folder.iterdir())):
        kind = "a folder that is not empty" if folder.is_dir() else "a file"
        expected, action = "a new or empty folder", "name another one"
        raise ConfigurationError("command line", "DEST", f"{dest}: {kind}", expected, action)
    if folder.is_dir():
        folder.rmdir()
    return str(folder)
