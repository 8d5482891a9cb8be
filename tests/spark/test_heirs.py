"""Values that move with a row from key to key, where no change but the first carries them."""

from itertools import pairwise

import pytest
from pyspark.sql import SparkSession

from lakehouse.target import Target
from tests import core, oracle
from tests.oracle import Event

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


def came_out(
    spark: SparkSession, target: Target, events: list[Event], cuts: list[int], scd: int = 1
) -> None:
    """Delivers the events in batches that end at `cuts`, and looks at what is current."""
    config, done = core.table(scd), 0
    for begin, end in pairwise([0, *cuts, len(events)]):
        done = core.deliver(spark, target, config, events[begin:end], begin, done)
    want = oracle.outcome(set(events), core.COLUMNS, core.COLUMNS)
    assert core.outcome(spark, target, config).current == want.current


@pytest.mark.parametrize("scd", [1, 2])
def test_a_row_that_moves_many_times_in_a_batch_takes_its_value_along(
    spark: SparkSession, target: Target, scd: int
) -> None:
    came_out(spark, target, moves(list(range(1, 22)), 10), [], scd)


@pytest.mark.parametrize("cuts", [[], [1], [3]])
def test_the_value_is_the_row_s_own_and_not_that_of_one_that_had_its_key_before(
    spark: SparkSession, target: Target, cuts: list[int]
) -> None:
    other = [
        Event("upsert", 1, 2, (("a", "o"), ("b", "of another row")), position=1),
        Event("delete", 2, 2, position=2),
    ]
    came_out(spark, target, [*other, *moves([1, 2, 3], 10)], cuts)


def test_a_row_that_comes_back_to_its_key_has_its_value(
    spark: SparkSession, target: Target
) -> None:
    came_out(spark, target, moves([1, 2, 1, 2, 3, 1], 10), [])
