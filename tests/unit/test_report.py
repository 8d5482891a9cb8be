import json
import re
from pathlib import Path

import pytest

from cdc_lakehouse.cli.ask.report import destination
from gold.report import page, story
from gold.report.html import render
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from tests.report_parts import ENTRIES, IN_TROUBLE, NOW, RESULTS, record


def text() -> str:
    return render(IN_TROUBLE, ENTRIES, RESULTS, "local", NOW)


def test_everything_that_asks_for_attention_is_named() -> None:
    assert [(table, text.partition("; do:")[0]) for table, text in page.troubles(IN_TROUBLE)] == [
        ("orders", "the last run failed: disk </script><script>alert(1)</script> full"),
        ("orders", "1 open gap in the source"),
        ("orders", "a change has waited 11 min 40 s, promised are 10 min"),
        ("orders", "42 dead letters (1 no_key, 41 rule:qty)"),
        ("orders", "3 keys with an older row, because the newest change is a dead letter"),
    ]
    [(_, sentence)] = page.troubles([record("t", accounted=False)])
    assert sentence.startswith("outcomes do not add up to the records; do: please report it")


def test_a_wait_that_breaks_the_promise_is_told_apart() -> None:
    [orders, _] = page.freshness(IN_TROUBLE, ENTRIES, story.span(ENTRIES))
    assert [kept for _, _, kept, _ in orders.bars] == [True, False]
    assert (orders.latest, orders.longest, orders.promised) == ("26 min 1 s",) * 2 + ("10 min",)
    assert orders.line == pytest.approx(600 / 1561 * 100)


def test_dead_letters_come_with_the_most_frequent_reason_first() -> None:
    more = [*IN_TROUBLE, record("clicks", dead_letters={"no_key": 9})]
    found = [(letter.reason, letter.number, letter.tables) for letter in page.letters(more)]
    assert found == [("rule:qty", 41, "orders 41"), ("no_key", 10, "clicks 9, orders 1")]


def test_the_page_carries_the_status_itself() -> None:
    [block] = re.findall(r'<script type="application/json" id="status">(.*?)</script>', text())
    assert json.loads(block) == IN_TROUBLE


def test_nothing_of_the_data_becomes_markup() -> None:
    shown = text()
    assert "<script>alert" not in shown
    assert "&lt;risk&gt;" in shown


def test_the_page_needs_nothing_from_elsewhere() -> None:
    shown = text()
    places = re.findall(r'(?:src|href)="([^"]*)"', shown)
    assert [place for place in places if place[:1] != "#"] == ["data:,"]
    assert not re.findall(r"url\(|@import|https?:", shown)


def test_an_empty_lake_says_so() -> None:
    shown = render([record("orders")], [], [], "local", NOW)
    assert "Nothing has arrived yet" in shown
    assert "All is well" not in shown


def test_a_report_goes_below_the_lake_unless_a_file_is_named(tmp_path: Path) -> None:
    local = Target(root=str(tmp_path))
    assert destination(local) == tmp_path / "lake" / "_report" / "report.html"
    assert destination(local, tmp_path / "x.html") == tmp_path / "x.html"


def test_a_report_needs_a_file_where_a_catalog_keeps_the_tables(tmp_path: Path) -> None:
    volumes = {"landing": "/Volumes/l", "checkpoints": "/Volumes/c"}
    target = Target.model_validate({"kind": "databricks", "catalog": "c", **volumes})
    with pytest.raises(ConfigurationError, match="--output"):
        destination(target)
    with pytest.raises(ConfigurationError, match="folder"):
        destination(target, tmp_path)
