"""`shell`: an SQL prompt in one warm session."""

import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import typer

from cdc_lakehouse.cli.ask.queries import print_answer, show_status
from cdc_lakehouse.cli.ask.status_records import find_status
from cdc_lakehouse.cli.front import check_lake, command, load_whole_conf, open_lake
from cdc_lakehouse.cli.options import Chosen
from cdc_lakehouse.terminal.console import show_error, show_grid
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS, Target
from lakehouse.errors import LakehouseError, QueryRefused
from lakehouse.interrupts import go_on
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import load_views

HISTORY = "_shell_history"
PROMPT, GOES_ON = "lakehouse> ", "        -> "
COMMANDS = {
    "\\d": "the tables and views; \\d TABLE: its columns",
    "\\status": "how every table does",
    "\\?": "this list",
    "\\q": "leave, as Ctrl-D does",
}
_PART = re.compile(
    r"'(?:\\.|[^'\\])*'|\"(?:\\.|[^\"\\])*\"|`[^`]*`|--[^\n]*|/\*.*?\*/|['\"`;]|/\*|.", re.DOTALL
)
_OPENS = ("'", '"', "`", "/*")
_WORD = re.compile(r"[\w.\\]+")
KEYWORDS = (
    *("SELECT", "FROM", "WHERE", "GROUP BY", "ORDER BY", "LIMIT", "JOIN", "LEFT JOIN", "HAVING"),
    *("count(*)", "DESCRIBE", "SHOW TABLES", "WITH", "UNION ALL", "DISTINCT", "AND", "OR"),
)

Read = Callable[[str], str]


class Asking(NamedTuple):
    """What every answer needs: the lake, the chosen tables, all configured ones."""

    lake: Lake
    tables: list[Table]
    everything: list[Table]

    @property
    def view_names(self) -> list[str]:
        """The names of gold's views."""
        return [f"gold.{n}" for t in self.tables for n in (t.table, f"{t.table}_history")]


@command("shell")
def shell(chosen: Chosen) -> None:
    r"""Ask in SQL at a prompt, in one warm session; a running server of the lake is used.

    A query ends with `;` and may have several lines. \? lists the other commands. Like `sql`,
    the shell only asks. Of a file or a pipe it reads queries without a prompt, and exits with 1
    when one of them failed.
    """
    target, tables, everything = load_whole_conf(chosen)
    check_lake(target)
    given = Asking(open_lake(target, tables, asks=chosen), tables, everything)
    read = _build_reader(given)
    failed = False
    for statement in read_statements(read):
        if statement == "\\q":
            break
        failed = not _answer_statement(given, statement) or failed
    if failed and not sys.stdin.isatty():
        raise typer.Exit(1)


def read_statements(read: Read) -> Iterator[str]:
    """The queries and commands that are typed, each whole, until the input ends."""
    rest = ""
    while True:
        try:
            line = read(GOES_ON if rest.strip() else PROMPT)
        except KeyboardInterrupt:
            go_on()
            rest = ""
            continue
        except EOFError:
            break
        if not rest.strip() and line.lstrip().startswith("\\"):
            yield line.strip()
            continue
        whole, rest = split_queries(f"{rest}\n{line}" if rest.strip() else line)
        yield from whole
    if rest.strip():
        yield rest.strip()


def split_queries(text: str) -> tuple[list[str], str]:
    """The queries that end with a `;` outside of quotes and comments, and the rest of the text."""
    whole, begin = list[str](), 0
    for part in _PART.finditer(text):
        if part[0] in _OPENS:
            break
        if part[0] == ";":
            whole.append(text[begin : part.start()].strip())
            begin = part.end()
    return [query for query in whole if query], text[begin:]


def _answer_statement(given: Asking, statement: str) -> bool:
    """Prints the answer to a query or command, or the error; returns whether it succeeded."""
    try:
        if statement.startswith("\\"):
            _run_command(given, statement)
        else:
            print_answer(given.lake, statement, "pages", views=given.view_names)
    except LakehouseError as failure:
        show_error(str(failure))
        return False
    except KeyboardInterrupt:
        print("broken off", file=sys.stderr)
    finally:
        go_on()
    return True


