"""A MariaDB server of the test's own, with the shop in it."""

import subprocess
import uuid
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from getpass import getuser
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
from pymysql.cursors import Cursor
from sqlalchemy import make_url

from tests.e2e import parts
from tests.e2e.parts import MARIADB, Process

SCHEMA = Path(__file__).with_name("shop_mariadb.sql")
SETTINGS = (
    "--no-defaults", "--bind-address=127.0.0.1", "--server-id=1", "--log-bin=binlog",
    "--binlog-format=ROW", "--character-set-server=utf8mb4", "--default-time-zone=+00:00",
    "--innodb-flush-log-at-trx-commit=0", "--innodb-buffer-pool-size=64M", "--skip-name-resolve",
)  # fmt: skip
SYSTEM, PARTS = Path("/usr/share/mysql"), ("", "_data")
USER = "debezium"
CONFLICTS = (1020, 1205, 1213)


class Conflict(Exception):
    """Another transaction was in the way."""


class Session(NamedTuple):
    """A connection that commits every statement, unless in a transaction block."""

    connection: "pymysql.Connection[Cursor]"

    def execute(self, query: str, parameters: Sequence[object] = ()) -> Cursor:
        cursor = self.connection.cursor()
        cursor.execute(query, parameters or None)
        return cursor

    @contextmanager
    def transaction(self) -> Iterator[None]:
        self.connection.begin()
        try:
            yield
        except pymysql.MySQLError as failure:
            self.connection.rollback()
            if failure.args[0] in CONFLICTS:
                raise Conflict from failure
            raise
        self.connection.commit()


class MariaDb(NamedTuple):
    """A running server."""

    folder: Path
    port: int
    process: Process
    retried: tuple[type[Exception], ...] = (Conflict, pymysql.IntegrityError)
    engine: str = "engine-mariadb"
    schemas: bool = True

    @property
    def url(self) -> str:
        return f"mariadb://{USER}:none@127.0.0.1:{self.port}/shop"

    @property
    def connector(self) -> Mapping[str, object]:
        """What Debezium's connector needs to know of this server."""
        return {
            "connector.class": "io.debezium.connector.mariadb.MariaDbConnector",
            "database.hostname": "127.0.0.1",
            "database.port": self.port,
            "database.user": USER,
            "database.password": "none",
            "database.server.id": 2,
            "database.include.list": "shop",
            "decimal.handling.mode": "precise",
            "bigint.unsigned.handling.mode": "precise",
        }

    @contextmanager
    def connect(self) -> Iterator[Session]:
        url = make_url(self.url)
        connection = pymysql.connect(
            host=str(url.host), port=self.port, user=USER, password="none", database="shop",
            charset="utf8mb4", autocommit=True,
        )  # fmt: skip
        try:
            yield Session(connection)
        finally:
            connection.close()

    def execute(self, *statements: str) -> None:
        with self.connect() as session:
            for statement in statements:
                session.execute(statement)

    def rows(self, query: str) -> list[tuple[Any, ...]]:
        with self.connect() as session:
            return list(session.execute(query).fetchall())

    def mark(self) -> str:
        """A text that comes in a change after all that is written now."""
        text = uuid.uuid4().hex
        self.execute(
            f"INSERT INTO dbz_signal VALUES ('{text}', 'log', '{{\"message\": \"mark\"}}')"
        )
        return text

    def stop(self) -> None:
        self.process.kill()


def start(name: str) -> MariaDb:
    """A new server with the database `shop`."""
    folder, port = parts.folder(name), parts.free_port()
    own = [f"--datadir={folder / 'data'}", f"--user={getuser()}"]
    (folder / "data").mkdir()
    made = b"CREATE DATABASE mysql;\nUSE mysql;\n"
    made += b"".join((SYSTEM / f"mysql_system_tables{part}.sql").read_bytes() for part in PARTS)
    with (folder / "install.log").open("wb") as log:
        boot = [MARIADB, "--no-defaults", "--bootstrap", *own]
        subprocess.run(boot, check=True, input=made, stdout=log, stderr=log)
    (folder / "init.sql").write_text(
        "CREATE DATABASE shop;\n"
        f"CREATE USER {USER}@127.0.0.1 IDENTIFIED BY 'none';\n"
        f"GRANT ALL ON *.* TO {USER}@127.0.0.1;\n"
    )
    command = [MARIADB, *SETTINGS, *own, f"--port={port}", f"--socket={folder / 'socket'}"]
    command.append(f"--init-file={folder / 'init.sql'}")
    process = parts.start(command, folder / "server.log", "ready for connections")
    server = MariaDb(folder, port, process)
    server.execute(*filter(str.strip, SCHEMA.read_text().split(";\n")))
    return server
