"""Whatever waits in the change log: gold shows what the oracle says of all that has arrived."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from gold import job as gold
from lakehouse.memory import Memory
from lakehouse.table import Table
from lakehouse.target import Target
from lakehouse.views import stored
from silver import job as silver
from silver import unapplied
from tests import core, oracle
from tests.conftest import target_at
from tests.lake import quiet
from tests.landed import failures, land
from tests.oracle import Event
from tests.properties.budget import budget
from tests.properties.test_convergence import delivery, stream
from tests.sums import sums

OPS = {"upsert": "u", "delete": "d", "truncate": "t"}
LEFT_OUT = "__debezium_unavailable_value"


def table() -> Table:
    given = {
        "table": "t",
        "source": {"format": "debezium", "path": "t"},
        "keys": ["id"],
        "columns": {"id": "int", "a": "string", "b": "string"},
    }
    return Table.model_validate(given)


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


def ordinary(random: Random, length: int) -> list[Event]:
    """Whole upserts, and deletes, of a few rows."""
    events = []
    for at in range(1, length + 1):
        key, values = random.randint(1, 5), (("a", f"a{at}"), ("b", random.choice(["x", None])))
        deletes = random.random() < 0.25
        operation, carried = ("delete", ()) if deletes else ("upsert", values)
        events.append(Event(operation, 100 + at, key, carried, position=at, time=at))
    return events


class Lake:
    """A run that goes on, now and then killed and started anew."""

    def __init__(self, spark: SparkSession, target: Target) -> None:
        self.spark, self.target, self.config = spark, target, table()
        self.memory, self.batch, self.waited = Memory(among=1), 0, 0

    def tick(self, events: list[Event]) -> None:
        self.batch += 1
        land(self.spark, self.target, self.config, self.batch, [record(e) for e in events])
        given = (self.spark, self.target, [self.config], "run", quiet)
        assert failures(silver.apply(*given, self.memory)) == []
        assert failures(gold.publish(*given)) == []
        self.waited += unapplied.until(self.target, self.config) > 0

    def shown(self) -> dict[int, dict[str, Any]]:
        rows = self.spark.sql(stored(self.target, "gold")["t"].query).collect()
        found = {row["id"]: {c: row[c] for c in core.COLUMNS} for row in rows}
        assert len(found) == len(rows)
        return found


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ordinary, stream])
@budget(2)
@given(seed=st.integers(0, 2**32))
def test_a_reader_of_what_waits_sees_the_oracles_table_after_every_tick(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, kind: Any, seed: int
) -> None:
    random = Random(seed)
    delivered = delivery(random, kind(random, random.randint(12, 30)))
    lake, at = Lake(spark, target_at(tmp_path_factory.mktemp("lake"))), 0
    with pytest.MonkeyPatch.context() as patch:
        while at < len(delivered):
            size, due = random.randint(2, 6), random.random() < 0.3
            patch.setattr("silver.deferral.is_due", lambda *_, due=due: due)
            if random.random() < 0.2:
                lake.memory = Memory(among=1)
            lake.tick(delivered[at : at + size])
            at += size
            want = oracle.outcome(set(delivered[:at]), core.COLUMNS, core.COLUMNS)
            assert lake.shown() == want.current
    given = (spark, lake.target, [lake.config], "run", quiet)
    assert failures(silver.apply(*given)) == []
    assert unapplied.until(lake.target, lake.config) == 0
    assert lake.shown() == want.current
    beside, classes = sums(spark, lake.target)
    assert sum(classes.values()) == beside["records"] == len(delivered)
    assert kind is stream or lake.waited
