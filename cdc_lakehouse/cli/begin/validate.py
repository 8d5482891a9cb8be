"""`validate`: the YAML, without Spark."""

import os
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Annotated

import typer

from cdc_lakehouse.cli.front import command, load_conf
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.cli.silence import accept_checks, open_checks
from cdc_lakehouse.terminal.console import warn
from lakehouse.config.loading import find_yaml, select_tables
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.config.unpacking import find_nearest, refuse_lines, table_schema
from lakehouse.words import render_count
from silver.expectations.problems import find_unknown_columns

_VARIABLE = "env:"


def find_misspelt_keys(table: Table) -> list[str]:
    """A sentence for each key that is no column, but has nearly the name of one."""
    unknown = [key for key in table.keys if key not in table.columns]
    meant = {key: find_nearest(key, table.columns) for key in unknown}
    return [f"keys: {key}: did you mean {name}?" for key, name in meant.items() if name]


def list_unset_variables(target: Target, tables: Sequence[Table]) -> list[str]:
    """A sentence for each `env:NAME` of the YAML whose variable is not set on this machine."""
    documents = {f"target {target.name}": target, **{table.table: table for table in tables}}
    return [
        f"{owner}: {key}: the variable {value.removeprefix(_VARIABLE)} is not set on this machine"
        for owner, model in documents.items()
        for key, value in _list_texts(model.model_dump(exclude_unset=True))
        if value.startswith(_VARIABLE) and value.removeprefix(_VARIABLE) not in os.environ
    ]


def _list_texts(value: object, key: str = "") -> Iterator[tuple[str, str]]:
    """The texts of a document with their dotted keys."""
    if isinstance(value, str):
        yield key, value
    elif isinstance(value, dict):
        for name, item in value.items():
            yield from _list_texts(item, f"{key}.{name}" if key else str(name))
    elif isinstance(value, list):
        for at, item in enumerate(value):
            yield from _list_texts(item, f"{key}[{at}]")


@command("validate")
def validate(
    chosen: Chosen,
    write_schema: Annotated[
        bool, typer.Option("--write-schema", help="Also write table.schema.json.")
    ] = False,
    accept: Annotated[
        list[str] | None,
        typer.Option(metavar="TABLE", help="Confirm the guesses of `init`; repeatable."),
    ] = None,
) -> None:
    """Check all YAML without starting Spark.

    Lines with '# check' were guessed by `init`. `run` refuses a table while its keys, order,
    deletes or mode are such a guess; --accept removes the marks of a table.
    """
    target, tables = load_conf(chosen)
    for name in accept or ():
        if not find_yaml(chosen.conf / "tables", name).is_file():  # a table that waits has one
            select_tables(tables, [name])
        for line in accept_checks(chosen.conf, name):
            print(f"{name}: accepted  {line}")
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
    for sentence in list_unset_variables(target, tables):
        warn(sentence)
    print(f"ok: {render_count(len(tables), 'table')}, target {target.name}")
