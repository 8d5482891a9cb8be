from pathlib import Path
from typing import TYPE_CHECKING, Any

from gold.quality import check, critical_failures, run
from lakehouse.table import Table

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

QTY = {"type": "expect_column_values_to_be_between", "column": "qty", "min_value": 0}


def table(*expectations: dict[str, Any], name: str = "orders") -> Table:
    given = {"table": name, "keys": ["id"], "source": {"format": "rows"}}
    return Table.model_validate({**given, "expectations": list(expectations)})


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
    results = check(two, rows(spark), str(tmp_path))
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


def test_the_site_shows_every_table_of_every_run(spark: "SparkSession", tmp_path: Path) -> None:
    both = [table(QTY, name="orders"), table(QTY, name="items"), table(name="silent")]
    results = run(both, lambda _: rows(spark), str(tmp_path))
    assert [result.table for result in results] == ["orders", "items"]
    index = (tmp_path / "docs" / "index.html").read_text()
    assert all(name in index for name in ("orders", "items"))
    assert len(list((tmp_path / "results").rglob("*.json"))) == 2
