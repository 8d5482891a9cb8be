"""Runs a whole lake in this process, and reads what gold shows."""

from collections.abc import Sequence
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

from bronze import job as bronze
from bronze.contract import feed_name
from bronze.feeds import list_feeds
from bronze.kafka import ingest
from bronze.kafka.avro_schemas import keep_schemas
from bronze.storage import append_spread, prepare_table
from cdc_lakehouse.cli.ask.status_records import keep_status, read_status
from gold import job as gold
from gold.status.figures import Record
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from silver import job as silver
from tests.helpers.builders import Line, bronze_rows
from tests.helpers.forms import Sent

KAFKA = (
    "key binary, value binary, topic string, partition int, offset bigint, timestamp timestamp, "
    "headers array<struct<key: string, value: binary>>"
)
"""The columns of Spark's source."""


def quiet(_: str) -> None:
    """No progress to show."""


def run(lake: Lake, tables: list[Table]) -> list[Entry]:
    """What is new through all three layers; fails where a table failed."""
    taken = bronze.ingest(lake, tables, "run", quiet)
    ledger.append_entries(lake, [entry for entry in taken if entry.counts])
    failed = [entry.message for entry in taken if entry.status == "failed"]
    assert failed == [], failed
    return [*taken, *settle(lake, tables)]


def arrive(
    lake: Lake, table: Table, lines: Sequence[Line], batch: int = 1, whole: bool = False
) -> None:
    """Puts one batch into the table's bronze, without a stream; `whole` for whole records."""
    name = lake.name("bronze", feed_name(table, table.feeds[0]))
    raw = bronze_rows(lake.spark, lines, batch, whole).drop("_feed")
    writer = raw.writeTo(name).using("delta")
    writer.append() if batch > 1 else writer.create()


def arrive_from_kafka(
    lake: Lake, table: Table, records: Sequence[Sent], batch: int = 1, offset: int = 0
) -> None:
    """Puts one batch of a topic into the table's bronze, without a broker."""
    (feed,) = list_feeds([table])
    assert feed.kafka is not None
    prepare_table(lake, feed)
    found = [
        (sent.key, sent.value, feed.kafka.topic, 0, at, _time(sent.ms), sent.headers)
        for at, sent in enumerate(records, offset)
    ]
    taken = lake.spark.createDataFrame(found, KAFKA)
    keep_schemas(lake, taken, feed)
    rows = ingest.build_rows(taken, feed.kafka, feed, batch)
    append_spread(lake, feed, rows, batch)


def _time(ms: int) -> datetime:
    return datetime.fromtimestamp(ms / 1000, timezone.utc)


def settle(lake: Lake, tables: list[Table]) -> list[Entry]:
    """What bronze holds through silver and gold; fails where a table failed."""
    done = silver.apply(lake, tables, "run", quiet)
    done += gold.publish(lake, tables, "run", quiet)
    failures = [e.message for e in done if e.status == "failed"]
    assert not failures, failures
    return done


def status(lake: Lake, tables: list[Table]) -> list[Record]:
    """The status records of tables, as a command leaves them."""
    keep_status(lake, tables, tables)
    return read_status(lake.target, tables, tables).records


def rows(lake: Lake, name: str) -> list[dict[str, Any]]:
    """The rows of a gold table."""
    query = f"SELECT * FROM gold.`{name}`"
    gold.open_catalog(lake, query)
    return [row.asDict() for row in lake.spark.sql(query).collect()]


def land(target: Target, folder: str, name: str, lines: list[str]) -> None:
    """Drops one file of lines, as a source does: written aside, then renamed.

    A byte that is not UTF-8 stands in a line as Python's `surrogateescape` has it.
    """
    place = Path(target.landing, folder)
    place.mkdir(parents=True, exist_ok=True)
    text = "".join(line + "\n" for line in lines)
    (place / f".{name}").write_bytes(text.encode("utf-8", "surrogateescape"))
    (place / f".{name}").rename(place / name)
