"""The captured database, asked by SQL: what it has, what it lacks, how far the capture is behind.

What is asked stands in a file of SQL for each kind of database: questions, and for what they find a
sentence and a statement.
"""

import json
import re
import time
import uuid
import zlib
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from functools import cached_property
from pathlib import Path
from typing import Any, NamedTuple

from sqlalchemy import URL, Engine, create_engine, text
from sqlalchemy.exc import OperationalError, SQLAlchemyError
from sqlalchemy.pool import NullPool

from cdc_lakehouse.capture.files import CaptureRefused, Position
from cdc_lakehouse.capture.settings import CaptureSettings
from cdc_lakehouse.drafts.source_draft import CONNECTORS
from gold.source_check.database import check_url
from lakehouse.config.unpacking import find_nearest
from lakehouse.errors import LakehouseError, SourceUnreachable

MARK, PATIENCE = "lakehouse", 20.0
"""The beginning of a mark; seconds until the server lets go of a slot whose reader was killed."""
_SHOWN = {
    "made": "made by lakehouse capture",
    "columns": "id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)",
    "again": "`lakehouse capture --snapshot` takes all rows again",
}
"""What sentences and statements may name: a comment that marks what is dropped, the signals."""


class Found(NamedTuple):
    """A row of an answer: the sentence and the statement of its question, with its values."""

    problem: str
    do: str
    row: Mapping[str, Any]


class DatabaseNotReady(LakehouseError):
    """The database lacks what a capture needs."""

    exit_code = 2

    def __init__(self, lacks: Sequence[Found]) -> None:
        blocks = (f"  found:    {lack.problem}\n  do:       {lack.do}" for lack in lacks)
        super().__init__("the database is not ready to be captured\n" + "\n".join(blocks))


