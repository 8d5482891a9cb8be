"""`rebootstrap`: a new snapshot of a live table, by a signal to its Debezium connector."""

import json
import uuid
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_lakehouse.cli.front import command, load_conf
from cdc_lakehouse.cli.options import Chosen
from lakehouse.config.loading import select_tables
from lakehouse.errors import ConfigurationError, SourceUnreachable

if TYPE_CHECKING:
    from sqlalchemy.engine import Dialect

Collection = Annotated[
    str | None, typer.Option(help="SCHEMA.TABLE at the source, where the topic does not name it.")
]
Signals = Annotated[str, typer.Option(help="The connector's signal.data.collection.")]
CHECK = (
    "check the URL, the rights and the name (--signals), and the connector's signal.data.collection"
)


@command("rebootstrap")
def rebootstrap(
    chosen: Chosen,
    table: Annotated[str, typer.Argument(help="The table that lacks records.")],
    source: Annotated[str, typer.Option(help="SQLAlchemy URL of the source database.")],
    collection: Collection = None,
    signals: Signals = "public.dbz_signal",
) -> None:
    """Ask the table's connector for a new snapshot, which makes up for lost records.

    Writes one row into the connector's signal table. The snapshot arrives like any other change.
    Once its last row has arrived, rows that the source lacks are removed, and the table's gaps are
    closed. Nothing has to be stopped.
    """
    _, tables = load_conf(chosen)
    (config,) = select_tables(tables, [table])
    feed = config.feeds[0]
    topic = feed.topic or (feed.kafka.topic if feed.kafka else None)
    named = collection or _parse_collection(topic)
    if config.format != "debezium" or named is None:
        problem = f"format {config.format}" if config.format != "debezium" else "no topic"
        expected = "a Debezium table whose topic ends in SCHEMA.TABLE"
        action = "name --collection, or deliver the table's rows anew as its source allows"
        raise ConfigurationError(f"table {table}", "source", problem, expected, action)
    send_signal(source, signals, named)
    print(f"{table}: asked for a new snapshot of {named}; the next runs take it in")


def send_signal(source: str, signals: str, collection: str) -> None:
    """Write the signal for a blocking snapshot, by which rows that are gone are found as well.

    Raises:
        ConfigurationError: the URL is not valid, or its driver or password is not here.
        SourceUnreachable: the database cannot be reached, or has no such signal table.
    """
    from sqlalchemy import create_engine, text
    from sqlalchemy.exc import SQLAlchemyError

    from gold.source_check.database import check_url

    wish = {"data-collections": [collection], "type": "blocking"}
    row = {"id": str(uuid.uuid4()), "type": "execute-snapshot", "data": json.dumps(wish)}
    url = check_url(source)
    try:
        engine = create_engine(url)
        named = quote_table(engine.dialect, signals)
        statement = text(f"INSERT INTO {named} (id, type, data) VALUES (:id, :type, :data)")
        with engine.begin() as connection:
            connection.execute(statement, row)
        engine.dispose()
    except SQLAlchemyError as failure:
        raise SourceUnreachable(signals, str(failure).splitlines()[0], CHECK) from failure


def quote_table(dialect: "Dialect", name: str) -> str:
    """SCHEMA.TABLE in the quotes of the database: MySQL takes double ones for a text."""
    return ".".join(map(dialect.identifier_preparer.quote_identifier, name.split(".")))


def _parse_collection(topic: str | None) -> str | None:
    """SCHEMA.TABLE, the end of Debezium's PREFIX.SCHEMA.TABLE; None for several topics."""
    parts = (topic or "").split(".")
    return ".".join(parts[-2:]) if len(parts) > 2 and topic and "," not in topic else None
