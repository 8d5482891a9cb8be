"""What the configuration of a consistency group says, and what is refused."""

import pytest

from bronze.contract import TransactionFeed, transaction_feed
from bronze.feeds import TRANSACTIONS, list_feeds
from bronze.outcome import Outcome, build_entries
from cdc_lakehouse.cli.work.rounds import whole_groups
from lakehouse.config.table import Table
from lakehouse.config.table_rules import find_contradictions
from tests.helpers.builders import ARRIVED_AT


def table(name: str = "orders", **given: object) -> Table:
    source = {"format": "debezium", "path": "shop", "topic": f"shop.shop.{name}"}
    said = {"table": name, "keys": ["id"], "source": source, "consistency_group": "shop"}
    return Table.model_validate(said | given)


def feed(**source: object) -> TransactionFeed | None:
    one = table(source={"format": "debezium", **source})
    return transaction_feed(one, one.feeds[0])


def test_a_group_contradicts_nothing() -> None:
    assert list(find_contradictions(table())) == []


def test_a_shared_folder_brings_the_transactions_too() -> None:
    found = feed(path="shop", topic="shop.shop.orders")
    assert found == TransactionFeed("feed_shop", "shop.transaction", None)


def test_a_folder_for_each_topic_has_one_for_the_transactions_beside_it() -> None:
    found = feed(path="cdc/shop.public.orders")
    assert found is not None
    assert found.source is not None
    assert (found.topic, found.source.path) == (None, "cdc/shop.transaction")


def test_kafka_brings_the_transactions_as_a_topic_of_the_same_brokers() -> None:
    kafka = {"topic": "shop.public.orders", "bootstrap_servers": "k:9092"}
    found = feed(kafka=kafka)
    assert found is not None
    assert found.source is not None
    assert found.source.kafka is not None
    assert (found.topic, found.source.kafka.topic) == ("shop.transaction", "shop.transaction")


def test_the_topic_can_be_named() -> None:
    found = feed(path="shop", topic="shop.shop.orders", transaction_topic="tx")
    assert found == TransactionFeed("feed_shop", "tx", None)


def test_a_name_that_tells_no_prefix_brings_no_transactions() -> None:
    assert feed(path="orders") is None


def test_a_table_outside_of_groups_reads_no_transactions() -> None:
    alone = table(consistency_group=None)
    assert transaction_feed(alone, alone.feeds[0]) is None
    assert [f.name for f in list_feeds([alone])] == ["feed_shop"]


def test_members_in_folders_of_their_own_share_one_feed_of_transactions() -> None:
    members = [
        table(name, source={"format": "debezium", "path": f"shop.public.{name}"})
        for name in ("orders", "items")
    ]
    found = list_feeds(members)
    assert [f.tables for f in found if TRANSACTIONS in f.tables] == [{TRANSACTIONS: ()}]
    assert len(found) == 3


def test_a_feed_of_transactions_that_fails_fails_the_members_and_counts_for_none() -> None:
    one = table(source={"format": "debezium", "path": "shop.public.orders"})
    outcomes = [
        Outcome(feed=f, started_at=ARRIVED_AT, records={None: 5}, message=m)
        for f, m in zip(list_feeds([one]), (None, "gone"), strict=True)
    ]
    (entry,) = build_entries("run", [one], outcomes)
    assert (entry.status, entry.message, entry.counts) == ("failed", "gone", {"records": 5})


@pytest.mark.parametrize(
    ("given", "key"),
    [
        ({"max_staleness": "10 minutes"}, "max_staleness"),
        (
            {
                "consistency_group": None,
                "source": {"format": "debezium", "path": "s", "transaction_topic": "t"},
            },
            "source.transaction_topic",
        ),
    ],
)
def test_what_would_contradict_a_group_is_refused(given: dict[str, object], key: str) -> None:
    assert key in [problem.key for problem in find_contradictions(table(**given))]


def test_a_run_of_one_member_is_a_run_of_its_group() -> None:
    members = [table("orders"), table("items")]
    other = table("other", consistency_group=None)
    assert whole_groups(members[:1], [*members, other]) == members
    assert whole_groups([other], [*members, other]) == [other]
