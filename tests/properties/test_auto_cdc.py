"""The law through `auto_cdc`: any delivery gives the oracle's table, with kills between commits.

A kill is an exception in place of a commit: what the calls before it have committed is there.
"""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession

from cdc_lakehouse import auto_cdc
from cdc_lakehouse.flows import publication, state
from cdc_lakehouse.flows.tables import FlowTable
from tests import core, oracle
from tests.conftest import REMOTE
from tests.oracle import Event
from tests.properties.budget import budget

COLUMNS = "id INT, a STRING, b STRING, op STRING, seq INT, carried ARRAY<STRING>"
SCDS = [pytest.param(1, marks=pytest.mark.slow), 2]
Row = tuple[Any, ...]


class Killed(Exception):
    """The end of a process."""


class Kills:
    """Lets so many commits happen, and kills in place of the next one."""

    def __init__(self) -> None:
        self.left: int | None = None

    @contextmanager
    def after(self, commits: int) -> Iterator[None]:
        self.left = commits
        try:
            yield
        finally:
            self.left = None

    def before(self, commit: Callable[..., Any]) -> Callable[..., Any]:
        def commit_or_end(*given: Any, **named: Any) -> Any:
            if self.left == 0:
                raise Killed
            if self.left is not None:
                self.left -= 1
            return commit(*given, **named)

        return commit_or_end


@pytest.fixture
def kills(monkeypatch: pytest.MonkeyPatch) -> Kills:
    """Kills in place of any commit of a flow, whose state is packed after every other batch."""
    kills = Kills()
    for name in ("create", "set_properties", "append", "add", "replace"):
        monkeypatch.setattr(FlowTable, name, kills.before(getattr(FlowTable, name)))
    for module in (state, publication):
        monkeypatch.setattr(module, "execute", kills.before(module.execute))
    monkeypatch.setattr(state, "PACKED_EVERY", 2)
    return kills


@pytest.mark.parametrize("scd", SCDS)
@budget(1)
@given(seed=st.integers(0, 2**32))
def test_any_delivery_in_batches_gives_the_oracles_table(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, kills: Kills, scd: int, seed: int
) -> None:
    random, target = Random(seed), tmp_path_factory.mktemp("flow") / "t"
    events = stream(random, scd)
    for batch in batches(random, events):
        rows = spark.createDataFrame([row_of(event) for event in batch], COLUMNS)
        result = ended(lambda rows=rows: flow(spark, rows, target, scd), random, kills)
        assert sum(result) == len(batch)
    assert shown(spark, target) == wanted(events, scd)


@pytest.mark.slow
@pytest.mark.skipif(bool(REMOTE), reason="kills in this process: unset LAKEHOUSE_TEST_REMOTE")
@pytest.mark.parametrize("scd", [1, 2])
@budget(2)
@given(seed=st.integers(0, 2**32))
def test_any_delivery_in_a_stream_gives_the_oracles_table(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, kills: Kills, scd: int, seed: int
) -> None:
    random, folder = Random(seed), tmp_path_factory.mktemp("flow")
    events, arriving = stream(random, scd), str(folder / "arriving")
    for batch in batches(random, events):
        rows = spark.createDataFrame([row_of(event) for event in batch], COLUMNS)
        rows.coalesce(1).write.format("delta").mode("append").save(arriving)
    source = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(arriving)

    def run() -> None:
        flow(spark, source, folder / "t", scd, once=True).awaitTermination()

    ended(run, random, kills)
    run()
    assert shown(spark, folder / "t") == wanted(events, scd)


def ended(call: Callable[[], Any], random: Random, kills: Kills) -> Any:
    """What a call gives that comes to its end, after some that are killed."""
    while True:
        with kills.after(random.randint(0, 6)):
            try:
                return call()
            except (Killed, StreamingQueryException):
                pass


def flow(spark: SparkSession, rows: DataFrame, target: Path, scd: int, **options: Any) -> Any:
    truncates = {"apply_as_truncates": "op = 'truncate'"} if scd == 1 else {}
    return auto_cdc(
        spark, rows, str(target), ["id"], "seq", apply_as_deletes="op = 'delete'",
        columns_to_update="carried", except_column_list=["op", "seq", "carried"],
        stored_as_scd_type=scd, **truncates, **options,
    )  # fmt: skip


def stream(random: Random, scd: int) -> list[Event]:
    """What a source with four rows does: upserts, some of them partial, deletes, truncates."""
    events: list[Event] = []
    for at in range(1, random.randint(8, 16)):
        kind, key = random.random(), random.randint(1, 4)
        if kind < 0.07 and scd == 1:
            events.append(Event("truncate", at, position=at, time=at))
        elif kind < 0.3:
            events.append(Event("delete", at, key, position=at, time=at))
        else:
            whole = (("a", f"v{random.randint(0, 2)}"), ("b", random.choice(["x", "y", None])))
            carried = whole if kind < 0.7 else (random.choice(whole),)
            events.append(Event("upsert", at, key, carried, position=at, time=at))
    return events


def batches(random: Random, events: list[Event]) -> list[list[Event]]:
    """The events in any order, some of them twice, in some batches."""
    delivered = events + [event for event in events if random.random() < 0.2]
    if random.random() < 0.8:
        random.shuffle(delivered)
    size = random.randint(4, 9)
    return [delivered[at : at + size] for at in range(0, len(delivered), size)]


def row_of(event: Event) -> Row:
    values, carried = dict(event.values), [name for name, _ in event.values]
    return (event.key, values.get("a"), values.get("b"), event.operation, event.sequence, carried)


def shown(spark: SparkSession, target: Path) -> list[Row]:
    found = spark.read.format("delta").load(str(target)).collect()
    return sorted((tuple(row) for row in found), key=repr)


def wanted(events: list[Event], scd: int) -> list[Row]:
    """What the oracle has, as the target has it."""
    want = oracle.outcome(set(events), core.COLUMNS, core.COLUMNS)
    if scd == 1:
        rows = [(key, row["a"], row["b"]) for key, row in want.current.items()]
    else:
        rows = [(key, *values, start, end) for key, start, end, *values in want.history]
    return sorted(rows, key=repr)
