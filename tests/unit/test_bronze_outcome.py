from datetime import datetime, timedelta, timezone

from bronze.feeds import feeds
from bronze.outcome import Outcome, entries
from lakehouse.ledger import Entry
from lakehouse.table import Table

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
        for place, feed in enumerate(feeds(tables))
    ]
    return entries("r", tables, outcomes)


def test_a_table_of_its_own_feed_has_all_of_its_records() -> None:
    (entry,) = told([table("a", "p")], {None: 2, "x": 3})
    assert (entry.table, entry.counts, entry.batch) == ("a", {"records": 5}, 1)


def test_records_of_a_shared_feed_are_counted_once() -> None:
    shared = [table("a", "p", topic="a"), table("b", "p", topic="b")]
    counts = [entry.counts for entry in told(shared, {"a": 1, "b": 2, "heartbeat": 4, None: 8})]
    assert counts == [{"records": 1, "others": 12}, {"records": 2}]


def test_a_table_of_several_feeds_has_one_entry_over_them() -> None:
    (entry,) = told([table("a", "p", "q")], {None: 1}, {None: 2})
    found = (entry.counts, entry.batch, entry.duration_ms)
    assert found == ({"records": 3}, 2, 2000)


def test_a_failed_feed_fails_every_table_of_it_and_no_other() -> None:
    tables = [table("a", "p", topic="a"), table("b", "p", topic="b"), table("c", "q")]
    found = told(tables, {}, {}, feed_p="why")
    assert [entry.status for entry in found] == ["failed", "failed", "ok"]
    assert found[1].message == "why"