class Database:
    """A source database, of which a connector reads the log.

    Of one without a file of SQL nothing is asked: only its connector knows it.
    """

    port: int | None = None
    name_key = "database.dbname"

    def __init__(self, settings: CaptureSettings, url: URL, kind: str = "other") -> None:
        self.settings, self.url = settings, url
        self.sizes: dict[str, int] = {}
        self._questions = _read_questions(Path(__file__).with_name(f"{kind}.sql"))

    @property
    def jars(self) -> str:
        """The name of the list of the connector's jars."""
        return self.url.get_backend_name()

    @cached_property
    def _engine(self) -> Engine:
        return create_engine(self.url, isolation_level="AUTOCOMMIT", poolclass=NullPool)

    def ask(self, query: str, **given: object) -> list[dict[str, Any]]:
        """The rows of a query; none of a statement without rows.

        Raises:
            SourceUnreachable: the database does not answer.
            CaptureRefused: it refuses the statement.
        """
        of = {"name": self.settings.name, "signals": self.settings.signals}
        try:
            with self._engine.connect() as connection:
                answer = connection.execute(text(query), of | {"tables": self.captured} | given)
                return [dict(row) for row in answer.mappings()] if answer.returns_rows else []
        except SQLAlchemyError as failure:
            said = str(getattr(failure, "orig", failure)).strip().splitlines()[0]
            if isinstance(failure, OperationalError):
                raise SourceUnreachable(self.url.render_as_string(), said) from failure
            problem = f"the database says: {said}"
            raise CaptureRefused(problem, "mend that and start again") from None

    def find(self, section: str, **given: object) -> Iterator[Found]:
        """What the questions of a section find, question by question."""
        names = {"name": self.settings.name, "folder": self.settings.state, **_SHOWN}
        for query, problem, do in self._questions.get(section, ()):
            for row in self.ask(query, **given):
                values = names | {"signals": self.quote(self.settings.signals)} | row
                yield Found(problem.format(**values), do.format(**values), row)

    def execute(self, section: str, **given: object) -> list[str]:
        """Executes the statements of a section; returns the sentences."""
        done = []
        for problem, do, _ in self.find(section, **given):
            self.ask(do.replace(":", r"\:"))
            done.append(problem)
        return done

    @property
    def captured(self) -> list[str]:
        """The tables that match, sorted; without SQL the patterns."""
        tables = sorted(filter(self.settings.matches, self.sizes))
        return tables if self._questions else self.settings.tables

    def find_lacks(self) -> list[Found]:
        """All that the database lacks; brings the list of tables up to date."""
        self.sizes = {row["table"]: int(row["size"] or 0) for *_, row in self.find("tables")}
        lacks = list[Found]()
        for pattern in self.settings.tables if self._questions else ():
            if not any(fnmatchcase(table, pattern) for table in self.sizes):
                meant = find_nearest(pattern, self.sizes)
                some = f"there are {', '.join([*self.sizes][:8])}"
                action = f"did you mean {meant}?" if meant else some
                lacks.append(Found(f"no table matches {pattern} in conf/capture.yml", action, {}))
        return [*lacks, *self.find("lacks")]

    def check_position(self, position: Position) -> None:
        """Refuses to go on where changes would be lost, once no killed reader has the log.

        Raises:
            CaptureRefused: they would be, or somebody reads it.
        """
        until, goes_on = time.monotonic() + PATIENCE, bool(position.offset)
        while any(self.find("readers")) and time.monotonic() < until:
            time.sleep(0.5)
        of = {"is_new": not goes_on and position.tables is None, "lsn": position.lsn}
        for refusal in (*self.find("readers"), *self.find("refusals", goes_on=goes_on, **of)):
            raise CaptureRefused(refusal.problem, refusal.do)

    def publish(self, tables: Sequence[str]) -> set[str]:
        """Lets the connector see these tables; returns those that it could not see before.

        Raises:
            CaptureRefused: the server refuses it, or a table is being written to for too long.
        """
        new = {row["table"] for *_, row in self.find("unpublished", tables=list(tables))}
        self.execute("publication", tables=list(tables))
        return new.intersection(tables)

    def properties(self, tables: Sequence[str]) -> dict[str, object]:
        """Properties of the connector for this database and these tables."""
        listed = ",".join(map(to_pattern, [*tables, self.settings.signals]))
        return {
            "connector.class": CONNECTORS.get(self.jars),
            "database.hostname": self.url.host or "localhost",
            "database.port": self.url.port or self.port,
            self.name_key: self.url.database,
            "database.user": self.url.username or "",
            "database.password": str(self.url.password or ""),
            "table.include.list": listed if self._questions else listed.replace(r"\*", ".*"),
            "signal.data.collection": self.settings.signals,
        }

    def send_mark(self) -> str:
        """Writes a mark into the log, behind all that is there now; returns its text.

        Raises:
            CaptureRefused: nothing can be asked of this database.
        """
        return self._signal("log", {"message": "mark"})

    def ask_for_rows(self, tables: Sequence[str]) -> None:
        """Asks the connector for all rows of these tables while it goes on reading the log."""
        self._signal("execute-snapshot", {"data-collections": list(map(to_pattern, tables))})

    def _signal(self, kind: str, data: object) -> str:
        """Writes a row into the signal table, in place of earlier ones; returns its id."""
        if not self._questions:
            raise CaptureRefused("signals and --once with this database", "leave them out")
        mark, table = f"{MARK}-{uuid.uuid4().hex}", self.quote(self.settings.signals)
        self.ask(f"DELETE FROM {table} WHERE id LIKE '{MARK}-%'")
        row = {"id": mark, "kind": kind, "data": json.dumps(data)}
        self.ask(f"INSERT INTO {table} (id, type, data) VALUES (:id, :kind, :data)", **row)
        return mark

    def measure_lag(self, position: Position) -> Mapping[str, int] | None:
        """The bytes of the log `behind` the position and all that are `kept`; None if unknown."""
        found = next((row for *_, row in self.find("lag")), None)
        return found and {key: int(found[key]) for key in ("behind", "kept")}

    def quote(self, table: str) -> str:
        """SCHEMA.TABLE, quoted where the database needs it."""
        quote = self._engine.dialect.identifier_preparer.quote
        return ".".join(map(quote, table.split(".", 1)))


