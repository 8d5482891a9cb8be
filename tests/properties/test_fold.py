"""The convergence law without Spark: any order of arrival, any cuts, any repeats.

The outcome is the oracle's, and the outcomes of each batch add up.
"""

from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.helpers import oracle
from tests.helpers.fold_lake import COLUMNS, FoldLake, change, is_truncate
from tests.helpers.oracle import Event
from tests.properties.budget import budget

APPLIED = ("inserted", "updated", "deleted", "delete_unknown")
TABLES: dict[str, dict[str, Any]] = {
    "current": {},
    "history": {"history": True},
    "history_read_whole": {"history": True, "every": True},
    "tracked": {"history": True, "tracked": ("a",)},
    "groups": {"grouped": ("b",), "from_log": True},
    "groups_history": {"grouped": ("b",), "from_log": True, "history": True},
    "flag": {"from_log": True},
    "flag_history": {"history": True, "keeps_deleted": True},
}
SEEDS = st.integers(0, 2**32)


@pytest.mark.parametrize("name", TABLES)
@budget(60)
@given(seed=SEEDS)
def test_any_delivery_gives_the_oracles_table(name: str, seed: int) -> None:
    random = Random(seed)
    lake = FoldLake(cuts=random, **TABLES[name])
    events = stream(random, grouped=bool(lake.grouped), ties=random.random() < 0.5)
    for batch in batches(random, events):
        counts = lake.deliver(batch)
        changes = [pair for pair in batch if not is_truncate(pair[0])]
        assert sum(counts.values()) - counts["ties"] == len(changes)
        assert min(counts.values(), default=0) >= 0
        if random.random() < 0.3:
            held = dict(lake.table)
            again = lake.apply([change(*pair) for pair in changes])
            assert lake.table == held
            assert lake.from_log or sum(again[kind] for kind in APPLIED) == 0
    agrees(lake, events)


def agrees(lake: FoldLake, events: list[Event]) -> None:
    """Checks the table against the oracle, which knows where each event arrived first."""
    want = oracle.outcome(set(events), list(COLUMNS), list(lake.tracked))
    assert lake.current() == want.current
    if not lake.history:
        assert lake.tombstones() == want.tombstones
    elif not has_ties(events):
        assert lake.versions() == want.history
    if lake.keeps_deleted or (lake.from_log and not lake.grouped):
        assert lake.flagged() == want.flagged


def has_ties(events: list[Event]) -> bool:
    places = Counter((e.key, e.sequence) for e in events)
    return max(places.values(), default=0) > 1


def stream(random: Random, grouped: bool, ties: bool) -> list[Event]:
    """Changes of three keys: whole and partial upserts, deletes, and truncates.

    The list is in order of first arrival, which the position of each event is.
    """
    partial = random.random() < 0.7
    most = 8 if ties else 40
    events: dict[Event, None] = {}
    taken: set[int] = set()
    for _ in range(random.randint(1, 12)):
        place = 2 * random.randint(1, most)
        if not ties and place in taken:
            continue
        taken.add(place)
        kind, key = random.random(), random.randint(1, 3)
        if kind < 0.07:
            events[Event("truncate", place - 1, time=place - random.randint(0, 1))] = None
        elif kind < 0.3:
            events[Event("delete", place, key, time=place)] = None
        else:
            carried = random.sample(COLUMNS, random.randint(1, 2) if partial else 2)
            given = tuple((c, random.choice(["x", "y", None])) for c in sorted(carried))
            orders = (("b", random.randint(1, 4)),) if grouped and "b" in carried else ()
            events[Event("upsert", place, key, given, time=place, orders=orders)] = None
    arrived = list(events)
    if random.random() < 0.7:
        random.shuffle(arrived)
    else:
        arrived.sort(key=lambda e: e.sequence)
    return [replace(event, position=at) for at, event in enumerate(arrived, start=1)]


def batches(random: Random, events: list[Event]) -> Iterator[list[tuple[Event, int]]]:
    """The events with arrivals in batches; some come again, later."""
    delivered = [(event, 100 * event.position) for event in events]
    for event in random.sample(events, len(events) // 3):
        later = random.randint(100 * event.position + 1, 100 * len(events) + 99)
        delivered.append((event, later))
    delivered.sort(key=lambda pair: pair[1])
    at = 0
    while at < len(delivered):
        size = random.randint(1, 6)
        yield delivered[at : at + size]
        at += size
