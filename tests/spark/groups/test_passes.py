"""Passes of a consistency group: what gold shows when things come late, twice, never, or die."""

import pytest

from lakehouse.storage.lake import Lake
from lakehouse.storage.views import load_views
from tests.helpers.groups_core import ITEMS, ORDERS, Change, End, Killed, Shop, order

pytestmark = pytest.mark.slow


def test_late_records_and_late_ends_hold_back_and_are_counted_once(lake: Lake) -> None:
    shop = Shop(lake.spark, lake.target)
    (one, one_ends), (two, two_ends) = order(1, 11, 2), order(2, 12, 1)
    shop.deliver(*one[:2], *two)
    shop.run()
    assert (shop.shown(), shop.waiting().transactions) == (set(), 2)
    shop.deliver(two_ends)
    shop.run()
    assert shop.shown() == set(), "the second is whole, and stands behind the first"
    shop.deliver(one_ends, one[2], *two)
    shop.run()
    assert (shop.shown(), shop.waiting().transactions) == ({11, 12}, 0)
    assert shop.counts[ITEMS] == {"records": 4, "waiting": 0, "inserted": 3, "duplicate": 1}
    assert {p.pinned is not None for p in load_views(lake.target, "gold").values()} >= {True}


def test_an_end_whose_records_have_not_come_at_all_holds_back_what_is_later(lake: Lake) -> None:
    shop = Shop(lake.spark, lake.target)
    (one, one_ends), (two, two_ends), (three, three_ends) = (
        order(1, 11, 0),
        order(2, 12, 1),
        order(3, 13, 1),
    )
    shop.deliver(one_ends, *two, two_ends)
    shop.run()
    assert (shop.shown(), shop.waiting().transactions) == (set(), 2)
    shop.deliver(*three, three_ends)
    shop.run()
    assert (shop.shown(), shop.waiting().transactions) == (set(), 3)
    shop.deliver(*one)
    shop.run()
    assert (shop.shown(), shop.waiting().transactions) == ({11, 12, 13}, 0)
    shop.deliver(one_ends)
    shop.run()
    assert (shop.shown(), shop.waiting().transactions) == ({11, 12, 13}, 0)


def test_a_member_without_traffic_holds_nothing_back(lake: Lake) -> None:
    shop = Shop(lake.spark, lake.target)
    changes, end = order(1, 11, 0)
    shop.deliver(*changes, end)
    shop.run()
    assert (shop.shown(), shop.waiting().transactions) == ({11}, 0)


def test_an_end_that_never_comes_is_reported_and_holds_back_only_itself(lake: Lake) -> None:
    shop = Shop(lake.spark, lake.target)
    (lost, _), (soon, soon_ends), (later, later_ends) = (
        order(1, 1, 2),
        order(9, 9, 1),
        order(99, 2, 1),
    )
    shop.deliver(*lost, *soon, soon_ends)
    shop.run()
    assert (shop.shown(), shop.waiting().overdue) == (set(), ())
    shop.deliver(*later, later_ends)
    shop.run()
    assert (shop.shown(), shop.waiting().overdue) == ({9, 2}, ("1",))
    assert shop.waiting().records == {ORDERS: 1, ITEMS: 2}


def test_a_table_whose_topic_lags_is_waited_for_however_far_the_others_are(lake: Lake) -> None:
    shop = Shop(lake.spark, lake.target)
    changes, end = order(1, 1, 2)
    shop.deliver(changes[0], end)
    shop.deliver(Change(ORDERS, 99, 1, 1, 2), End(99, {ORDERS: 1}))
    shop.run()
    assert (shop.shown(), shop.waiting().overdue) == (set(), ())
    shop.deliver(*changes[1:])
    shop.run()
    assert (shop.shown(), shop.waiting().transactions) == ({1}, 0)


@pytest.mark.parametrize("dies", [ITEMS, "ledger"])
def test_a_kill_between_the_members_shows_nobody_half_a_transaction(lake: Lake, dies: str) -> None:
    shop = Shop(lake.spark, lake.target, scd=2 if dies == "ledger" else 1)
    (one, one_ends), (two, two_ends) = order(1, 11, 1), order(2, 12, 2)
    shop.deliver(*one, one_ends, *two[:2])
    shop.run()
    assert shop.shown() == {11}
    shop.deliver(*two[2:], two_ends)
    with pytest.raises(Killed):
        shop.run(dies)
    assert shop.shown() == {11}
    shop.run()
    assert shop.shown() == {11, 12}
    counts = shop.counts[ITEMS]
    classes = sum(n for name, n in counts.items() if name != "records")
    assert (counts["records"], counts["waiting"], classes) == (3, 0, 3)


def test_a_kill_after_a_pass_that_only_let_through_what_waited_loses_no_count(lake: Lake) -> None:
    shop = Shop(lake.spark, lake.target)
    changes, end = order(1, 11, 1)
    shop.deliver(*changes)
    shop.run()
    assert shop.counts[ORDERS] == {"records": 1, "waiting": 1}
    shop.deliver(end)
    with pytest.raises(Killed):
        shop.run("ledger")
    shop.run()
    assert shop.shown() == {11}
    shop.run()
    for table in (ORDERS, ITEMS):
        # The row that the killed pass wrote shows that its change has come before.
        assert shop.counts[table] == {"records": 1, "waiting": 0, "duplicate": 1}
