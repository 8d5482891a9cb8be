"""Records that no table reads are counted by topic and told in a sentence."""

from datetime import datetime, timezone

import pytest

from cdc_lakehouse.cli.work.run_lines import show_entries
from lakehouse.config.table import Table
from lakehouse.run.ledger import make_entry
from lakehouse.run.unread import Unread, counts_of, is_of_feed, list_unread

NOW = datetime(2026, 1, 31, tzinfo=timezone.utc)


def test_topics_and_lines_have_a_sentence_each() -> None:
    topics, lines = Unread("feed_shop", {"s.a": 1_040, "tx": 1}, 3).sentences()
    assert topics == (
        "feed_shop: 1,041 records of 2 topics that no table reads: s.a (1,040), tx (1)"
    )
    assert lines == (
        "feed_shop: 3 lines that cannot be read or name no topic; do: `lakehouse dead-letters list`"
    )


def test_of_many_topics_those_with_the_most_records_are_named() -> None:
    counts = [("feed_shop", f"unread:t{n}", n) for n in range(1, 11)]
    (sentence,) = list_unread(counts)[0].sentences()
    assert sentence.startswith("feed_shop: 55 records of 10 topics that no table reads: t10 (10),")
    assert sentence.endswith("t3 (3), …")


def test_a_topic_that_a_table_reads_by_now_is_left_out() -> None:
    source = {"format": "debezium", "path": "shop", "topic": "a"}
    reads_a = Table.model_validate({"table": "t", "keys": ["id"], "source": source})
    counts = [("feed_shop", "unread:a", 1), ("feed_shop", "unread:b", 2), ("t", "records", 3)]
    assert list_unread(counts, [reads_a]) == [Unread("feed_shop", {"b": 2}, 0)]


def test_a_run_tells_them_after_its_tables(capsys: pytest.CaptureFixture[str]) -> None:
    table = make_entry("r", "bronze", "orders", NOW, ended=NOW).with_counts({"records": 2})
    counts = counts_of({"heartbeat": 70, None: 0})
    feed = make_entry("r", "bronze", "feed_shop", NOW, ended=NOW).with_counts(counts)
    assert (is_of_feed(table), is_of_feed(feed)) == (False, True)
    show_entries([feed, table])
    assert capsys.readouterr().out.splitlines() == [
        "orders  2 records  0.0 s",
        "feed_shop: 70 records of 1 topic that no table reads: heartbeat (70)",
    ]
