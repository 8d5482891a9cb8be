"""First YAML of the tables of a source database: keys, types and comments, read by SQLAlchemy.

PostgreSQL, MySQL and MariaDB, as Debezium captures them: a type is the one that Debezium's records
have for the column with its default settings (decimals precise, times adaptive) and those of
`render_connector`; of integers the widest.
"""

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from itertools import chain
from pathlib import Path
from typing import Any, NamedTuple
from warnings import catch_warnings, simplefilter

from sqlalchemy import URL, Engine, Inspector, create_engine, inspect, text, types
from sqlalchemy.dialects import mysql, postgresql
from sqlalchemy.exc import SAWarning, SQLAlchemyError

from cdc_lakehouse.drafts.first_draft import (
    MOST_ALONE,
    SCHEMA_LINE,
    Draft,
    join_topics,
    name_file,
    possible_columns,
    split_source,
    to_scalar,
    write_many,
    write_text,
)
from cdc_lakehouse.drafts.sample import SIGNALS
from cdc_lakehouse.drafts.tables_in_files import to_identifier
from gold.source_check.database import list_schemas
from lakehouse.errors import ConfigurationError, SourceUnreachable
from lakehouse.words import render_count

MOST_DIGITS = 38
_KINDS: Sequence[tuple[tuple[type[types.TypeEngine[Any]], ...], str]] = (
    # A declared type stays: so it is the widest, as whoever runs out of numbers widens a column.
    ((mysql.YEAR, types.Integer, postgresql.INTERVAL), "bigint"),
    ((types.Boolean,), "boolean"),
    ((types.REAL, mysql.FLOAT), "float"),
    ((types.Float,), "double"),
    ((types.Date,), "date"),
    ((mysql.TIMESTAMP,), "timestamp"),
    ((types.DateTime,), "timestamp_ntz"),
    ((types.LargeBinary, types.BINARY, types.VARBINARY), "binary"),
    ((mysql.TINYBLOB, mysql.MEDIUMBLOB, mysql.LONGBLOB), "binary"),
)
_BACKENDS = ("postgresql", "mysql", "mariadb")
CONNECTORS = {
    "postgresql": "io.debezium.connector.postgresql.PostgresConnector",
    "mysql": "io.debezium.connector.mysql.MySqlConnector",
    "mariadb": "io.debezium.connector.mariadb.MariaDbConnector",
}
_VIA_ROOT = (
    "a publication WITH (publish_via_partition_root = true), so that changes of a partition come"
    " as those of its table; Debezium makes it from version 3.2 on (publish.via.partition.root),"
    " for an older one create it by hand"
)
_PARTITIONS = """
WITH RECURSIVE below AS (
  SELECT i.inhparent AS root, c.oid FROM pg_inherits i
  JOIN pg_class c ON c.oid = i.inhrelid AND c.relispartition
  JOIN pg_class p ON p.oid = i.inhparent AND NOT p.relispartition
  UNION ALL
  SELECT b.root, i.inhrelid FROM below b JOIN pg_inherits i ON i.inhparent = b.oid
)
SELECT rn.nspname, r.relname, cn.nspname, c.relname FROM below b
JOIN pg_class r ON r.oid = b.root JOIN pg_namespace rn ON rn.oid = r.relnamespace
JOIN pg_class c ON c.oid = b.oid JOIN pg_namespace cn ON cn.oid = c.relnamespace
WHERE c.relkind IN ('r', 'p') ORDER BY 1, 2, 3, 4
"""
"""Every partition of PostgreSQL, those of partitions too, with the table on top."""
_NOT_IN_TOPICS = re.compile(r"[^A-Za-z0-9._-]")


class DatabaseTable(NamedTuple):
    """A table of a source: where it is, what it is called, its keys and its columns' types.

    `columns` are type and comment by name; `partitions` are schema and name of each partition of a
    partitioned table, which are no tables of their own here.
    """

    schema: str
    name: str
    comment: str | None
    keys: list[str]
    columns: Mapping[str, tuple[str, str | None]]
    partitions: Sequence[tuple[str, str]] = ()


