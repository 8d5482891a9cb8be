from datetime import datetime, timedelta, timezone

from bronze.feeds import list_feeds
from bronze.outcome import Outcome, build_entries, build_unread_entries
from lakehouse.config.table import Table
from lakehouse.run.ledger import Entry

BEGIN = datetime(2026, 1, 2, tzinfo=timezone.utc)


def table(called: str, *paths: str, topic: str | None = None) -> Table:
    given = [{"format": "debezium", "path": path, "topic": topic} for path in paths]
    return Table.model_validate({"table": called, "keys": ["id"], "sources": given})


def told(tables: list[Table], *records: dict[str | None, int], **failed: str) -> list[Entry]:
    outcomes = [
        Outcome(
            feed=feed,
            started_at=BEGIN,
            ended_at=BEGIN + timedelta(seconds=1 + place),
            batch=place + 1,
            records=records[place],
            message=failed.get(feed.name),
        )
        for place, feed in enumerate(list_feeds(tables))
    ]
    return build_entries("r", tables, outcomes)


def test_a_table_of_its_own_feed_has_all_of_its_records() -> None:
    (entry,) = told([table("a", "p")], {None: 2, "x": 3})
    assert (entry.table, entry.counts, entry.batch) == ("a", {"records": 5}, 1)


SHARED = [table("a", "p", topic="a"), table("b", "p", topic="b")]
ARRIVED: dict[str | None, int] = {"a": 1, "b": 2, "heartbeat": 4, None: 8}


def unread_of(worked_on: list[Table], configured: list[Table]) -> list[tuple[str, dict[str, int]]]:
    """What is told of feeds, of a run that works on some of the tables."""
    outcomes = [
        Outcome(feed=feed, started_at=BEGIN, ended_at=BEGIN, records=ARRIVED)
        for feed in list_feeds(worked_on)
    ]
    return [
        (entry.table, entry.counts) for entry in build_unread_entries("r", configured, outcomes)
    ]


def test_records_of_a_shared_feed_are_counted_once() -> None:
    assert [entry.counts for entry in told(SHARED, ARRIVED)] == [{"records": 1}, {"records": 2}]
    assert unread_of(SHARED, SHARED) == [("feed_p", {"unread:heartbeat": 4, "unread": 8})]


def test_a_topic_of_a_table_that_is_not_worked_on_is_read_all_the_same() -> None:
    assert unread_of(SHARED[:1], SHARED) == [("feed_p", {"unread:heartbeat": 4, "unread": 8})]


def test_a_feed_that_a_table_takes_as_a_whole_has_no_unread_records() -> None:
    assert unread_of([table("a", "p")], [table("a", "p")]) == []


def test_the_ends_of_a_groups_transactions_are_read() -> None:
    source = {"format": "debezium", "path": "p", "topic": "a", "transaction_topic": "heartbeat"}
    given = {"table": "a", "keys": ["id"], "source": source, "consistency_group": "g"}
    grouped = [Table.model_validate(given), SHARED[1]]
    assert unread_of(grouped, grouped) == [("feed_p", {"unread": 8})]


def test_a_table_of_several_feeds_has_one_entry_over_them() -> None:
    (entry,) = told([table("a", "p", "q")], {None: 1}, {None: 2})
    found = (entry.counts, entry.batch, entry.duration_ms)
    assert found == ({"records": 3}, 2, 2000)


def test_a_failed_feed_fails_every_table_of_it_and_no_other() -> None:
    tables = [table("a", "p", topic="a"), table("b", "p", topic="b"), table("c", "q")]
    found = told(tables, {}, {}, feed_p="why")
    assert [entry.status for entry in found] == ["failed", "failed", "ok"]
    assert found[1].message == "why"
