"""Order keys as Spark makes and reads them are those of Python."""

from random import Random

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from silver.contract import sequence_text
from silver.fold.order_key import make_order, order_literal, order_sql, sequence_of, sequence_sql
from tests.helpers.flat import rows


def test_spark_makes_and_reads_order_keys_as_python_does(spark: SparkSession) -> None:
    random = Random(7)
    given = [
        (
            "/".join(
                f"{random.choice([0, 1, 2**63, 2**64 - 1]):016X}"
                for _ in range(random.randint(1, 5))
            ),
            random.randbytes(random.choice([0, 4, 18])).hex().upper() + random.choice(["", "/AB"]),
        )
        for _ in range(200)
    ]
    frame = spark.createDataFrame(given, "_sequence string, _arrival string")
    made = frame.withColumn("_order", F.expr(order_sql()))
    read = made.withColumns(
        {"text": F.expr(sequence_text("_order")), "start": F.expr(sequence_sql("_order"))}
    )
    for row in read.collect():
        order = make_order(row["_sequence"], row["_arrival"])
        assert bytes(row["_order"]) == order
        assert row["text"] == row["_sequence"]
        assert bytes(row["start"]) == sequence_of(order)
    orders = sorted({make_order(*each) for each in given})
    above = made.where(F.col("_order") > F.expr(order_literal(orders[100]))).select("_order")
    assert {bytes(order) for (order,) in rows(above.distinct())} == {*orders[101:]}


def test_a_change_without_a_sequence_has_no_order_key(spark: SparkSession) -> None:
    frame = spark.sql("SELECT CAST(NULL AS string) AS _sequence, '0A' AS _arrival")
    assert frame.select(F.expr(order_sql())).collect()[0][0] is None