def _run_command(given: Asking, statement: str) -> None:
    """Carries out a command that begins with a backslash.

    Raises:
        QueryRefused: there is no such command.
    """
    word, _, name = statement.partition(" ")
    if word == "\\d" and name.strip():
        query = f"DESCRIBE TABLE {_quote_name(given.lake.target, name.strip())}"
        print_answer(given.lake, query, "pages", views=given.view_names)
    elif word == "\\d":
        show_grid(["layer", "table"], [[layer, table] for layer, table in list_tables(given)])
    elif word == "\\status":
        pipeline = find_status(given.lake.target, given.tables, given.everything)
        show_status(pipeline, as_json=False, wide=False)
    elif word == "\\?":
        show_grid(["command", "shows"], list(COMMANDS.items()))
    else:
        expected = ", ".join(COMMANDS)
        raise QueryRefused(f"the shell\n  found:    {word}\n  expected: {expected}")


def list_tables(given: Asking) -> list[tuple[str, str]]:
    """Layer and name of every table and view; gold first, without the layers' internal tables."""
    tables = list[tuple[str, str]]()
    for layer in reversed(LAYERS):
        listed = set(given.lake.list_tables(layer))
        views = set() if given.lake.target.catalog else set(load_views(given.lake.target, layer))
        shown = (name for name in listed | views if not name.startswith("_"))
        tables += [(layer, name) for name in sorted(shown)]
    return tables


def list_columns(given: Asking, name: str) -> list[str]:
    """The columns of `LAYER.TABLE`; none if it cannot be read."""
    from gold.job import open_catalog
    from lakehouse.spark.spark_failures import SPARK_FAILURES

    try:
        open_catalog(given.lake, name)
        return given.lake.spark.sql(f"SELECT * FROM {_quote_name(given.lake.target, name)}").columns
    except (*SPARK_FAILURES, LakehouseError):
        return []


def _quote_name(target: Target, name: str) -> str:
    """`T` or `LAYER.T` as SQL; a name without a layer is gold's."""
    layer, dot, table = name.replace("`", "").rpartition(".")
    if target.catalog:
        return name if dot else f"{names.schema_name(target, 'gold')}.{names.quote(name)}"
    return f"{names.quote(layer if dot else 'gold')}.{names.quote(table)}"


class Words:
    """What the prompt completes: tables, the columns of those that were named, commands."""

    def __init__(self, given: Asking) -> None:
        """Take the tables as they are now; columns are looked up when they are wanted."""
        self._given = given
        self._tables = [f"{layer}.{name}" for layer, name in list_tables(given)]
        self._columns: dict[str, list[str]] = {}
        self.typed = ""

    def list_words(self, text: str) -> list[str]:
        """The words that may complete the text; columns of tables in `typed` are among them."""
        for name in self._tables:
            if name in f"{self.typed} {text}" and name not in self._columns:
                self._columns[name] = list_columns(self._given, name)
        columns = {column for each in self._columns.values() for column in each}
        return [*COMMANDS, *self._tables, *sorted(columns), *KEYWORDS]


def _build_reader(given: Asking) -> Read:
    """The function that reads a line: at a terminal with history and completion, if installed."""
    if not sys.stdin.isatty():
        return lambda _: input()
    try:
        from prompt_toolkit import PromptSession
        from prompt_toolkit.completion import WordCompleter
        from prompt_toolkit.history import FileHistory
    except ModuleNotFoundError:
        return input
    words = Words(given)
    at_home = given.lake.target.catalog or "://" in given.lake.target.lake
    file = Path(Path.home() if at_home else given.lake.target.lake, HISTORY)
    file.touch(mode=0o600)
    session: PromptSession[str] = PromptSession(
        history=FileHistory(str(file)), complete_in_thread=True, complete_while_typing=False
    )
    session.completer = WordCompleter(
        lambda: words.list_words(session.default_buffer.text), ignore_case=True, pattern=_WORD
    )

    def read(prompt: str) -> str:
        line = session.prompt(prompt)
        words.typed += f" {line}"
        return line

    return read
