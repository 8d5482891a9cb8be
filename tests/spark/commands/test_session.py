import sys
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from lakehouse.errors import SparkUnavailable
from lakehouse.spark.session import check_server_python
from lakehouse.storage.lake import Lake
from tests.conftest import REMOTE


def test_a_table_exists_once_it_is_made(lake: Lake) -> None:
    before = lake.exists("gold", "t")
    lake.spark.sql(f"CREATE TABLE {lake.name('gold', 't')} (id int) USING delta")
    assert (before, lake.exists("gold", "t")) == (False, True)


def test_collected_times_are_utc(spark: SparkSession) -> None:
    [row] = spark.sql("SELECT TIMESTAMP '2024-07-01 12:00:00Z' AS t").collect()
    assert row["t"].isoformat() == "2024-07-01T12:00:00"


def test_spark_leaves_nothing_in_the_working_directory(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    assert [name for name in ("spark-warehouse", "metastore_db") if Path(name).exists()] == []


def test_functions_of_another_python_are_refused(
    spark: SparkSession, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Spark's workers compare their own version with the one that comes with a function."""
    check_server_python(spark)
    if REMOTE:
        monkeypatch.setattr(sys, "version_info", (3, 9, 0))
    else:
        monkeypatch.setattr(spark.sparkContext, "pythonVer", "3.9")
    with pytest.raises(SparkUnavailable, match="the server's Python differs"):
        check_server_python(spark)
