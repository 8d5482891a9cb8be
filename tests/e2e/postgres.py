"""A PostgreSQL server of the test's own, with the shop in it."""

import os
import subprocess
from pathlib import Path
from typing import Any, NamedTuple

import psycopg
from psycopg import errors

from tests.e2e import parts

SCHEMA = Path(__file__).with_name("shop.sql")
SETTINGS = """
listen_addresses = '127.0.0.1'
wal_level = logical
max_wal_senders = 16
max_replication_slots = 16
timezone = 'UTC'
fsync = off
full_page_writes = off
wal_sender_timeout = 10s
"""


class Postgres(NamedTuple):
    """A running server."""

    folder: Path
    port: int
    retried: tuple[type[Exception], ...] = (
        errors.DeadlockDetected,
        errors.UniqueViolation,
        errors.ForeignKeyViolation,
    )
    engine: str = "engine"
    schemas: bool = False

    @property
    def url(self) -> str:
        return f"postgresql://postgres@127.0.0.1:{self.port}/shop"

    @property
    def connector(self) -> dict[str, object]:
        """What Debezium's connector needs to know of this server."""
        return {
            "connector.class": "io.debezium.connector.postgresql.PostgresConnector",
            "plugin.name": "pgoutput",
            "database.hostname": "127.0.0.1",
            "database.port": self.port,
            "database.user": "postgres",
            "database.password": "none",
            "database.dbname": "shop",
            "slot.name": "shop",
            "slot.drop.on.stop": "false",
            "publication.name": "shop",
            "publication.autocreate.mode": "disabled",
            "schema.include.list": "shop",
        }

    def connect(self) -> "psycopg.Connection[tuple[Any, ...]]":
        """A connection that commits every statement, unless in a transaction block."""
        return psycopg.connect(self.url, autocommit=True)

    def execute(self, *statements: str) -> None:
        with self.connect() as connection:
            for statement in statements:
                connection.execute(statement.encode())

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as connection:
            return connection.execute(query.encode()).fetchall()

    def restart(self) -> None:
        """Stop as after a failure, and start again."""
        self.stop()
        _as_postgres(self.folder, "pg_ctl", "-D", "data", "-l", "server.log", "-w", "start")

    def stop(self) -> None:
        _as_postgres(self.folder, "pg_ctl", "-D", "data", "-m", "immediate", "-w", "stop")


def start(name: str, content: Path | None = SCHEMA) -> Postgres:
    """A new server with the database `shop`: the shop and its publication, or empty."""
    server = Postgres(parts.folder(name), parts.free_port())
    if os.geteuid() == 0:
        subprocess.run(["chown", "postgres:postgres", server.folder], check=True)
    _as_postgres(
        server.folder, "initdb", "-D", "data", "-U", "postgres", "-E", "UTF8", "--locale=C.UTF-8",
        "--auth=trust", "--no-sync",
    )  # fmt: skip
    own = f"port = {server.port}\nunix_socket_directories = '{server.folder}'\n"
    with (server.folder / "data" / "postgresql.conf").open("a") as settings:
        settings.write(SETTINGS + own)
    _as_postgres(server.folder, "pg_ctl", "-D", "data", "-l", "server.log", "-w", "start")
    with psycopg.connect(server.url.replace("/shop", "/postgres"), autocommit=True) as connection:
        connection.execute("CREATE DATABASE shop")
    if content is not None:
        server.execute(content.read_text())
    return server


def _as_postgres(folder: Path, program: str, *arguments: str) -> None:
    """Run one of PostgreSQL's programs, which refuse to run as root."""
    programs = parts.postgres_programs()
    assert programs
    command = [str(programs / program), *arguments]
    if os.geteuid() == 0:
        command = ["setpriv", "--reuid=postgres", "--regid=postgres", "--init-groups", *command]
    with (folder / f"{program}.log").open("ab") as log:
        subprocess.run(command, cwd=folder, stdout=log, stderr=log, check=True)
