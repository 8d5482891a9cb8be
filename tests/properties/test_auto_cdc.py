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
from cdc_lakehouse.flows import state
from cdc_lakehouse.flows.batch import FlowTarget
from cdc_lakehouse.flows.tables import FlowTable
from lakehouse.storage import statements
from tests.conftest import REMOTE
from tests.helpers import core, oracle
from tests.helpers.oracle import Event
from tests.properties.budget import budget

pytestmark = pytest.mark.slow

KINDS: dict[str, dict[str, Any]] = {
    "current": {"stored_as_scd_type": 1, "apply_as_truncates": "op = 'truncate'"},
    "history": {"stored_as_scd_type": 2},
}
COLUMNS = "id INT, a STRING, b STRING, op STRING, seq INT, carried ARRAY<STRING>"
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
    """Kills in place of any commit of a flow, whose state is packed after every other batch.

    The end of a call stands for the commit of a stream's checkpoint.
    """
    kills = Kills()
    apply, end = FlowTarget.apply, kills.before(lambda result: result)
    monkeypatch.setattr(FlowTarget, "apply", lambda *given: end(apply(*given)))
    for name in ("create", "set_properties", "append", "add_columns", "replace_rows"):
        monkeypatch.setattr(FlowTable, name, kills.before(getattr(FlowTable, name)))
    for module in (state, statements):
        monkeypatch.setattr(module, "execute_with_rows", kills.before(module.execute_with_rows))
    monkeypatch.setattr(state, "PACKED_EVERY", 2)
    return kills


@pytest.mark.parametrize("kind", KINDS)
@budget(1)
@given(seed=st.integers(0, 2**32))
def test_any_delivery_in_batches_gives_the_oracles_table(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    kills: Kills,
    kind: str,
    seed: int,
) -> None:
    random, target = Random(seed), tmp_path_factory.mktemp("flow") / "t"
    events = stream(random, kind)
    for batch in batches(random, events):
        rows = spark.createDataFrame([row_of(event) for event in batch], COLUMNS)
        result = ended(lambda rows=rows: flow(spark, rows, target, kind), random, kills)
        assert sum(result) == len(batch)
    assert shown(spark, target) == wanted(events, kind)


@pytest.mark.skipif(bool(REMOTE), reason="kills in this process: unset LAKEHOUSE_TEST_REMOTE")
@pytest.mark.parametrize("kind", KINDS)
@budget(2)
@given(seed=st.integers(0, 2**32))
def test_any_delivery_in_a_stream_gives_the_oracles_table(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    kills: Kills,
    kind: str,
    seed: int,
) -> None:
    random, folder = Random(seed), tmp_path_factory.mktemp("flow")
    events, arriving = stream(random, kind), str(folder / "arriving")
    for batch in batches(random, events):
        rows = spark.createDataFrame([row_of(event) for event in batch], COLUMNS)
        rows.coalesce(1).write.format("delta").mode("append").save(arriving)
    source = spark.readStream.format("delta").option("maxFilesPerTrigger", 1).load(arriving)

    def run() -> None:
        flow(spark, source, folder / "t", kind, once=True).awaitTermination()

    ended(run, random, kills)
    run()
    assert shown(spark, folder / "t") == wanted(events, kind)


def ended(call: Callable[[], Any], random: Random, kills: Kills) -> Any:
    """What a call gives that comes to its end, after some that are killed."""
    while True:
        with kills.after(random.randint(0, 6)):
            try:
                return call()
            except (Killed, StreamingQueryException):
                pass


def flow(spark: SparkSession, rows: DataFrame, target: Path, kind: str, **options: Any) -> Any:
    return auto_cdc(
        spark, rows, str(target), ["id"], "seq", apply_as_deletes="op = 'delete'",
        columns_to_update="carried", except_column_list=["op", "seq", "carried"],
        **KINDS[kind], **options,
    )  # fmt: skip


def stream(random: Random, kind: str) -> list[Event]:
    """What a source with four rows does: upserts, some of them partial, deletes, truncates."""
    events: list[Event] = []
    for at in range(1, random.randint(8, 16)):
        chance, key = random.random(), random.randint(1, 4)
        if chance < 0.07 and kind != "history":
            events.append(Event("truncate", at, position=at, time=at))
        elif chance < 0.3:
            events.append(Event("delete", at, key, position=at, time=at))
        else:
            whole = (("a", f"v{random.randint(0, 2)}"), ("b", random.choice(["x", "y", None])))
            carried = whole if chance < 0.7 else (random.choice(whole),)
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
    return sorted(map(tuple, found), key=repr)


def wanted(events: list[Event], kind: str) -> list[Row]:
    """What the oracle has, as the target has it."""
    want = oracle.outcome(set(events), core.COLUMNS, core.COLUMNS)
    if kind != "history":
        rows = [(key, row["a"], row["b"]) for key, row in want.current.items()]
    else:
        rows = [(key, *values, start, end) for key, start, end, *values in want.history]
    return sorted(rows, key=repr)
