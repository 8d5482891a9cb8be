"""Whatever arrives when: gold shows whole transactions only, in their order, and in the end all."""

from random import Random

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from tests.conftest import target_at
from tests.helpers.groups_core import ITEMS, ORDERS, Change, End, Killed, Shop, order
from tests.properties.budget import budget

pytestmark = pytest.mark.slow


@budget(1)
@given(seed=st.integers(0, 2**32))
def test_a_reader_sees_the_source_move_from_transaction_to_transaction(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, seed: int
) -> None:
    random = Random(seed)
    feeds: dict[str, list[Change | End]] = {ORDERS: [], ITEMS: [], "ends": []}
    count = random.randint(4, 7)
    for at in range(1, count + 1):
        changes, end = order(at, at, random.randint(0, 3))
        for change in changes:
            feeds[change.table].append(change)
        feeds["ends"].append(end)
    shop = Shop(spark, target_at(tmp_path_factory.mktemp("lake")))
    before: set[int] = set()
    while any(feeds.values()):
        for feed in feeds.values():
            taken = random.randint(0, len(feed)) if sum(map(len, feeds.values())) > 3 else len(feed)
            repeated = feed[: random.randint(0, taken)] if random.random() < 0.2 else []
            shop.deliver(*feed[:taken], *repeated)
            del feed[:taken]
        dies = random.choice([None, None, None, ORDERS, ITEMS, "ledger"])
        try:
            shop.run(dies)
        except Killed:
            assert shop.shown() == before
        now = shop.shown()
        assert before <= now
        assert now == set(range(1, len(now) + 1)), "in the order of commits"
        before = now
    shop.run()
    assert shop.shown() == set(range(1, count + 1))
    for counts in shop.counts.values():
        classes = sum(n for name, n in counts.items() if name != "records")
        assert (counts.get("waiting", 0), classes) == (0, counts.get("records", 0))
