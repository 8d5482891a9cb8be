"""AUTO CDC of Spark's declarative pipelines, as their programming guide has it, one run a batch.

https://spark.apache.org/docs/latest/declarative-pipelines-programming-guide.html. Its target must
support row-level operations. Spark 4.2 finds none among the lake formats (Delta refuses, Iceberg's
newest runtime is for Spark 4.1): the target is the table in memory of Spark's own tests.
"""

import functools
import shutil
from pathlib import Path

from pyspark import pipelines as dp
from pyspark.pipelines.graph_element_registry import graph_element_registration_context
from pyspark.pipelines.spark_connect_graph_element_registry import SparkConnectGraphElementRegistry
from pyspark.pipelines.spark_connect_pipeline import (
    create_dataflow_graph,
    handle_pipeline_events,
    start_run,
)
from pyspark.sql import DataFrame, SparkSession

from benchmarks.right.rival import BESIDE, CannotError, Case, Row, answer
from benchmarks.right.table import JAR

MEMORY = "org.apache.spark.sql.connector.catalog.SharedTablesInMemoryRowLevelOperationTableCatalog"


def run(case: Case, folder: Path, spark: SparkSession) -> list[Row]:
    """One case into a table in memory."""
    if case.history:
        raise CannotError("Spark 4.2 has SCD type 1 only")
    arrived = folder / "arrived"
    arrived.mkdir()
    for batch, file in enumerate(case.files):
        shutil.copy(file, arrived)
        schema = ", ".join(f"{k} {v}" for k, v in (case.known(batch) | BESIDE).items())
        update(spark, case.table, schema, arrived, folder / "storage")
    found: list[Row] = spark.table(f"memory.db.{case.table}").toArrow().to_pylist()
    return found


def update(spark: SparkSession, table: str, schema: str, arrived: Path, storage: Path) -> None:
    """One run of a pipeline that takes the files that arrived into the table."""
    graph = create_dataflow_graph(spark, "memory", "db", None)
    with graph_element_registration_context(SparkConnectGraphElementRegistry(spark, graph)):

        @dp.temporary_view
        def changes() -> DataFrame:
            return spark.readStream.schema(schema).json(str(arrived))

        dp.create_streaming_table(table)
        dp.create_auto_cdc_flow(
            target=table,
            source="changes",
            keys=["id"],
            sequence_by="lsn",
            apply_as_deletes="op = 'd'",
            except_column_list=list(BESIDE),
        )
    handle_pipeline_events(start_run(spark, graph, [], False, [], False, storage.as_uri()))


if __name__ == "__main__":
    builder = SparkSession.builder.remote("local[2]").config("spark.jars", str(JAR))
    builder = builder.config("spark.sql.catalog.memory", MEMORY)
    builder = builder.config("spark.sql.shuffle.partitions", "1")
    spark = builder.config("spark.ui.enabled", "false").getOrCreate()
    spark.sql("CREATE NAMESPACE memory.db")
    answer(functools.partial(run, spark=spark), "pyspark")
