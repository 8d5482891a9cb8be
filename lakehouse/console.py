"""How the command line looks: progress on stderr, summary lines and tables on stdout."""

import json
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager

from rich.box import SIMPLE_HEAD
from rich.console import Console
from rich.markup import escape
from rich.table import Table as Grid

from lakehouse.ledger import Entry

Progress = Callable[[str], None]

WIDEST = 10_000


@contextmanager
def progress(title: str) -> Iterator[Progress]:
    """A live line on a terminal, nothing elsewhere; call what it gives with what is being done."""
    console = Console(stderr=True)
    if not console.is_terminal:
        yield lambda line: None
        return
    with console.status(title) as status:
        yield lambda line: status.update(f"{title}: {escape(line)}")


def show_entry(entry: Entry) -> None:
    """One summary line: layer, table, status, counts, seconds."""
    print(summary(entry), flush=True)


def summary(entry: Entry) -> str:
    """The summary line of one table in one layer."""
    counted = ", ".join(f"{count:,} {name}" for name, count in entry.counts.items() if count)
    told = entry.message if entry.status == "failed" else counted or "nothing new"
    seconds = entry.duration_ms / 1000
    return f"{entry.layer:<7} {entry.table:<24} {entry.status:<7} {seconds:6.1f} s  {told}"


def show_grid(columns: Sequence[str], rows: Sequence[Sequence[str | None]]) -> None:
    """Rows under their columns, nothing cut off; null is an empty place."""
    console = Console()
    if not console.is_terminal:
        console = Console(width=WIDEST)
    grid = Grid(box=SIMPLE_HEAD, pad_edge=False)
    for column in columns:
        grid.add_column(escape(column), overflow="fold")
    for row in rows:
        grid.add_row(*[escape(text) if text is not None else "" for text in row])
    console.print(grid)


def show_records(records: Sequence[Mapping[str, object]], as_json: bool) -> None:
    """Dicts of the same keys: one JSON object per line, or a grid."""
    if as_json:
        for record in records:
            print(json.dumps(record, default=str, ensure_ascii=False))
    elif records:
        rows = [[_shown(value) for value in record.values()] for record in records]
        show_grid(list(records[0]), rows)


def _shown(value: object) -> str | None:
    return None if value is None else str(value)
