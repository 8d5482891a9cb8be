"""Whether the Python of a Spark server can run the functions that this process sends to it."""

import os
import sys
from collections.abc import Iterator

import pyarrow as pa
from pyspark.errors import PySparkException
from pyspark.sql import SparkSession

from lakehouse.errors import SparkUnavailable


def check_server_python(spark: SparkSession) -> None:
    """Send one function to the server, before any work, and see whether it runs there.

    Nothing is asked in a Databricks job, whose functions run in the job's own environment.

    Raises:
        SparkUnavailable: the server has another minor version of Python, or lacks the wheel.
    """
    if "DATABRICKS_RUNTIME_VERSION" in os.environ:
        return
    try:
        spark.range(1).mapInArrow(same_batches, "id bigint").collect()
    except PySparkException as failure:
        told = str(failure)
        if "PYTHON_VERSION_MISMATCH" in told:
            here = f"{sys.version_info[0]}.{sys.version_info[1]}"
            raise SparkUnavailable(
                f"the server's Python differs from Python {here} here; records are decoded and "
                "folded by Python functions, which need the same minor version on both sides",
                "use the server's version of Python here, or run it as a job of the bundle; "
                "`status` and `sql` work with any version",
            ) from failure
        if "ModuleNotFoundError" in told:
            raise SparkUnavailable(
                "the server cannot import the lakehouse's Python functions",
                "install this version of the wheel where the server's Python finds it, or run it "
                "as a job of the bundle; `status` and `sql` work without",
            ) from failure
        raise


def same_batches(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    """The record batches as they come."""
    return batches
