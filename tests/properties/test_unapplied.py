"""Whatever waits in the change log: gold shows what the oracle says of all that has arrived."""

from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from tests.conftest import target_at
from tests.helpers import core, oracle
from tests.helpers.going_on import GoingOnLake
from tests.helpers.oracle import Event
from tests.helpers.sums import sums
from tests.properties.budget import budget
from tests.properties.test_convergence import delivery, stream


def ordinary(random: Random, length: int) -> list[Event]:
    """Whole upserts, and deletes, of a few rows."""
    events = []
    for at in range(1, length + 1):
        key, values = random.randint(1, 5), (("a", f"a{at}"), ("b", random.choice(["x", None])))
        deletes = random.random() < 0.25
        operation, carried = ("delete", ()) if deletes else ("upsert", values)
        events.append(Event(operation, 100 + at, key, carried, position=at, time=at))
    return events


@pytest.mark.slow
@pytest.mark.parametrize("kind", [ordinary, stream])
@budget(2)
@given(seed=st.integers(0, 2**32))
def test_a_reader_of_what_waits_sees_the_oracles_table_after_every_tick(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, kind: Any, seed: int
) -> None:
    random = Random(seed)
    delivered = delivery(random, kind(random, random.randint(12, 30)))
    lake, at = GoingOnLake(spark, target_at(tmp_path_factory.mktemp("lake"))), 0
    with pytest.MonkeyPatch.context() as patch:
        while at < len(delivered):
            size, due = random.randint(2, 6), random.random() < 0.3
            patch.setattr("silver.freshness.is_due", lambda *_, due=due: due)
            if random.random() < 0.2:
                lake.memory = Memory(among=1)
            lake.tick(delivered[at : at + size])
            at += size
            want = oracle.outcome(set(delivered[:at]), core.COLUMNS, core.COLUMNS)
            assert lake.shown() == want.current
    lake.merge()
    assert not lake.waits()
    assert lake.shown() == want.current
    beside, classes = sums(Lake(spark, lake.target))
    assert sum(classes.values()) == beside["records"] == len(delivered)
    assert kind is stream or lake.waited
