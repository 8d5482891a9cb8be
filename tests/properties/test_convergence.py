"""The law: whatever the order of arrival, the cut into batches and the repeats.

The outcome is the oracle's.
"""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.storage.lake import Lake
from tests.conftest import target_at
from tests.helpers import core, oracle
from tests.helpers.oracle import Event
from tests.properties.budget import budget


@pytest.mark.parametrize("scd", [pytest.param(1, marks=pytest.mark.slow), 2])
@budget(1)
@given(seed=st.integers(0, 2**32))
def test_any_delivery_of_a_stream_gives_the_oracles_tables(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, scd: int, seed: int
) -> None:
    random = Random(seed)
    events = stream(random, random.randint(8, 20))
    delivered = delivery(random, events)
    target, config = target_at(tmp_path_factory.mktemp("lake")), core.table(scd)
    at = done = 0
    while at < len(delivered):
        size = random.randint(4, 12)
        done = core.deliver(Lake(spark, target), config, delivered[at : at + size], at, done)
        at += size
    got = core.outcome(Lake(spark, target), config)
    want = oracle.outcome(set(events), core.COLUMNS, core.COLUMNS)
    assert got.current == want.current
    if scd == 2:
        assert got.history == want.history


def delivery(random: Random, events: list[Event]) -> list[Event]:
    """The events with some of them twice, and mostly out of order."""
    twice = events + [e for e in events if random.random() < 0.2]
    if random.random() < 0.7:
        random.shuffle(twice)
    return twice


def stream(random: Random, length: int) -> list[Event]:
    """What a source with four rows does.

    Upserts whole and (of some sources) partial, deletes, key changes, truncates, snapshots.
    """
    events: list[Event] = []
    all_columns = random.random() < 0.5
    live: set[int] = set()
    at, sequence = 0, 100
    for step in range(length):
        at, sequence, key, kind = (
            at + 1,
            sequence + random.randint(1, 3),
            random.randint(1, 4),
            random.random(),
        )
        if kind < 0.08:
            events.append(Event("truncate", sequence, position=at, time=at))
            live.clear()
        elif kind < 0.2:
            events.append(Event("delete", sequence, key, position=at, time=at))
            live.discard(key)
        elif kind < 0.3 and live:
            old, new = random.choice(sorted(live)), random.randint(5, 8)
            if new in live:
                continue
            events.append(Event("delete", sequence, old, position=at, time=at))
            at, sequence = at + 1, sequence + 1
            moved = (("a", f"m{step}"), *((("b", "m"),) if all_columns else ()))
            events.append(Event("upsert", sequence, new, moved, old, at, at))
            live = live - {old} | {new}
        elif kind < 0.36:
            keys = random.sample(range(1, 9), 3)
            events += snapshot(random, keys, sequence + 50, at, step)
            at, live = at + 3, set(keys)
        elif kind < 0.55 and (key in live or kind > 0.5) and not all_columns:
            some = (("a", f"v{random.randint(0, 2)}"),)
            events.append(Event("upsert", sequence, key, some, position=at, time=at))
            live.add(key)
        else:
            whole = (("a", f"v{random.randint(0, 2)}"), ("b", random.choice(["x", "y", None])))
            events.append(Event("upsert", sequence, key, whole, position=at, time=at))
            live.add(key)
    return events


def snapshot(random: Random, keys: list[int], lsn: int, at: int, step: int) -> list[Event]:
    """A full snapshot of three rows, sometimes broken off before its last marker.

    Some of its rows may be what the source's changes made of them.
    """
    whole = random.random() < 0.8
    values = [(f"v{random.randint(0, 2)}", random.choice("xy")) for _ in keys]
    return [
        Event(
            "upsert", lsn, key, (("a", values[n][0]), ("b", values[n][1])), None, at + n, at,
            snapshot=f"s:{lsn}", last=whole and n == len(keys) - 1,
        )
        for n, key in enumerate(keys)
    ]  # fmt: skip
