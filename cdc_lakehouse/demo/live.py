"""`demo --live`: a PostgreSQL of its own, captured into gold by the commands that a user types."""

import os
import shlex
import shutil
import socket
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import zip_longest
from pathlib import Path

import typer
from sqlalchemy import create_engine, text

from cdc_lakehouse.terminal.console import say
from cdc_lakehouse.terminal.grid import lay_out
from gold.source_check.database import check_url
from lakehouse.errors import ConfigurationError

SHOP = (
    "CREATE TABLE orders (id int PRIMARY KEY, status text, total numeric(10,2))",
    "INSERT INTO orders VALUES (1, 'new', 25.00), (2, 'new', 10.50), (3, 'new', 99.00)",
)
CHANGES = (
    "UPDATE orders SET status = 'paid' WHERE id = 1",
    "DELETE FROM orders WHERE id = 2",
    "ALTER TABLE orders ADD COLUMN note text, ALTER COLUMN id TYPE bigint",
    "INSERT INTO orders VALUES (5000000000, 'new', 7.00, 'wide key')",
)
QUERY, USER = "SELECT * FROM {} ORDER BY id", "postgres"


def show_live(folder: Path) -> None:
    """Captures a small shop into a new folder, changes it, and compares gold with the database.

    Raises:
        ConfigurationError: PostgreSQL's programs are not here, or the folder is.
        Exit: a command has failed.
    """
    if folder.exists():
        action = "remove it, or name another: `lakehouse demo --live --root DIR`"
        raise ConfigurationError("command line", "--root", str(folder), "a new folder", action)
    with _serve_postgres() as url:
        _change(url, SHOP)
        _call(folder, "init", "--source", url, "--capture")
        for statements in ((), CHANGES):
            _change(url, statements)
            _call(folder, "capture", "--once")
            _call(folder, "run")
        left = ["the database:", *_show(url, QUERY.format("orders"))]
        asked = _call(folder, "sql", QUERY.format("gold.orders"), keep=True)
        width = max(map(len, left)) + 4
        for line, beside in zip_longest(left, ["gold:", *asked.splitlines()], fillvalue=""):
            say(f"{line:{width}}{beside}")
        _call(folder, "verify", "orders", "--source", url)
    say("your own database: lakehouse init --source URL --capture")


def _call(folder: Path, *words: str, keep: bool = False) -> str:
    """Shows and runs a command on the lake in the folder; returns what it says if that is kept."""
    say(f"\n$ lakehouse {shlex.join(words)}")
    of = ["--conf", str(folder / "conf"), "--root", str(folder)]
    command, pipe = [sys.executable, "-m", "cdc_lakehouse", *words, *of], subprocess.PIPE
    ran = subprocess.run(command, check=False, text=True, stdout=pipe if keep else None)
    if ran.returncode:
        raise typer.Exit(ran.returncode)
    return ran.stdout or ""


def _change(url: str, statements: Sequence[str]) -> None:
    """Executes the statements, and shows them."""
    with create_engine(check_url(url)).begin() as connection:
        for statement in statements:
            say(f"shop=# {statement}")
            connection.execute(text(statement))


def _show(url: str, query: str) -> list[str]:
    """The lines of a query's answer."""
    with create_engine(check_url(url)).connect() as connection:
        answer = connection.execute(text(query))
        rows = [[None if v is None else str(v) for v in row] for row in answer]
        return lay_out(list(answer.keys()), rows, None)


@contextmanager
def _serve_postgres() -> Iterator[str]:
    """The URL of a database that is there within, and its server with it.

    Raises:
        ConfigurationError: PostgreSQL's programs are not here.
    """
    programs = [*map(str, Path("/usr/lib/postgresql").glob("*/bin/initdb")), shutil.which("initdb")]
    newest = max(filter(None, programs), default=None)
    if newest is None:
        expected = "PostgreSQL's programs on this machine"
        action = "apt-get install postgresql, or dnf install postgresql-server"
        raise ConfigurationError("command line", "--live", "no initdb", expected, action)
    folder_of_programs = Path(newest).resolve().parent
    with tempfile.TemporaryDirectory(prefix="lakehouse-live-") as folder, socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        port, user = str(taken.getsockname()[1]), USER if os.geteuid() == 0 else None
        taken.close()
        if user is not None:  # the server does not run as root
            shutil.chown(folder, user)

        def run(program: str, *arguments: str) -> None:
            command, quiet = [str(folder_of_programs / program), *arguments], subprocess.DEVNULL
            subprocess.run(command, check=True, cwd=folder, user=user, stdout=quiet)

        run("initdb", "-D", "data", "-U", USER, "--auth=trust", "--no-sync", "-E", "UTF8")
        settings = f"-p {port} -k {folder} -c listen_addresses=127.0.0.1 -c wal_level=logical"
        run("pg_ctl", "-D", "data", "-l", "log", "-w", "-o", settings, "start")
        try:
            run("createdb", "-h", "127.0.0.1", "-p", port, "-U", USER, "shop")
            yield f"postgresql://{USER}@127.0.0.1:{port}/shop"
        finally:
            run("pg_ctl", "-D", "data", "-m", "fast", "-w", "stop")
