"""A source database by its URL: how to reach it, and which of its tables a table of gold shows."""

import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from types import ModuleType
from typing import TYPE_CHECKING, NamedTuple

from sqlalchemy import Connection, Engine, Inspector, create_engine, inspect
from sqlalchemy.engine import URL, make_url
from sqlalchemy.exc import ArgumentError, NoSuchModuleError, SQLAlchemyError

from gold.source_check import postgres, rows
from lakehouse.config.table import Table
from lakehouse.errors import ConfigurationError, SourceUnreachable, TableFailed
from lakehouse.remedies import install_extra
from lakehouse.spark.secrets import read_secret

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DRIVERS = {
    "postgresql": "postgresql+psycopg",
    "postgres": "postgresql+psycopg",
    "mysql": "mysql+pymysql",
    "mariadb": "mysql+pymysql",
    "mariadb+pymysql": "mysql+pymysql",
}
EXTRAS = {"postgresql+psycopg": "postgres", "mysql+pymysql": "mysql"}
ENVIRONMENT, SECRET = "env:", "secret:"
SYSTEM_SCHEMAS = ("pg_catalog", "information_schema", "mysql", "performance_schema", "sys")


def check_url(url: str) -> URL:
    """The URL with an installed driver, and with its password from the environment.

    Raises:
        ConfigurationError: it is not an SQLAlchemy URL, its driver is not installed, or the
            environment lacks the variable that its password names.
    """
    try:
        given = make_url(url)
        named = given.set(drivername=DRIVERS.get(given.drivername, given.drivername))
    except (ArgumentError, ValueError) as wrong:
        raise _build_url_error(url, "correct it") from wrong
    try:
        named.get_dialect().import_dbapi()
    except NoSuchModuleError as wrong:
        raise _build_url_error(url, "correct it") from wrong
    except ImportError as wrong:
        package = EXTRAS.get(named.drivername)
        action = install_extra(package) if package else f"install {wrong.name}"
        raise _build_url_error(url, f"install the driver: {action}") from wrong
    return _with_password(named)


def resolve_url(url: str) -> str:
    """`check_url`'s URL as text, with the password in it.

    Raises:
        ConfigurationError: as of `check_url`.
    """
    return check_url(url).render_as_string(hide_password=False)


def with_secret(spark: "SparkSession", url: str) -> str:
    """The URL with its password from Databricks' secrets, where `secret:SCOPE/KEY` names it."""
    given = make_url(url)
    password = str(given.password or "")
    if not password.startswith(SECRET):
        return url
    secret = read_secret(spark, password.removeprefix(SECRET), "--source")
    return given.set(password=secret).render_as_string(hide_password=False)


def without_password(url: str) -> str:
    """The URL for a message."""
    return re.sub(r"://.*@", "://…@", url)


def _with_password(url: URL) -> URL:
    password = str(url.password or "")
    if not password.startswith(ENVIRONMENT):
        return url
    name = password.removeprefix(ENVIRONMENT)
    if name not in os.environ:
        raise ConfigurationError(
            "command line", "--source", f"a password in {password}", "it in the environment",
            f"export {name}=…",
        )  # fmt: skip
    return url.set(password=os.environ[name])


def _build_url_error(url: str, action: str) -> ConfigurationError:
    expected = "an SQLAlchemy URL, such as postgresql://user:env:PASSWORD@host:5432/database"
    return ConfigurationError("command line", "--source", without_password(url), expected, action)


class FoundTable(NamedTuple):
    """A table of the source: the module that reads it, its SQL name, and its columns' types."""

    reader: ModuleType
    name: str
    types: Mapping[str, str]


@contextmanager
def connect_to_source(url: str, table: str) -> Iterator[Connection]:
    """A connection in one transaction that sees one state of the database and changes nothing.

    Raises:
        SourceUnreachable: the database does not answer, or refuses the login.
        TableFailed: a query fails.
    """
    engine = create_engine(url)
    try:
        with _open_connection(engine) as connection:
            choose_reader(connection).pin_state(connection)
            yield connection
            connection.rollback()
    except SQLAlchemyError as failure:
        first = str(failure).strip().splitlines()[0]
        raise TableFailed(table, f"its source database says: {first}") from failure
    finally:
        engine.dispose()


def _open_connection(engine: Engine) -> Connection:
    try:
        return engine.connect()
    except SQLAlchemyError as failure:
        first = str(failure).strip().splitlines()[0]
        raise SourceUnreachable(engine.url.render_as_string(), first) from failure


def choose_reader(connection: Connection) -> ModuleType:
    """The module that reads this kind of database: both have the same functions."""
    return postgres if connection.dialect.name == "postgresql" else rows


def find_table(connection: Connection, table: Table, named: str | None) -> FoundTable:
    """The source's table: the one `named` (schema.table), else the one that the topics name.

    Raises:
        TableFailed: there is none, or there are several.
    """
    inspector = inspect(connection)
    schemas = list_schemas(inspector)
    tables = [(s, name) for s in schemas for name in inspector.get_table_names(schema=s)]
    candidates = [named] if named else _list_candidates(table)
    matches = filter(None, (_match_tables(name, tables) for name in candidates))
    chosen = next(matches, [])
    if len(chosen) != 1:
        listed = ", ".join(map(".".join, chosen or tables)) or "nothing"
        raise TableFailed(
            table.table,
            f"no single table of the source is {' or '.join(candidates)}; it has {listed}; "
            "name the table with --source-table SCHEMA.TABLE",
        )
    ((schema, name),) = chosen
    reader, quote = choose_reader(connection), connection.dialect.identifier_preparer.quote
    types = reader.read_columns(connection, schema, name)
    return FoundTable(reader, f"{quote(schema)}.{quote(name)}", types)


def list_schemas(inspector: Inspector) -> list[str]:
    """The schemas of a database but those of the system."""
    return [s for s in inspector.get_schema_names() if s not in SYSTEM_SCHEMAS]


def _list_candidates(table: Table) -> list[str]:
    """`schema.table` of each topic, then the table's own name."""
    topics = [s.topic or (s.kafka.topic if s.kafka else s.path) or "" for s in table.feeds]
    return [*[".".join(t.rsplit(".", 2)[-2:]) for t in topics if t.count(".")], table.table]


def _match_tables(name: str, tables: list[tuple[str, str]]) -> list[tuple[str, str]]:
    """Tables of that name, written as Debezium writes it in a topic's name or as it is."""

    def normalize(text: str) -> str:
        return re.sub(r"[^A-Za-z0-9._-]", "_", text).lower()

    full = [t for t in tables if normalize(".".join(t)) == normalize(name)]
    return full or [t for t in tables if normalize(t[1]) == normalize(name)]
