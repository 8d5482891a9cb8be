import json
import re
from datetime import datetime, timedelta, timezone
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from cdc_lakehouse.cli.check.quality import check_all, try_rules
from gold.quality.docs import QualityRun
from gold.quality.run import check_expectations, critical_failures
from gold.views import catalog
from lakehouse.config.columns import Column
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import View, publish_views

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QTY = {"type": "expect_column_values_to_be_between", "column": "qty", "min_value": 0}


def table(*expectations: dict[str, Any], name: str = "orders") -> Table:
    given = {"table": name, "keys": ["id"], "source": {"format": "rows"}}
    return Table.model_validate({**given, "expectations": list(expectations)})


def columns(given: dict[str, Any]) -> dict[str, Column]:
    given = {"table": "t", "keys": ["id"], "source": {"format": "rows"}, "columns": given}
    return Table.model_validate(given).columns


RUN = QualityRun("a" * 32, datetime(2026, 3, 4, 12, tzinfo=timezone.utc))


def rows(spark: "SparkSession") -> "DataFrame":
    return spark.createDataFrame([(1, 5), (2, -1), (3, None)], "id int, qty int")


def test_each_expectation_has_its_result_in_the_order_of_the_table(
    spark: "SparkSession", tmp_path: Path
) -> None:
    two = table(
        {**QTY, "severity": "warning"},
        {"type": "expect_table_row_count_to_be_between", "min_value": 3},
        {**QTY, "mostly": 0.5},
        {"type": "expect_column_values_to_not_be_null", "column": "qty", "row_condition": "id < 3"},
        {"type": "expect_column_values_to_not_be_null", "column": "nowhere"},
    )
    results = check_expectations(two, rows(spark), str(tmp_path), RUN)
    found = [(r.severity, r.success, r.unexpected_count, r.element_count) for r in results]
    assert found == [
        ("warning", False, 1, 3),
        ("critical", True, None, None),
        ("critical", True, 1, 3),
        ("critical", True, 0, 2),
        ("critical", False, None, None),
    ]
    assert results[1].observed == "3"
    assert '"nowhere"' in str(results[4].message)
    assert critical_failures(results) == results[4:]


def test_the_data_docs_show_every_table_of_every_run_without_a_network(
    spark: "SparkSession", tmp_path: Path
) -> None:
    both = [table(QTY, name="orders"), table(QTY, name="items"), table(name="silent")]
    found = [each for t in both for each in check_expectations(t, rows(spark), str(tmp_path), RUN)]
    assert [result.table for result in found] == ["orders", "items"]
    again = RUN._replace(id="b" * 32, at=RUN.at + timedelta(days=1))
    check_expectations(both[0], rows(spark), str(tmp_path), again)
    docs = tmp_path / "docs"
    links = re.findall(r'href="([^"#]+[.]html)"', (docs / "index.html").read_text())
    first, second = "20260304T120000Z-aaaaaaaa", "20260305T120000Z-bbbbbbbb"
    assert links == [f"{second}/orders.html", f"{first}/items.html", f"{first}/orders.html"]
    for link in links:
        page = (docs / link).read_text()
        name, run = Path(link).stem, Path(link).parent.name
        assert f"<h1>{name}</h1>" in page and f"run <b>{run}</b>" in page
        assert "1 of 3 (50 %)" in page or "1 of 3 (33.3 %)" in page
        assert "such as -1" in page
    for file in docs.rglob("*.html"):
        text = file.read_text()
        assert not re.findall(r"https?:|<script|url\(|@import", text), file
        assert "None" not in text and "__none__" not in text
    kept = [json.loads(file.read_text()) for file in (tmp_path / "results").rglob("*.json")]
    assert sorted(one["meta"]["run_id"]["run_name"] for one in kept) == [first, first, second]


def test_the_data_docs_show_no_values_of_sensitive_columns(
    spark: "SparkSession", tmp_path: Path
) -> None:
    secret = {"id": "int", "qty": {"type": "int", "sensitive": True}}
    check_expectations(
        table(QTY).model_copy(update={"columns": columns(secret)}), rows(spark), str(tmp_path), RUN
    )
    (page,) = (tmp_path / "docs").rglob("orders.html")
    assert "not met" in page.read_text() and "such as" not in page.read_text()


def published(target: Target, spark: "SparkSession") -> None:
    query = "SELECT * FROM VALUES (1, 5), (2, -1), (3, null) AS t(id, qty)"
    publish_views(Lake(spark, target), "gold", [View("orders", {}, "", ("id",), query)])


def test_the_command_keeps_results_and_tells_which_rules_changed(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    published(lake.target, lake.spark)
    folder = f"{lake.target.lake}/_docs"
    tables = [table(QTY), table(QTY, name="items"), table(name="silent")]
    (result,) = check_all(lake, tables, folder, "gold", as_json=False)
    assert (result.table, result.success, result.unexpected_count) == ("orders", False, 1)
    first = capsys.readouterr().out
    assert "1 of 3" in first and "observed" not in first
    assert "silent: no expectations" in first
    assert "items: nothing there yet, not checked" in first
    assert "its rules are others" not in first
    assert f"Data Docs: {folder}/docs/index.html" in first
    assert Path(folder, "docs", "index.html").is_file()
    lenient = table({**QTY, "min_value": -5, "severity": "warning"})
    check_all(lake, [lenient], folder, "gold", as_json=False)
    changed = [line for line in capsys.readouterr().out.splitlines() if line.startswith("  ")]
    assert [line.partition('"min_value": ')[2] for line in changed if "{" in line] == [
        '-5, "severity": "warning", "type": "expect_column_values_to_be_between"}',
        '0, "severity": "critical", "type": "expect_column_values_to_be_between"}',
    ]
    kept = catalog_rows(lake)
    assert [(r["success"], r["unexpected_count"], r["severity"]) for r in kept] == [
        (False, 1, "critical"),
        (True, 0, "warning"),
    ]
    assert len({r["rules"] for r in kept}) == len({r["run_id"] for r in kept}) == 2


def catalog_rows(lake: Lake) -> list[Any]:
    query = "SELECT * FROM gold.pipeline_quality ORDER BY at"
    catalog.open_catalog(lake, query)
    return list(lake.spark.sql(query).collect())


def test_the_newest_batch_can_be_checked(lake: Lake) -> None:
    changes = "SELECT * FROM VALUES (1, 5, 'upsert', 1), (2, -1, 'upsert', 2), (3, 0, 'delete', 2)"
    log = lake.spark.sql(f"{changes} AS t(id, qty, _operation, _batch)")
    log.writeTo(f"delta.`{lake.target.lake}/silver/orders_changes`").using("delta").create()
    (result,) = check_all(lake, [table(QTY)], f"{lake.target.lake}/_docs", "batch", True)
    assert (result.unexpected_count, result.element_count) == (1, 1)
    assert [row["checked"] for row in catalog_rows(lake)] == ["batch"]


def test_rules_of_a_file_are_tried_on_what_gold_shows(
    lake: Lake, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("cdc_lakehouse.cli.check.quality.open_lake", lambda *_: lake)
    published(lake.target, lake.spark)
    file = Path(lake.target.lake, "rules.yml")
    file.write_text(
        json.dumps([QTY, {"type": "expect_column_values_to_be_unique", "column": "id"}])
    )
    try_rules(lake.target, [table()], file, as_json=True)
    (tried, refused) = map(json.loads, capsys.readouterr().out.splitlines())
    assert (tried["rows"], tried["failing"], tried["problem"]) == (3, 1, None)
    assert "no row rule" in refused["problem"]
