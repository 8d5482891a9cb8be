"""`validate`: the YAML, without Spark."""

from pathlib import Path
from typing import Annotated

import typer

from cdc_lakehouse.cli.front import command, load_conf
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.silence import open_checks
from cdc_lakehouse.terminal.console import warn
from lakehouse.config.table import Table
from lakehouse.config.unpacking import find_nearest, refuse_lines, table_schema
from lakehouse.words import render_count
from silver.expectations.problems import find_unknown_columns


def find_misspelt_keys(table: Table) -> list[str]:
    """A sentence for each key that is no column, but has nearly the name of one."""
    unknown = [key for key in table.keys if key not in table.columns]
    meant = {key: find_nearest(key, table.columns) for key in unknown}
    return [f"keys: {key}: did you mean {name}?" for key, name in meant.items() if name]


@command("validate")
def validate(
    chosen: Chosen,
    write_schema: Annotated[
        bool, typer.Option("--write-schema", help="Also write table.schema.json.")
    ] = False,
) -> None:
    """Check all YAML without starting Spark."""
    target, tables = load_conf(chosen)
    for table in tables:
        refuse_lines(f"table {table.table}", find_unknown_columns(target, table))
    if write_schema:
        Path(chosen.conf, "table.schema.json").write_text(table_schema(), encoding="utf-8")
    for table in tables:
        keys = ", ".join(table.keys) or "no key"
        print(f"{table.table:<24} {table.format:<9} type {table.stored_as_scd_type}  {keys}")
        for key in find_misspelt_keys(table):
            warn(f"{table.table}: {key}")
    for name, lines in open_checks(chosen.conf, tables).items():
        print(f"{name}: {render_count(len(lines), 'line')} with '# check' in its YAML to look at")
    print(f"ok: {render_count(len(tables), 'table')}, target {target.name}")
