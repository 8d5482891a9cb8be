"""`explain`: why the row of a key is what it is."""

import json
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_lakehouse.cli.ask.queries import ShownStatus
from cdc_lakehouse.cli.front import check_lake, choose_one, command, load_conf, open_lake
from cdc_lakehouse.cli.key_text import parse_key
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.terminal.console import get_width, show_grid, show_progress, wrap_line
from cdc_lakehouse.terminal.grid import lay_out
from lakehouse.config.target import Target
from lakehouse.storage.landing import from_landing

if TYPE_CHECKING:
    from silver.audit.explain import Explained

WIDTH_OF_PIPE = 80
"""Where there is no terminal, records that are wider go on in further lines."""
Name = Annotated[str, typer.Argument(metavar="TABLE", help="The key's table.")]
KeyText = Annotated[str, typer.Option("--key", help="The key as JSON: '{\"id\": 7}'.")]


@command("explain")
def explain(chosen: Chosen, table: Name, key: KeyText, shown: ShownStatus = "table") -> None:
    """Show every record of one key, in order, what was done with it, and the row.

    applied, superseded (a newer one was known), duplicate, late (woven into the history), rejected
    (with the reason), waiting, delete_unknown (no row to delete). The last line is the row.
    """
    target, (one,) = load_conf(choose_one(chosen, table))
    sought = parse_key(key, one)
    check_lake(target)
    lake = open_lake(target, [one], asks=chosen)

    from silver.audit import explain as records

    with show_progress(f"looking for the records of the key in {table}"):
        lines = records.explain(lake, one, sought)
    if shown == "json":
        for line in lines:
            print(_render_json(line))
    else:
        print_records(lines, target)


def _render_json(line: "Explained") -> str:
    """A record as JSON; its values are JSON already and stay as they are written."""
    others = {name: value for name, value in line._asdict().items() if name != "values"}
    return f'{json.dumps(others, ensure_ascii=False)[:-1]}, "values": {line.values or "null"}}}'


def print_records(lines: "list[Explained]", target: Target) -> None:
    """Prints the records as a table, and the row; in a pipe nothing is cut."""
    *records, row = lines
    if not records and row.values is None:
        print("no record of this key has arrived, and there is no row")
        return
    columns = ["source_time", "operation", "outcome", "because", "values", "position"]
    rows = [[from_landing(getattr(line, name), target) for name in columns] for line in records]
    if get_width() is None and max(map(len, lay_out(columns, rows, None))) > WIDTH_OF_PIPE:
        for record in rows:
            print("\n".join(wrap_line("  ".join(filter(None, record)))))
    else:
        show_grid(columns, rows)
    end = f"{row.outcome}: {row.values or from_landing(row.because, target)}"
    print("\n".join(wrap_line(end)))
