"""What connectors write of a source, in any order and any cut: the source's rows and versions."""

from itertools import pairwise
from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers.flat_sources import FLAT, STREAMS, source_of
from tests.helpers.source_lake import TABLES, SourceLake
from tests.helpers.sources import Sent
from tests.properties.budget import budget

SEEDS = st.integers(0, 2**32)


def check_stream(connector: str, seed: int, steps: int = 14) -> None:
    """Takes a source's topic in, in batches, and compares what comes out with the source."""
    random = Random(f"{connector} {seed}")
    source = source_of(random, connector)
    source.run(random.randint(1, steps))
    lake = SourceLake(
        TABLES[source.format],
        history=connector != "flattened_tombstone" and random.random() < 0.7,
        cuts=random,
        whole=random.random() < 0.3 and connector not in FLAT,
        fails_over="failover" in source.can,
    )
    for batch in deliveries(random, source.topic):
        lake.deliver(batch)
    assert lake.fold.current() == source.truth.rows
    if lake.history:
        assert lake.fold.versions() == source.truth.versions


def deliveries(random: Random, topic: list[Sent]) -> list[list[Sent]]:
    """Batches of a topic's records, some of them again; in order or in any."""
    delivered = topic + [sent for sent in topic if random.random() < 0.1]
    if random.random() < 0.6:
        random.shuffle(delivered)
    cuts = sorted(random.randint(0, len(delivered)) for _ in range(random.randint(0, 4)))
    bounds = [0, *cuts, len(delivered)]
    return [delivered[begin:end] for begin, end in pairwise(bounds) if begin < end]


@pytest.mark.parametrize("connector", STREAMS)
@budget(60)
@given(seed=SEEDS)
def test_a_stream_in_any_order_and_any_cut_gives_the_source(connector: str, seed: int) -> None:
    check_stream(connector, seed)


def test_a_snapshot_of_one_source_table_leaves_the_rows_of_the_other() -> None:
    lake = SourceLake(TABLES["debezium"], history=True, cuts=Random(1))

    def read(at: int, db: str, id: int, a: str) -> Sent:
        named = {"connector": "postgresql", "name": "s", "db": db, "schema": "p", "table": "t"}
        block = {**named, "lsn": at, "ts_ms": 1000 * at, "snapshot": "last"}
        row = {"id": id, "a": a, "b": None}
        value = {"op": "r", "before": None, "after": row, "source": block}
        return Sent(at, {"id": id}, value)

    lake.deliver([read(1, "one", 1, "x"), read(2, "two", 2, "y")])
    lake.deliver([read(3, "one", 1, "z")])

    assert lake.fold.current() == {1: {"a": "z", "b": None}, 2: {"a": "y", "b": None}}
    assert [version[1:3] for version in lake.fold.versions()] == [(1, 3), (3, None), (2, None)]