class ConnectorDraft(NamedTuple):
    """What the tables and their connector have to agree on.

    `prefix` begins the names of topics, `brokers` are Kafka's bootstrap servers; without them the
    records are dropped into one folder named after the prefix: by `lakehouse capture` if they are
    `captured`.
    """

    url: URL
    prefix: str
    brokers: str | None = None
    captured: bool = False


def read_tables(url: URL) -> tuple[URL, list[DatabaseTable]]:
    """The tables of a database, system tables and Debezium's own ones left out.

    The URL that is returned names MariaDB where the server is one: it has a connector of its own.

    Raises:
        ConfigurationError: the database is none of those above, or has no table.
        SourceUnreachable: it does not answer, or refuses who asks.
    """
    if url.get_backend_name() not in _BACKENDS:
        backend, expected = url.get_backend_name(), "postgresql, mysql or mariadb"
        action = "write the tables by hand, or from a file: `lakehouse init --from FILE`"
        raise ConfigurationError("command line", "--source", backend, expected, action)
    engine = create_engine(url)
    try:
        inspector = inspect(engine)
        with catch_warnings():  # of types that SQLAlchemy does not know: they are text here
            simplefilter("ignore", SAWarning)
            tables = list(_list_tables(inspector, _read_partitions(engine)))
        if getattr(inspector.dialect, "is_mariadb", False):
            url = url.set(drivername=f"mariadb+{url.get_driver_name()}")
    except SQLAlchemyError as failure:
        first = str(failure).strip().splitlines()[0]
        raise SourceUnreachable(url.render_as_string(), first) from failure
    finally:
        engine.dispose()
    if not tables:
        expected, action = "at least one table", "name the database that has the tables"
        raise ConfigurationError("command line", "--source", "no table", expected, action)
    return url, tables


def name_tables(tables: Sequence[DatabaseTable]) -> dict[str, DatabaseTable]:
    """The tables by the names that they get here; one whose name is taken has its schema's too."""
    named: dict[str, DatabaseTable] = {}
    for table in tables:
        name = to_identifier(table.name)
        named[to_identifier(f"{table.schema}_{name}") if name in named else name] = table
    return named


def write_source_drafts(
    folder: Path, tables: Mapping[str, DatabaseTable], connector: ConnectorDraft
) -> Iterator[Draft]:
    """Write a YAML per table, or of more than three tables one for all.

    Then only a table without a key, or with comments, has a file of its own.
    """
    if len(tables) <= MOST_ALONE:
        for name, table in tables.items():
            yield write_text(folder / f"{name}.yml", source_draft(name, table, connector))
        return
    by_topic = {_name_topic(table, connector): table for table in tables.values()}
    many = join_topics(by_topic)
    names = {many.name_table(topic): table for topic, table in by_topic.items()}
    yield write_many(name_file(folder, connector.prefix, names), many, _render_source(connector))
    for name, table in names.items():
        comments = [table.comment, *(comment for _, comment in table.columns.values())]
        if any(comments) or not table.keys:
            text = source_draft(name, table, connector)
            yield write_text(folder / f"{name}.yml", *split_source(text))


def _name_topic(table: DatabaseTable, connector: ConnectorDraft) -> str:
    return _NOT_IN_TOPICS.sub("_", f"{connector.prefix}.{table.schema}.{table.name}")


def _render_source(connector: ConnectorDraft, topic: str | None = None) -> list[str]:
    """The lines of the source of a table's topic, or of many tables."""
    named = [] if topic is None else [f"topic: {to_scalar(topic)}"]
    if connector.brokers is None:
        note = "" if connector.captured else "  # check: folder below the landing root"
        where = [f"  path: {to_scalar(connector.prefix)}{note}", *(f"  {line}" for line in named)]
    else:
        servers = f"bootstrap_servers: '{to_scalar(connector.brokers)}'"
        where = [f"  kafka: {{{', '.join([*named, servers])}}}"]
    return ["  format: debezium", *where]


