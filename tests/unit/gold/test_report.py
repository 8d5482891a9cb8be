import json
import math
import re
from base64 import b64encode
from hashlib import sha256
from pathlib import Path
from typing import TYPE_CHECKING, Any, cast

import pytest

from cdc_lakehouse.cli.ask.report import find_report_file
from gold.quality.results import rule_text
from gold.report import page, story
from gold.report.drawing import LogAxis
from gold.report.html import render_page
from gold.report.runs import list_runs
from gold.report.tables import ColumnLine, RuleLine, describe_tables
from gold.status.trouble import PipelineStatus, list_lines
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.run.unread import Unread
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import View, publish_views
from tests.helpers.report_parts import ENTRIES, IN_TROUBLE, TROUBLE, entry, record, report

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)


def text() -> str:
    return render_page(TROUBLE)


def told(*records: dict[str, Any], **more: Any) -> PipelineStatus:
    return report(list(records), **more).status


def test_everything_that_asks_for_attention_is_named() -> None:
    verdict = page.judge_status(told(*IN_TROUBLE))
    assert (verdict.kind, verdict.headline) == ("bad", "5 things ask for attention")
    assert [(table, text.partition("; do:")[0]) for table, text, _ in verdict.lines] == [
        ("orders", "the last run failed: disk </script><script>alert(1)</script> full"),
        ("orders", "1 open gap in the source"),
        ("orders", "a change has waited 11 min 40 s, promised are 10 min"),
        ("orders", "42 dead letters (1 no_key, 41 rule:qty)"),
        ("orders", "3 keys with an older row, because the newest change is a dead letter"),
    ]
    [(_, sentence, serious)] = page.judge_status(told(record("t", accounted=False))).lines
    assert serious and sentence.startswith("outcomes do not add up to the records; do: please")


ONE, TWO = "1 thing asks for attention", "2 things are worth a look"
CAME = {"counts": {"records": 1, "inserted": 1}}


@pytest.mark.parametrize(
    ("status", "kind", "headline"),
    [
        (told(record("t", max_staleness_seconds=60, **CAME)), "good", "All is well"),
        (told(record("t", **CAME)), "unpromised", "Nothing asks for attention"),
        (told(record("t", max_staleness_seconds=60)), "empty", "Nothing has arrived yet"),
        (told(record("t", order="arrival", **CAME)), "look", "1 thing is worth a look"),
        (told(record("t", **CAME), notes=["u: no YAML", "v: no"]), "look", TWO),
        (told(unread=[Unread("feed", {"a": 1}, 2)]), "look", TWO),
        (told(record("t", stale=True, max_staleness_seconds=1)), "bad", ONE),
    ],
)
def test_all_is_well_only_where_something_is_promised_and_kept(
    status: PipelineStatus, kind: str, headline: str
) -> None:
    verdict = page.judge_status(status)
    assert (verdict.kind, verdict.headline) == (kind, headline)
    assert headline in render_page(report([])._replace(status=status))


def test_the_page_says_what_status_says_in_the_order_of_status() -> None:
    status = told(record("calm"), *IN_TROUBLE, unread=[Unread("feed_shop", {"shop.carts": 7}, 0)])
    lines = list_lines(status)
    assert [table for table, _, _ in lines] == ["orders"] * 5 + [""]
    assert lines[-1][1] == "feed_shop: 7 records of 1 topic that no table reads: shop.carts (7)"
    shown = render_page(report([])._replace(status=status))
    assert all(re.sub("[`<].*", "", sentence) in shown for _, sentence, _ in lines)
    assert "<code>lakehouse run --table orders</code>" in shown and "`lakehouse" not in shown
    assert '<th scope="row">shop.carts</th>' in shown


def test_a_table_tells_how_far_it_was_verified() -> None:
    at = {"verified_through": "0/1A", "verified_at": "2026-03-04T11:00:00Z"}
    at["verified_against"] = "shop.t"
    compared, other = (
        re.sub(
            "<[^>]+>", "", render_page(report([record("t", **more)])).partition("<dt>verified")[2]
        )
        for more in (at, {})
    )
    assert compared.startswith("equal to shop.t through 0/1A, found 2026-03-04 11:00")
    assert other.startswith("never verified; lakehouse verify t")


def test_a_wait_that_breaks_the_promise_is_told_apart() -> None:
    charts, marks = page.build_freshness(IN_TROUBLE, ENTRIES, story.find_span(ENTRIES))
    orders, other = charts
    assert (orders.kept.count("M"), orders.broken.count("M"), other.kept) == (1, 1, "")
    assert (orders.latest, orders.longest, orders.promised) == ("26 min 1 s",) * 2 + ("10 min",)
    assert marks == [("1 s", 0.0), *marks[1:-1], ("1 h", 100.0)]
    assert orders.line == pytest.approx(math.log(600) / math.log(3_600) * 100)


