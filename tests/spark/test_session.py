from pathlib import Path

from pyspark.sql import SparkSession

from lakehouse.names import exists, name
from lakehouse.target import Target


def test_a_table_exists_once_it_is_made(spark: SparkSession, target: Target) -> None:
    before = exists(spark, target, "gold", "t")
    spark.sql(f"CREATE TABLE {name(target, 'gold', 't')} (id int) USING delta")
    assert (before, exists(spark, target, "gold", "t")) == (False, True)


def test_collected_times_are_utc(spark: SparkSession) -> None:
    [row] = spark.sql("SELECT TIMESTAMP '2024-07-01 12:00:00Z' AS t").collect()
    assert row["t"].isoformat() == "2024-07-01T12:00:00"


def test_spark_leaves_nothing_in_the_working_directory(spark: SparkSession) -> None:
    assert spark.range(1).count() == 1
    assert [name for name in ("spark-warehouse", "metastore_db") if Path(name).exists()] == []
