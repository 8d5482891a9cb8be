"""The source of a MERGE is sent whole to every task where its batch has few changes."""

import pytest
from pyspark.sql import SparkSession

from silver.storage.row_columns import to_all


@pytest.mark.parametrize("few", [True, False])
def test_a_batch_of_few_changes_is_broadcast(
    spark: SparkSession, few: bool, capsys: pytest.CaptureFixture[str]
) -> None:
    threshold = "spark.sql.autoBroadcastJoinThreshold"
    usual = spark.conf.get(threshold)
    spark.conf.set(threshold, "-1")
    try:
        rows, table = spark.range(3), spark.range(10)
        both = to_all(rows, few).join(table, "id")
        both.explain()
        assert ("BroadcastHashJoin" in capsys.readouterr().out) == few
        assert both.count() == 3
    finally:
        spark.conf.set(threshold, usual)
