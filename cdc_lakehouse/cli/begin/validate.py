"""`validate`: the YAML, without Spark."""

from pathlib import Path
from typing import Annotated

import typer

from cdc_lakehouse.cli.front import command, configured
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.work.silence import open_checks
from lakehouse.config.unpacking import refuse_lines, table_schema
from lakehouse.words import counted
from silver.expectations.problems import find_unknown_columns


@command("validate")
def validate(
    chosen: Chosen,
    write_schema: Annotated[
        bool, typer.Option("--write-schema", help="Also write table.schema.json.")
    ] = False,
) -> None:
    """Check all YAML without starting Spark."""
    target, tables = configured(chosen)
    for table in tables:
        refuse_lines(f"table {table.table}", find_unknown_columns(target, table))
    if write_schema:
        Path(chosen.conf, "table.schema.json").write_text(table_schema(), encoding="utf-8")
    for table in tables:
        keys = ", ".join(table.keys) or "no key"
        print(f"{table.table:<24} {table.format:<9} type {table.stored_as_scd_type}  {keys}")
    open_lines = open_checks(chosen.conf, tables)
    for name, lines in open_lines.items():
        print(f"{name}: {counted(len(lines), 'line')} with '# check' in its YAML to look at")
    print(f"ok: {counted(len(tables), 'table')}, target {target.name}")
