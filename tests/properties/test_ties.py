"""Changes of one key at one place in order: the last one to arrive stands, whatever comes again.

They arrive in any order, cut anywhere, some of them twice; after every batch gold is the oracle's,
which knows where each change arrived first.
"""

from dataclasses import replace
from itertools import pairwise
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from gold.views import agreement
from lakehouse.storage.lake import Lake
from silver.audit.verify import verify
from tests.conftest import target_at
from tests.helpers import lakes, oracle
from tests.helpers.builders import table
from tests.helpers.oracle import Event
from tests.helpers.sums import sums
from tests.properties.budget import budget
from tests.properties.test_formats import PLAIN, ROWS, row

pytestmark = pytest.mark.slow

TABLES: dict[str, dict[str, Any]] = {
    "current": {},
    "history": {"stored_as_scd_type": 2},
    "flagged": {"on_delete": "flag"},
    "waiting": {"max_staleness": 0},
}


@pytest.mark.parametrize("partial", [False, True])
@pytest.mark.parametrize("name", TABLES)
@budget(1)
@given(seed=st.integers(0, 2**32))
def test_what_comes_again_wins_no_tie(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    name: str,
    partial: bool,
    seed: int,
) -> None:
    random, target = Random(seed), target_at(tmp_path_factory.mktemp("lake"))
    config = table("rows", ["id"], **ROWS, **PLAIN, **TABLES[name])
    delivered = delivery(random, stream(random, partial))
    cuts = sorted(random.sample(range(1, len(delivered)), random.randint(1, 4)))
    arrived: dict[Event, Event] = {}
    for number, (begin, end) in enumerate(pairwise([0, *cuts, len(delivered)]), start=1):
        for at in range(begin, end):
            arrived.setdefault(delivered[at], replace(delivered[at], position=at + 1))
        lakes.arrive(Lake(spark, target), config, [row(e) for e in delivered[begin:end]], number)
        lakes.settle(Lake(spark, target), [config])
        want = oracle.outcome({*arrived.values()}, ["a", "b"], ["a", "b"])
        rows = [r for r in lakes.rows(Lake(spark, target), "t") if not r.get("is_deleted")]
        assert {r["id"]: {"a": r["a"], "b": r["b"]} for r in rows} == want.current
    sums(Lake(spark, target))
    laws = verify(
        Lake(spark, target), config, agreement.build_gold_laws(Lake(spark, target), config)
    )
    assert {law.law: law.first for law in laws if not law.holds} == {}


def stream(random: Random, partial: bool) -> list[Event]:
    """Five changes for each of five keys, at five places; sometimes a truncate."""
    events = [change(random, key, partial) for key in range(1, 6) for _ in range(5)]
    if random.random() < 0.5:
        place = 2 * random.randint(0, 3) + 1
        events.append(Event("truncate", place, time=place))
    return list(dict.fromkeys(events))


def change(random: Random, key: int, partial: bool) -> Event:
    place = 2 * random.randint(1, 5)
    if random.random() < 0.2:
        return Event("delete", place, key, time=place)
    carried = sorted(random.sample(["a", "b"], random.randint(1, 2) if partial else 2))
    return Event(
        "upsert", place, key, tuple((c, random.choice("xyz")) for c in carried), time=place
    )


def delivery(random: Random, events: list[Event]) -> list[Event]:
    """The events in any order, a third of them once more, later."""
    delivered = random.sample(events, len(events))
    for event in random.sample(events, len(events) // 3):
        later = random.randint(delivered.index(event) + 1, len(delivered))
        delivered.insert(later, event)
    return delivered
