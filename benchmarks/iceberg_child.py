"""Iceberg's merge-on-read MERGE, in a process and an environment of its own (Spark 4.0).

Reads orders from standard input, one JSON object a line, and answers each with a line:
`{"do": "load"|"apply", "files": [...]}`, `{"do": "rows", "file": ...}`. The first line is
`{"folder": ..., "columns": [[name, type], ...], "keys": [...]}`.
"""

import json
import os
import sys
from typing import Any

from pyspark.sql import DataFrame, SparkSession

RUNTIME = "org.apache.iceberg:iceberg-spark-runtime-4.0_2.13:1.11.0"
TABLE = "local.db.orders"
PROPERTIES = {
    "format-version": "3",
    "write.merge.mode": "merge-on-read",
    "write.update.mode": "merge-on-read",
    "write.delete.mode": "merge-on-read",
}


def session(folder: str) -> SparkSession:
    """Local Spark with a catalog of folders, and otherwise what the other engines have."""
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    settings = {
        "spark.jars.packages": RUNTIME,
        "spark.sql.extensions": (
            "org.apache.iceberg.spark.extensions.IcebergSparkSessionExtensions"
        ),
        "spark.sql.catalog.local": "org.apache.iceberg.spark.SparkCatalog",
        "spark.sql.catalog.local.type": "hadoop",
        "spark.sql.catalog.local.warehouse": f"{folder}/warehouse",
        "spark.driver.memory": "4g",
        "spark.driver.host": "127.0.0.1",
        "spark.driver.extraJavaOptions": "-XX:+UseSerialGC -Duser.timezone=UTC",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.log.level": "ERROR",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.shuffle.partitions": "2",
    }
    builder = SparkSession.builder.master("local[*]")
    for key, value in settings.items():
        builder = builder.config(key, value)
    spark: SparkSession = builder.getOrCreate()
    return spark


def create(spark: SparkSession, columns: list[list[str]]) -> None:
    """An empty table of the columns and the LSN."""
    listed = ", ".join(f"{name} {type}" for name, type in columns)
    given = ", ".join(f"'{key}' = '{value}'" for key, value in PROPERTIES.items())
    spark.sql("CREATE NAMESPACE IF NOT EXISTS local.db")
    spark.sql(f"CREATE TABLE {TABLE} ({listed}, lsn bigint) USING iceberg TBLPROPERTIES ({given})")


def read(spark: SparkSession, given: dict[str, Any], files: list[str]) -> DataFrame:
    """The files' changes as flat rows; of a delete the key alone."""
    after = ", ".join(f"{name}: {type}" for name, type in given["columns"])
    before = ", ".join(f"{n}: {type}" for n, type in given["columns"] if n in given["keys"])
    schema = (
        f"before STRUCT<{before}>, after STRUCT<{after}>, source STRUCT<lsn: BIGINT>, op STRING"
    )
    values = [
        f"coalesce(after.{name}, before.{name}) AS {name}"
        if name in given["keys"]
        else f"after.{name} AS {name}"
        for name, _ in given["columns"]
    ]
    return spark.read.schema(schema).json(files).selectExpr(*values, "source.lsn AS lsn", "op")


def merge(spark: SparkSession, given: dict[str, Any], files: list[str]) -> None:
    """Newest change per key, then MERGE INTO, as on Delta."""
    keys = ", ".join(given["keys"])
    number = f"row_number() OVER (PARTITION BY {keys} ORDER BY lsn DESC) AS place"
    changes = read(spark, given, files).selectExpr("*", number).where("place = 1").drop("place")
    changes.createOrReplaceTempView("changes")
    names = [*(name for name, _ in given["columns"]), "lsn"]
    on = " AND ".join(f"t.{key} = s.{key}" for key in given["keys"])
    sets = ", ".join(f"t.{name} = s.{name}" for name in names)
    spark.sql(
        f"MERGE INTO {TABLE} t USING changes s ON {on}"
        " WHEN MATCHED AND s.op = 'd' AND s.lsn > t.lsn THEN DELETE"
        f" WHEN MATCHED AND s.lsn > t.lsn THEN UPDATE SET {sets}"
        f" WHEN NOT MATCHED AND s.op <> 'd' THEN INSERT ({', '.join(names)})"
        f" VALUES ({', '.join(f's.{name}' for name in names)})"
    )


def obey(spark: SparkSession, given: dict[str, Any], order: dict[str, Any]) -> None:
    """One order."""
    if order["do"] == "load":
        read(spark, given, order["files"]).drop("op").writeTo(TABLE).append()
    elif order["do"] == "apply":
        merge(spark, given, order["files"])
    else:
        rows = spark.table(TABLE).drop("lsn")
        rows.write.mode("overwrite").parquet(order["file"])


def main() -> None:
    """Work until standard input ends."""
    given = json.loads(sys.stdin.readline())
    spark = session(given["folder"])
    create(spark, given["columns"])
    print("ready", flush=True)
    for line in sys.stdin:
        obey(spark, given, json.loads(line))
        print("done", flush=True)


if __name__ == "__main__":
    main()
