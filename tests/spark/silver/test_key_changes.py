"""Values that move with a row from key to key, where no change but the first carries them."""

from dataclasses import replace
from itertools import pairwise

import pytest

from lakehouse.storage.lake import Lake
from tests.helpers import core, oracle
from tests.helpers.oracle import Event

BIG = "stays where it is"


def moves(keys: list[int], first: int) -> list[Event]:
    """A row with a large value goes from key to key; the source does not send the value again."""
    events = [Event("upsert", first, keys[0], (("a", "a0"), ("b", BIG)), position=first)]
    for at, (old, new) in enumerate(pairwise(keys), start=1):
        sequence = first + 2 * at
        moved = (("a", f"a{at}"),)
        events.append(Event("delete", sequence, old, position=sequence))
        events.append(Event("upsert", sequence + 1, new, moved, old_key=old, position=sequence + 1))
    return events


def came_out(lake: Lake, events: list[Event], cuts: list[int], scd: int = 1) -> None:
    """Delivers the events in batches that end at `cuts`, and looks at what is current."""
    config, done = core.table(scd), 0
    for begin, end in pairwise([0, *cuts, len(events)]):
        done = core.deliver(lake, config, events[begin:end], begin, done)
    want = oracle.outcome(set(events), core.COLUMNS, core.COLUMNS)
    assert core.outcome(lake, config).current == want.current


@pytest.mark.parametrize("scd", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_row_that_moves_many_times_in_a_batch_takes_its_value_along(lake: Lake, scd: int) -> None:
    came_out(lake, moves(list(range(1, 22)), 10), [], scd)


@pytest.mark.slow
def test_a_row_that_comes_back_to_its_key_has_its_value(lake: Lake) -> None:
    came_out(lake, moves([1, 2, 1, 2, 3, 1], 10), [])


LATE_VALUE = [
    Event("upsert", 1, 1, (("a", "a0"), ("b", "x")), position=1),
    Event("upsert", 3, 1, (("a", "a2"),), position=3),
    Event("upsert", 2, 1, (("a", "a1"), ("b", None)), position=2),
    Event("delete", 4, 1, position=4),
    Event("upsert", 5, 2, (("a", "m"),), old_key=1, position=5),
]
TWO_LIVES = [
    Event("upsert", 1, 1, (("a", "a0"), ("b", "of an earlier life")), position=1),
    Event("delete", 2, 1, position=2),
    Event("upsert", 3, 1, (("a", "a1"),), position=3),
    Event("delete", 4, 1, position=4),
    Event("upsert", 5, 2, (("a", "m"),), old_key=1, position=5),
]
OF_ANOTHER_ROW = [
    Event("upsert", 1, 2, (("a", "o"), ("b", "of another row")), position=1),
    Event("delete", 2, 2, position=2),
    *moves([1, 2, 3], 10),
]
LATE_DELETE = [TWO_LIVES[at] for at in (0, 2, 3, 1, 4)]


@pytest.mark.slow
@pytest.mark.parametrize("scd", [1, 2])
def test_what_moves_is_what_the_last_life_of_the_old_key_had(lake: Lake, scd: int) -> None:
    """Many rows at once, each with cuts of its own: the batches hold a part of every row's."""
    cut = [
        *[(LATE_VALUE, cuts) for cuts in ("00111", "00011", "01122")],
        *[(TWO_LIVES, cuts) for cuts in ("00000", "01111", "00111", "00011", "00001", "01122")],
        *[(OF_ANOTHER_ROW, cuts) for cuts in ("0000000", "0111111", "0001111")],
        *[(LATE_DELETE, cuts) for cuts in ("00011", "01122", "00012", "01222")],
    ]
    batches: list[list[Event]] = [[], [], []]
    for row, (events, cuts) in enumerate(cut):
        for event, batch in zip(events, cuts, strict=True):
            batches[int(batch)].append(of_row(row, event))
    ends = [len(batches[0]), len(batches[0]) + len(batches[1])]
    came_out(lake, [e for batch in batches for e in batch], ends, scd)


def of_row(row: int, event: Event) -> Event:
    """The same event of another row, which has keys of its own."""
    assert event.key is not None
    old = None if event.old_key is None else event.old_key + 10 * row
    return replace(event, key=event.key + 10 * row, old_key=old)


@pytest.mark.slow
@pytest.mark.parametrize(("scd", "cuts"), [(2, []), (1, []), (2, [2])])
def test_what_a_row_had_before_a_truncate_moves_nowhere(
    lake: Lake, scd: int, cuts: list[int]
) -> None:
    events = [*TWO_LIVES]
    events[1] = Event("truncate", 2, position=2)
    came_out(lake, events, cuts, scd)
