"""SQL statements over a DataFrame, on a plan of any depth."""

import uuid

from pyspark.sql import DataFrame, SparkSession

from lakehouse.names import quote

ROWS = "{rows}"


def execute(spark: SparkSession, text: str, rows: DataFrame) -> None:
    """Runs a statement in which `{rows}` stands for `rows`.

    The rows are a temporary view of a name used once: passed as an argument of `spark.sql`, a deep
    plan is more than Spark Connect's client takes.
    """
    view = f"_rows_{uuid.uuid4().hex}"
    rows.createOrReplaceTempView(view)
    try:
        spark.sql(text.replace(ROWS, quote(view)))
    finally:
        spark.catalog.dropTempView(view)
