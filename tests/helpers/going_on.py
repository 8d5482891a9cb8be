"""A lake of one current table that a run keeps up to date which goes on."""

from typing import Any

from pyspark.sql import SparkSession

from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.spark.session import interpreting_session
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import load_views
from silver import job as silver
from silver.state.table_state import read_state
from tests.helpers import core
from tests.helpers.lakes import quiet
from tests.helpers.landed import failures, land
from tests.helpers.oracle import Event

OPS = {"upsert": "u", "delete": "d", "truncate": "t"}
LEFT_OUT = "__debezium_unavailable_value"


def table(**options: Any) -> Table:
    given = {
        "table": "t",
        "source": {"format": "debezium", "path": "t"},
        "keys": ["id"],
        "columns": {"id": "int", "a": "string", "b": "string"},
    }
    return Table.model_validate(given | options)


def record(event: Event) -> dict[str, Any]:
    """The change as Debezium writes it, a column that it does not carry by its placeholder."""
    values = {"a": LEFT_OUT, "b": LEFT_OUT} | dict(event.values)
    row = {"id": event.key, **values} if event.operation == "upsert" else None
    source = {
        "connector": "postgresql", "name": "s", "lsn": event.sequence, "txId": event.sequence,
        "ts_us": int(core.START.timestamp() + event.time) * 1_000_000,
        "snapshot": ("last" if event.last else "true") if event.snapshot else "false",
    }  # fmt: skip
    before = {"id": event.key} if event.operation == "delete" else None
    op = "r" if event.snapshot else OPS[event.operation]
    value = {"before": before, "after": row, "source": source, "op": op}
    key = {} if event.key is None else {"key": {"id": event.key}}
    moved = {"headers": {"__debezium.oldkey": {"id": event.old_key}}} if event.old_key else {}
    return {"topic": "t", "partition": 0, "offset": event.position, "value": value} | key | moved


class GoingOnLake:
    """A run that goes on, now and then killed and started anew."""

    def __init__(self, spark: SparkSession, target: Target, config: Table | None = None) -> None:
        self.spark, self.target, self.config = spark, target, config or table()
        self.memory, self.batch, self.waited = Memory(among=1), 0, 0

    def tick(self, events: list[Event]) -> Entry:
        return self.land([record(event) for event in events])

    def land(self, records: list[dict[str, Any]]) -> Entry:
        """Records arrive, and a round does what it does with them."""
        self.batch += 1
        land(Lake(self.spark, self.target), self.config, self.batch, records)
        if self.target.kind == "local":
            self.memory.brief = self.memory.brief or interpreting_session(self.spark)
            self.memory.came[self.config.table] = len(records)
        entry = self.apply(self.memory)
        self.waited += self.waits()
        return entry

    def apply(self, memory: Memory | None = None) -> Entry:
        """A round; one that ends, unless it has the memory of one that goes on."""
        lake = Lake(self.spark, self.target)
        (entry,) = silver.apply(lake, [self.config], "run", quiet, memory)
        assert failures([entry]) == []
        self.publish()
        return entry

    def merge(self) -> Entry:
        """A run that merges all that waits."""
        (entry,) = silver.apply_all(Lake(self.spark, self.target), [self.config], "run", quiet)
        assert failures([entry]) == []
        self.publish()
        return entry

    def waits(self) -> bool:
        """Whether readers see something that is not merged yet."""
        return read_state(Lake(self.spark, self.target), self.config.table).shown > 0

    def publish(self, **options: Any) -> None:
        config = self.config.model_copy(update=options)
        assert failures(gold.publish(Lake(self.spark, self.target), [config], "run", quiet)) == []

    def shown(self) -> dict[int, dict[str, Any]]:
        rows = self.spark.sql(load_views(self.target, "gold")["t"].query).collect()
        found = {row["id"]: {c: row[c] for c in core.COLUMNS} for row in rows}
        assert len(found) == len(rows)
        return found
