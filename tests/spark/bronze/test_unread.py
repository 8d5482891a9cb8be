"""Records of a shared folder that no table reads: told by topic, its broken lines dead letters."""

import json
from pathlib import Path
from typing import Any

import pytest

from cdc_lakehouse.cli.ask.queries import show_status
from cdc_lakehouse.cli.ask.status_records import keep_status, read_status
from cdc_lakehouse.cli.check.dead_letters import acknowledge_letters
from gold.report import html
from gold.report.history import History
from gold.status.status_file import update_known
from lakehouse.config.table import Table
from lakehouse.run.unread import Unread, list_unread
from lakehouse.storage.lake import Lake
from silver.changelog.dead_letter_list import Wanted, dead_letters
from tests.helpers import lakes


def unread_of(lake: Lake, tables: list[Table]) -> list[Unread]:
    known = update_known(lake, {}).unread
    counts = [(feed, name, n) for feed, of in known.items() for name, n in of.items()]
    return list_unread(counts, tables)


CHANGE = {"after": {"id": 1}, "op": "c", "source": {"lsn": 1, "ts_ms": 1}}


def table(name: str, topic: str) -> Table:
    source = {"format": "debezium", "path": "shop", "topic": topic}
    return Table.model_validate(
        {"table": name, "keys": ["id"], "source": source, "columns": {"id": "int"}}
    )


def record(topic: str) -> str:
    return json.dumps({"topic": topic, "partition": 0, "offset": 1, "value": CHANGE})


LINES = [record("a"), record("b"), record("c"), record("c"), "{no json", json.dumps(CHANGE)]


@pytest.mark.slow
def test_what_no_table_reads_is_listed_by_topic_and_its_lines_are_dead_letters(
    lake: Lake, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    tables = [table("one", "a")]
    lakes.land(lake.target, "shop", "1.jsonl", LINES)
    lakes.run(lake, tables)

    of_feed = Unread("feed_shop", {"c": 2, "b": 1}, 2)
    assert unread_of(lake, tables) == [of_feed]
    keep_status(lake, tables)
    kept = read_status(lake.target, tables, tables)
    assert kept.unread == [of_feed]
    show_status(kept, as_json=False, wide=False)
    (status,) = kept.records
    assert (status["unread_topics"], status["unread_lines"]) == ({"c": 2, "b": 1}, 2)
    assert status["dead_letters_total"] == 0 and status["counts"] == {"inserted": 1, "records": 1}
    assert "3 records of 2 topics that no table reads: c (2), b (1)" in told(capsys)

    more = [*tables, table("two", "b")]
    assert unread_of(lake, more) == [of_feed._replace(topics={"c": 2})]
    page = tmp_path / "report.html"
    html.write_report(
        lake.target, tables, page, (read_status(lake.target, tables, more), History())
    )
    assert "2 records of 1 topic that no table reads: c (2)" in page.read_text("utf-8")

    letters = dead_letters(lake, more, Wanted())
    assert letters is not None
    found: list[Any] = letters.select("table", "reason", "raw", "position").collect()
    assert sorted(row["reason"] for row in found) == ["no_topic", "not_json"]
    assert {row["table"] for row in found} == {"feed_shop"}
    assert {row["raw"] for row in found} == {"{no json", json.dumps(CHANGE)}
    assert {row["position"].rpartition("/")[2] for row in found} == {"1.jsonl:4", "1.jsonl:5"}

    assert acknowledge_letters(lake, more, Wanted(["not_json"]), "a slip") == [("feed_shop", 1)]
    assert unread_of(lake, more)[0].lines == 1
    left, every = (dead_letters(lake, more, Wanted(resolved=all)) for all in (False, True))
    assert left is not None and every is not None
    assert [row["reason"] for row in left.collect()] == ["no_topic"]
    known = {row["reason"]: row["acknowledged"] for row in every.collect()}
    assert known == {"no_topic": None, "not_json": "a slip"}
    back = Wanted(acknowledged=True, file="shop/1.jsonl")
    assert acknowledge_letters(lake, more, back, None) == [("feed_shop", 1)]
    assert unread_of(lake, more)[0].lines == 2


def told(capsys: pytest.CaptureFixture[str]) -> str:
    return " ".join(capsys.readouterr().out.split())