class Postgres(Database):
    """A PostgreSQL database: a slot, and a publication."""

    port = 5432

    def properties(self, tables: Sequence[str]) -> dict[str, object]:
        """Properties of the connector for this database and these tables."""
        with self._engine.connect() as connection:  # the driver knows PGPASSWORD and its file
            driver = connection.connection.driver_connection
            password = str((driver and driver.info.password) or "")
        return {
            **super().properties(tables),
            "database.password": password,
            "plugin.name": "pgoutput",
            "slot.name": self.settings.name,
            "slot.drop.on.stop": "false",
            "publication.name": self.settings.name,
            "publication.autocreate.mode": "disabled",
            "include.unknown.datatypes": True,  # else such columns are left out without a word
        }


class MariaDb(Database):
    """A MariaDB or MySQL database: each has a connector of its own, which reads its binlog."""

    port, name_key = 3306, "database.include.list"

    @cached_property
    def jars(self) -> str:
        """Which of the two it is."""
        (row,) = self.ask("SELECT VERSION() AS version")
        return "mariadb" if "mariadb" in str(row["version"]).lower() else "mysql"

    def check_position(self, position: Position) -> None:
        """Checks that the server still has the log from where the capture goes on.

        Raises:
            CaptureRefused: it has not.
        """
        at = position.offset.get("file")
        if at and at not in self._list_logs():
            problem = f"the binlog {at} is gone: the changes since it was last read are lost"
            raise CaptureRefused(problem, _SHOWN["again"])

    def properties(self, tables: Sequence[str]) -> dict[str, object]:
        """Properties of the connector for this database and these tables."""
        reader = f"{self.url.host}/{self.settings.name}".encode()
        return {
            **super().properties(tables),
            "database.server.id": 1_000_000 + zlib.crc32(reader) % 1_000_000,
            "bigint.unsigned.handling.mode": "precise",
            "include.schema.changes": "false",
            "schema.history.internal": "io.debezium.storage.file.history.FileSchemaHistory",
        }

    def measure_lag(self, position: Position) -> Mapping[str, int] | None:
        """The binlog behind the acknowledged position, and all that the server has of it."""
        logs, at = self._list_logs(), position.offset.get("file")
        if at not in logs:
            return None
        behind = sum(size for name, size in logs.items() if name >= at) - position.offset["pos"]
        return {"behind": max(behind, 0), "kept": sum(logs.values())}

    def _list_logs(self) -> dict[str, int]:
        rows = self.ask("SHOW BINARY LOGS")
        return {str(row["Log_name"]): int(row["File_size"]) for row in rows}


def open_database(settings: CaptureSettings) -> Database:
    """The database of the settings, which is not asked yet.

    Raises:
        ConfigurationError: the URL has no driver here, or its password is missing.
    """
    backend = settings.url.get_backend_name()
    if backend == "postgresql":
        return Postgres(settings, check_url(settings.source), backend)
    if backend in ("mariadb", "mysql"):
        return MariaDb(settings, check_url(settings.source), "mariadb")
    return Database(settings, settings.url)


def to_pattern(table: str) -> str:
    """A regular expression of Java that matches the table alone."""
    return re.sub(r"([^A-Za-z0-9_])", r"\\\1", table)


def _read_questions(file: Path) -> dict[str, list[tuple[str, str, str]]]:
    """By section: queries, sentences, statements; what stands before begins each query."""
    sections: dict[str, list[tuple[str, str, str]]] = defaultdict(list)
    texts = file.read_text(encoding="utf-8") if file.exists() else ""
    before, *parts = texts.replace("{made}", _SHOWN["made"]).split("-- section: ")
    for part in parts:
        section, *blocks = part.strip().split("\n\n")
        for block in [section.partition("\n")[2], *blocks]:
            answers = dict(re.findall(r"^-- (found|do): (.*)$", block, re.MULTILINE))
            query = re.sub(r"^--.*$", "", before + block, flags=re.MULTILINE).strip()
            question = (query, answers.get("found", ""), answers.get("do", ""))
            sections[section.partition("\n")[0]].append(question)
    return dict(sections)