def source_draft(name: str, table: DatabaseTable, connector: ConnectorDraft) -> str:
    """The YAML of a table."""
    lines = [SCHEMA_LINE, f"table: {name}"]
    lines += [f"comment: {to_scalar(table.comment)}"] if table.comment else []
    lines += ["source:", *_render_source(connector, _name_topic(table, connector))]
    doubt = "" if table.keys else "  # check: no primary key; a table without one keeps equal rows"
    lines += [f"keys: [{', '.join(map(to_scalar, table.keys))}]{doubt}", "columns:"]
    possible = possible_columns([*table.keys, *table.columns])
    for column, (kind, comment) in table.columns.items():
        quoted = f"'{kind}'" if "," in kind else kind
        note = json.dumps(comment, ensure_ascii=False)
        value = f"{{type: {quoted}, comment: {note}}}" if comment else kind
        mark = "" if column in possible else "# not possible: "
        lines += [f"  {mark}{to_scalar(column)}: {value}"]
    return "\n".join(lines) + "\n"


def render_connector(tables: Sequence[DatabaseTable], connector: ConnectorDraft) -> str:
    """The configuration of the Debezium connector that captures these tables, as JSON."""
    url, backend = connector.url, connector.url.get_backend_name()
    postgres = backend == "postgresql"
    signals = signal_table(tables)
    listed = ",".join([*(f"{table.schema}.{table.name}" for table in tables), signals])
    common = {
        "connector.class": CONNECTORS[backend],
        "topic.prefix": connector.prefix,
        "database.hostname": url.host or "localhost",
        "database.port": str(url.port or (5432 if postgres else 3306)),
        "database.user": url.username or "",
        "database.password": "${env:DATABASE_PASSWORD}",
        "table.include.list": listed,
        "signal.data.collection": signals,
        "value.converter": "org.apache.kafka.connect.json.JsonConverter",
        "value.converter.schemas.enable": "true",
        "value.converter.replace.null.with.default": "false",
        "key.converter": "org.apache.kafka.connect.json.JsonConverter",
        "key.converter.schemas.enable": "true",
        "snapshot.mode": "initial",
    }
    specific = (
        {
            "database.dbname": url.database or "",
            "plugin.name": "pgoutput",
            "slot.name": to_identifier(connector.prefix),
            "publication.name": to_identifier(connector.prefix),
            "publication.autocreate.mode": "filtered",
            **({"publish.via.partition.root": "true"} if _has_partitions(tables) else {}),
        }
        if postgres
        else {
            "database.server.id": "184054",
            "bigint.unsigned.handling.mode": "precise",
            **_schema_history(connector),
        }
    )
    return json.dumps({"name": connector.prefix, "config": specific | common}, indent=2) + "\n"


def render_capture(source: str, tables: Sequence[DatabaseTable], name: str, all_of: bool) -> str:
    """The text of conf/capture.yml: these tables, or `all_of` their schemas."""
    schemas = dict.fromkeys(table.schema for table in tables)
    patterns = [f"{s}.*" for s in schemas] if all_of else [f"{t.schema}.{t.name}" for t in tables]
    return (
        "# What `lakehouse capture` reads, and where from; a new table that matches comes too.\n"
        f"name: {name}\nsource: {json.dumps(source)}\ntables: {json.dumps(patterns)}\n"
        f"signals: {json.dumps(signal_table(tables))}\n"
    )


def signal_table(tables: Sequence[DatabaseTable]) -> str:
    """The table by which the connector is asked for new snapshots, in `public` where there is one.

    Else it lies in the schema of the first table.
    """
    schemas = [table.schema for table in tables]
    return f"{'public' if 'public' in schemas else schemas[0]}.dbz_signal"


def _schema_history(connector: ConnectorDraft) -> dict[str, str]:
    """Where the connector keeps the tables' shapes: a topic, or without brokers a file."""
    history = "schema.history.internal"
    if connector.brokers is None:
        file = "io.debezium.storage.file.history.FileSchemaHistory"
        return {history: file, f"{history}.file.filename": f"{connector.prefix}-schema-history.dat"}
    return {
        f"{history}.kafka.topic": f"{connector.prefix}.schema-changes",
        f"{history}.kafka.bootstrap.servers": connector.brokers,
    }