def test_an_axis_by_powers_has_room_for_everything() -> None:
    for longest in (0, 0.3, 59, 61, 5_000, 10**7):
        axis = LogAxis(longest)
        assert axis.percent(0.01) == 0 and axis.percent(axis.top) == pytest.approx(100)
        assert axis.top >= longest and 2 <= len(axis.marks) <= 5


def test_each_run_has_its_duration_and_its_error() -> None:
    failed = {"status": "failed", "message": "disk full\nat line 1"}
    entries = [
        entry("a", "bronze", 10, {"records": 5}, took=2, run_id="one"),
        entry("a", "silver", 9, {"records": 5}, took=3, run_id="one"),
        entry("b", "silver", 8.5, {}, run_id="one", **failed),
        entry("a", "bronze", 2, {"records": 7}, took=1.5, run_id="two"),
        *[entry(f"t{n}", "gold", 1, {}, run_id="three", **failed) for n in range(5)],
    ]
    three, two, one = list_runs(entries)
    assert (one.began, one.seconds) == ("2026-03-04T11:49:58Z", 92)
    assert (one.layers, one.tables, one.records) == ("bronze, silver", 2, 5)
    assert (one.failed, one.error) == (1, "b (silver): disk full")
    assert (two.seconds, two.records, two.failed, two.error) == (1.5, 7, 0, "")
    assert three.error.endswith("t2 (gold): disk full; and 2 more")


def test_each_table_has_its_columns_comments_keys_and_rules(tmp_path: Path) -> None:
    rule = {"type": "expect_column_values_to_be_between", "column": "qty", "min_value": 0}
    table = Table.model_validate(
        {
            "table": "orders",
            "keys": ["id"],
            "comment": "what was ordered",
            "source": {"format": "rows"},
            "columns": {"id": "bigint", "email": {"type": "string", "sensitive": True}},
            "expectations": [rule],
        }
    )
    target = Target(root=str(tmp_path))
    results = [{"table": "orders", "rule": rule_text(table.expectations[0]), "success": False}]
    [before] = describe_tables(target, [table], results)
    assert (before.comment, before.keys) == ("what was ordered", "id")
    assert [column.name for column in before.columns] == ["id", "email"]
    columns = {"id": "the number", "email": None, "qty": None}
    publish_views(
        Lake(NO_SPARK, target), "gold", [View("orders", columns, "", ("id",), "SELECT 1")]
    )
    [after] = describe_tables(target, [table], results)
    assert after.columns == [
        ColumnLine("id", "bigint", "the number", "key"),
        ColumnLine("email", "string", "", "sensitive"),
        ColumnLine("qty", "", "", ""),
    ]
    words = "column values to be between (column: qty, min_value: 0)"
    assert after.rules == [RuleLine(words, "critical", False)]


def test_dead_letters_come_with_the_most_frequent_reason_first() -> None:
    more = [*IN_TROUBLE, record("clicks", dead_letters={"no_key": 9})]
    found = [(letter.reason, letter.number, letter.tables) for letter in page.count_letters(more)]
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


def test_only_the_pages_own_script_may_run() -> None:
    shown = text()
    [script] = re.findall(r"<script>(.*?)</script>", shown, re.DOTALL)
    digest = b64encode(sha256(script.encode()).digest()).decode()
    assert f"script-src 'sha256-{digest}'" in shown


def test_the_data_docs_are_linked_where_they_are() -> None:
    shown = render_page(TROUBLE._replace(docs="../_docs/docs/index.html"))
    assert shown.count('href="../_docs/docs/index.html"') == 2
    assert "Data Docs" not in text()


def test_a_report_goes_below_the_lake_unless_a_file_is_named(tmp_path: Path) -> None:
    local = Target(root=str(tmp_path))
    assert find_report_file(local) == tmp_path / "lake" / "_report" / "report.html"
    assert find_report_file(local, tmp_path / "x.html") == tmp_path / "x.html"


def test_a_report_needs_a_file_where_a_catalog_keeps_the_tables(tmp_path: Path) -> None:
    volumes = {"landing": "/Volumes/l", "checkpoints": "/Volumes/c"}
    target = Target.model_validate({"kind": "databricks", "catalog": "c", **volumes})
    with pytest.raises(ConfigurationError, match="--output"):
        find_report_file(target)
    with pytest.raises(ConfigurationError, match="folder"):
        find_report_file(target, tmp_path)
