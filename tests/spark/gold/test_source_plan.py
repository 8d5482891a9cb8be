"""The texts by which gold is compared with a source database."""

from pyspark.sql import SparkSession

from gold.source_check.plan import gold_texts, plan_comparison
from lakehouse.config.table import Table


def test_a_time_of_day_is_the_same_as_a_clock_shows_it_and_as_debezium_counts_it(
    spark: SparkSession,
) -> None:
    source = {"format": "debezium", "path": "t"}
    table = Table.model_validate({"table": "t", "keys": ["id"], "source": source})
    shown = [(1, "10:11:12.123456", "10:11:12.123"), (2, "36672123456", "36672123")]
    rows = spark.createDataFrame(shown, "id int, t string, t3 string")
    types = {"id": "integer", "t": "time without time zone", "t3": "time(3) without time zone"}
    texts = gold_texts(rows, plan_comparison(table, "t", types, rows.columns)).select("c1", "c2")
    assert [tuple(row) for row in texts.collect()] == [("36672123456", "36672123000")] * 2


def test_mysql_s_values_are_the_same_as_the_server_writes_them(spark: SparkSession) -> None:
    source = {"format": "debezium", "path": "t"}
    table = Table.model_validate({"table": "t", "keys": ["id"], "source": source})
    shown = [(1, "-838:59:59.5", bytearray(b"\x05\x02"), True), (2, "00:00:00", b"\x00\x00", False)]
    rows = spark.createDataFrame(shown, "id int, t string, b binary, flag boolean")
    types = {"id": "INTEGER", "t": "TIME(1)", "b": "BIT(10)", "flag": "TINYINT(1)"}
    texts = gold_texts(rows, plan_comparison(table, "t", types, rows.columns)).select(
        "c1", "c2", "c3"
    )
    expected = [("-3020399500000", "1000000101", "1"), ("0", "", "0")]
    assert [tuple(row) for row in texts.collect()] == expected