def list_preparations(tables: Sequence[DatabaseTable], url: URL) -> list[str]:
    """What the database needs before a connector can capture these tables, a line each."""
    columns = "id varchar(64) PRIMARY KEY, type varchar(32) NOT NULL, data varchar(2048)"
    signals = f"CREATE TABLE {signal_table(tables)} ({columns});"
    if url.get_backend_name() != "postgresql":
        return ["in my.cnf: log_bin = ON, binlog_format = ROW, binlog_row_image = FULL", signals]
    keyless = [table for table in tables if not table.keys]
    names = [name for t in keyless for name in ((t.schema, t.name), *t.partitions)]
    return [
        "in postgresql.conf: wal_level = logical",
        *(f'ALTER TABLE "{schema}"."{name}" REPLICA IDENTITY FULL;' for schema, name in names),
        *([_VIA_ROOT] if _has_partitions(tables) else []),
        signals,
    ]


def describe_partitioned(tables: Mapping[str, DatabaseTable]) -> list[str]:
    """A sentence for each partitioned table, whose partitions get no YAML of their own."""
    counts = {name: len(table.partitions) for name, table in tables.items() if table.partitions}
    return [
        f"{name} is a partitioned table: its {render_count(n, 'partition')} are read as one table"
        for name, n in counts.items()
    ]


def _has_partitions(tables: Sequence[DatabaseTable]) -> bool:
    return any(table.partitions for table in tables)


def to_spark_type(kind: "types.TypeEngine[Any]") -> str:
    """The Spark SQL type for a column of the source; what has no better one is text."""
    if isinstance(kind, postgresql.ARRAY):
        return f"array<{to_spark_type(kind.item_type)}>"
    if isinstance(kind, mysql.BIT | postgresql.BIT):
        return "boolean" if kind.length in (None, 1) else "binary"
    if isinstance(kind, types.Numeric) and not isinstance(kind, types.Float):
        # Debezium has decimals without a limit as text: they may exceed every type.
        limited = kind.precision is not None and kind.precision <= MOST_DIGITS
        return f"decimal({kind.precision},{kind.scale or 0})" if limited else "string"
    if getattr(kind, "timezone", False) and isinstance(kind, types.DateTime):
        return "timestamp"
    if isinstance(kind, types.BigInteger) and getattr(kind, "unsigned", False):
        return "decimal(20,0)"
    return next((spark for sources, spark in _KINDS if isinstance(kind, sources)), "string")


def _read_partitions(engine: Engine) -> dict[tuple[str, str], list[tuple[str, str]]]:
    """The partitions of PostgreSQL's partitioned tables, schema and name of each."""
    partitions: dict[tuple[str, str], list[tuple[str, str]]] = {}
    if engine.dialect.name == "postgresql":
        with engine.connect() as connection:
            for *root, schema, name in connection.execute(text(_PARTITIONS)):
                partitions.setdefault((root[0], root[1]), []).append((schema, name))
    return partitions


def _list_tables(
    inspector: Inspector, partitions: Mapping[tuple[str, str], Sequence[tuple[str, str]]]
) -> Iterator[DatabaseTable]:
    all_partitions = {*chain(*partitions.values())}
    schemas = list_schemas(inspector)
    if inspector.dialect.name == "mysql" and inspector.default_schema_name:
        schemas = [inspector.default_schema_name]
    for schema in schemas:
        for name in sorted(inspector.get_table_names(schema=schema)):
            if SIGNALS.search(name) or (schema, name) in all_partitions:
                continue
            columns = {
                column["name"]: (to_spark_type(column["type"]), column.get("comment"))
                for column in inspector.get_columns(name, schema=schema)
            }
            keys = inspector.get_pk_constraint(name, schema=schema)["constrained_columns"]
            comment = inspector.get_table_comment(name, schema=schema)["text"]
            parts = partitions.get((schema, name), ())
            yield DatabaseTable(schema, name, comment, list(keys), columns, parts)
