"""The classes of every pass are those of a plain count, however changes are cut and repeated."""

from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import example, given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.storage.lake import Lake
from silver.state.table_state import TableState
from tests.conftest import target_at
from tests.helpers.core import one_pass, table
from tests.helpers.oracle import Event
from tests.properties.budget import budget

pytestmark = pytest.mark.slow


class Arrived(NamedTuple):
    """A change that was delivered for the first time: its place in order, and in which pass."""

    place: tuple[int, int]
    event: Event
    batch: int


@st.composite
def deliveries(draw: st.DrawFn) -> list[list[Event]]:
    """Changes of a few keys, in any order, some again, cut into batches."""
    places = draw(st.lists(st.tuples(st.integers(1, 3), st.integers(1, 9)), min_size=4, max_size=9))
    events = []
    for at, (key, sequence) in enumerate(places):
        if draw(st.integers(0, 3)) == 0:
            events.append(Event("delete", sequence, key))
        else:
            events.append(Event("upsert", sequence, key, (("a", f"a{at}"), ("b", "b"))))
    once = [e for e in events if places.count((e.key or 0, e.sequence)) == 1]
    again = draw(st.lists(st.sampled_from(once), max_size=4)) if once else []
    lines = draw(st.permutations([*dict.fromkeys(events), *again]))
    cuts = sorted(draw(st.lists(st.integers(1, len(lines)), max_size=2)))
    bounds = [0, *cuts, len(lines)]
    return [lines[a:b] for a, b in pairwise(bounds) if a < b]


def counted(batches: list[list[Event]], history: bool) -> list[Counter[str]]:
    """What became of the records of each run, one by one."""
    known: dict[Event, Arrived] = {}
    found, arrival = [], 0
    for batch, events in enumerate(batches):
        counts = Counter[str](records=len(events))
        before = dict(known)
        told = {event for event, own in before.items() if history or _is_told(own, before)}
        for event in events:
            arrival += 1
            if event in told:
                counts["duplicate"] += 1
            elif event in before:
                counts["superseded"] += 1
                told.add(event)
            else:
                known[event] = Arrived((event.sequence, arrival), event, batch)
                told.add(event)
        for event, own in known.items():
            if event not in before:
                name = _woven(own, known) if history else _newest(own, known, batch)
                counts[name] += 1
                rivals = {e for e in told if e != event and _place(e) == _place(event)}
                counts["ties"] += any(e in before or known[e].place < own.place for e in rivals)
        found.append(+counts)
    return found


def _place(event: Event) -> tuple[int | None, int]:
    return event.key, event.sequence


def _is_told(own: Arrived, known: dict[Event, Arrived]) -> bool:
    """Whether the row of a current table shows that a change has come.

    The row names its newest change, its newest upsert and the newest delete before that.
    """
    changes = _of_key(own, known)
    upserts = [a for a in changes if a.event.operation == "upsert"]
    named = [changes[-1], *upserts[-1:]]
    named += [a for a in changes if a.event.operation == "delete" and a < max(upserts, default=a)][
        -1:
    ]
    return own.event.sequence in {a.event.sequence for a in named}


def _of_key(own: Arrived, known: dict[Event, Arrived]) -> list[Arrived]:
    return sorted(a for a in known.values() if a.event.key == own.event.key)


def _kind(own: Arrived, live: bool) -> str:
    if own.event.operation == "delete":
        return "deleted" if live else "delete_unknown"
    return "updated" if live else "inserted"


def _newest(own: Arrived, known: dict[Event, Arrived], batch: int) -> str:
    """Of a pass only a key's newest change is applied."""
    changes = _of_key(own, known)
    if changes[-1] is not own:
        return "superseded"
    earlier = [a for a in changes if a.batch < batch]
    live = bool(earlier) and earlier[-1].event.operation == "upsert"
    if own.event.operation == "delete":
        at = earlier[-1].place if earlier else (0, 0)
        came = [a for a in changes if a.batch == batch and a.event.operation == "upsert"]
        live = live or any(a.place > at for a in came)
    return _kind(own, live)


def _woven(own: Arrived, known: dict[Event, Arrived]) -> str:
    """With a history every change is applied in its turn."""
    changes = _of_key(own, known)
    at = changes.index(own)
    after = changes[at + 1 :]
    upsert = own.event.operation == "upsert"
    if upsert and after and after[0].place[0] == own.place[0]:
        return "superseded"
    if any(a.batch < own.batch for a in after):
        return "late"
    return _kind(own, at > 0 and changes[at - 1].event.operation == "upsert")


UNDER_A_TOMBSTONE = [
    [Event("delete", 8, 1)],
    [Event("upsert", 1, 1, (("a", "a0"), ("b", "b"))), Event("delete", 2, 1)],
]


@pytest.mark.parametrize("history", [False, True])
@budget(3)
@given(batches=deliveries())
@example(batches=UNDER_A_TOMBSTONE)
def test_every_record_is_in_the_class_of_a_plain_count(
    spark: SparkSession,
    tmp_path_factory: pytest.TempPathFactory,
    history: bool,
    batches: list[list[Event]],
) -> None:
    target = target_at(Path(tmp_path_factory.mktemp("accounts")))
    config = table(2 if history else 1)
    seen, arrived, found = TableState(), 0, []
    for events in batches:
        delivered = zip(events, range(arrived, arrived + len(events)), strict=True)
        done = one_pass(Lake(spark, target), config, seen, delivered)
        seen, arrived = done.state, arrived + len(events)
        found.append(Counter(done.counts))
    assert found == counted(batches, history)
