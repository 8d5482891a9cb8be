"""The captured database, asked by SQL: what it has, what it lacks, how far the capture is behind.

Here is what any database needs; PostgreSQL and MariaDB have modules of their own.
"""

import json
import re
import uuid
from collections.abc import Iterable, Iterator, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from typing import Any, NamedTuple

from sqlalchemy import URL, Engine, create_engine, inspect, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError

from cdc_lakehouse.capture.files import CaptureRefused, Position, State
from cdc_lakehouse.capture.settings import CaptureSettings
from gold.source_check.database import list_schemas
from lakehouse.config.unpacking import find_nearest
from lakehouse.errors import LakehouseError, SourceUnreachable

SIGNAL_COLUMNS = "id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"
MARK = "lakehouse"
MADE = "made by lakehouse capture"
"""The comment on what capture has made in the database, and only that is dropped."""


class Lack(NamedTuple):
    """What the database lacks, the statement or change that mends it, and for which table alone."""

    problem: str
    do: str
    table: str | None = None


class DatabaseNotReady(LakehouseError):
    """The database lacks what a capture needs."""

    exit_code = 2

    def __init__(self, lacks: Sequence[Lack]) -> None:
        blocks = (f"  found:    {lack.problem}\n  do:       {lack.do}" for lack in lacks)
        super().__init__("the database is not ready to be captured\n" + "\n".join(blocks))


class Lag(NamedTuple):
    """How far the capture is behind: bytes of the log, and all bytes that the server keeps."""

    bytes: int
    kept: int


class Database:
    """A source database of any kind; `jdbc` is the connector's property for its name."""

    jdbc = "database.dbname"

    def __init__(self, settings: CaptureSettings, url: URL) -> None:
        self.settings, self.url, self.name = settings, url, settings.name

    @property
    def connector(self) -> str:
        """The class of Debezium's connector."""
        return ""

    @property
    def jars(self) -> str:
        """The name of the list of its jars."""
        return "none"

    @cached_property
    def _engine(self) -> Engine:
        return create_engine(self.url, isolation_level="AUTOCOMMIT", pool_pre_ping=True)

    def ask(self, query: str, **given: object) -> list[tuple[Any, ...]]:
        """The rows of a query; none of a statement without rows.

        Raises:
            SourceUnreachable: the database does not answer.
            CaptureRefused: it refuses the statement.
        """
        try:
            with self._engine.connect() as connection:
                answer = connection.execute(text(query), given)
                return [tuple(row) for row in answer] if answer.returns_rows else []
        except OperationalError as failure:
            said = str(failure.orig).strip().splitlines()[0]
            raise SourceUnreachable(self.url.render_as_string(), said) from failure
        except SQLAlchemyError as failure:
            said = str(getattr(failure, "orig", failure)).strip().splitlines()[0]
            raise CaptureRefused(
                f"the database says: {said}", "mend that and start again"
            ) from None

    def password(self) -> str:
        """The password of the URL."""
        return str(self.url.password or "")

    def list_tables(self) -> list[str]:
        """All tables as SCHEMA.TABLE."""
        inspector = inspect(self._engine)
        schemas = list_schemas(inspector)
        return [f"{s}.{name}" for s in schemas for name in inspector.get_table_names(schema=s)]

    def captured(self) -> list[str]:
        """The tables that match, sorted."""
        return sorted(filter(self.settings.matches, self.list_tables()))

    def find_lacks(self) -> list[Lack]:
        """All that the database lacks."""
        tables = self.list_tables()
        return [*self._find_unmatched(tables)]

    def _find_unmatched(self, tables: Sequence[str]) -> Iterator[Lack]:
        """Patterns that no table matches, as a misspelt name does."""
        for pattern in self.settings.tables:
            if not any(fnmatchcase(table, pattern) for table in tables):
                meant = find_nearest(pattern, tables)
                action = f"did you mean {meant}?" if meant else f"there are {', '.join(tables[:8])}"
                yield Lack(f"no table matches {pattern} in conf/capture.yml", action)

    def check_state(self, position: Position, state: State) -> None:
        """Refuses to go on where changes would be lost."""

    def begin(self) -> None:
        """Makes the database ready for a first snapshot."""

    def add_tables(self, tables: Iterable[str]) -> list[str]:
        """Lets the connector see these tables; returns those that it could not see before."""
        return []

    def drop(self) -> list[str]:
        """Removes what capture made in the database; returns its names."""
        return []

    def properties(self, tables: Sequence[str]) -> dict[str, object]:
        """Properties of the connector for this database and these tables."""
        listed = [*tables, self.settings.signals]
        return {
            "connector.class": self.settings.debezium.get("connector.class", self.connector),
            "database.hostname": self.url.host or "localhost",
            "database.port": self.url.port,
            self.jdbc: self.url.database,
            "database.user": self.url.username or "",
            "database.password": self.password(),
            "table.include.list": ",".join(map(to_pattern, listed)),
            "signal.data.collection": self.settings.signals,
        }

    def estimate_rows(self, tables: Sequence[str]) -> int:
        """About how many rows the tables have; 0 where nobody knows."""
        return 0

    def is_streaming(self) -> bool:
        """Whether the connector reads the log."""
        return True

    def send_mark(self) -> str:
        """Writes a mark into the log, behind all that is there now; returns its text."""
        return self._send("log", {"message": "mark"})

    def advance(self) -> None:
        """Lets the log be forgotten where only tables that are not captured change."""

    def ask_for_rows(self, tables: Sequence[str]) -> None:
        """Asks the connector for all rows of these tables while it goes on reading the log."""
        self._send("execute-snapshot", {"data-collections": list(map(to_pattern, tables))})

    def _send(self, kind: str, data: object) -> str:
        """Writes a row into the signal table, in place of earlier ones; returns its id."""
        mark, table = f"{MARK}-{uuid.uuid4().hex}", self.quoted(self.settings.signals)
        self.ask(f"DELETE FROM {table} WHERE id LIKE :of", of=f"{MARK}-%")
        row = {"id": mark, "kind": kind, "data": json.dumps(data)}
        self.ask(f"INSERT INTO {table} (id, type, data) VALUES (:id, :kind, :data)", **row)
        return mark

    def measure_lag(self, state: State) -> Lag | None:
        """How far the capture is behind; None where nobody knows."""
        return None

    def quoted(self, table: str) -> str:
        """SCHEMA.TABLE in the quotes of the database."""
        quote = self._engine.dialect.identifier_preparer.quote_identifier
        return ".".join(map(quote, table.split(".", 1)))


def to_pattern(table: str) -> str:
    """A regular expression of Java that matches the table alone."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", table)


class OtherDatabase(Database):
    """A database that only its connector knows: nothing is asked of it by SQL."""

    def captured(self) -> list[str]:
        """The patterns, as the connector itself finds the tables."""
        return self.settings.tables

    def find_lacks(self) -> list[Lack]:
        """Nothing, as nobody asks."""
        return []

    def properties(self, tables: Sequence[str]) -> dict[str, object]:
        """Properties of any connector."""
        patterns = ",".join(to_pattern(table).replace(r"\*", ".*") for table in tables)
        return {**super().properties(tables), "table.include.list": patterns}

    def send_mark(self) -> str:
        """Refuses `--once`, which needs to find its mark.

        Raises:
            CaptureRefused: always.
        """
        raise CaptureRefused("--once with this database", "leave it out")
