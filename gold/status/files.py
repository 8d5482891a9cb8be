"""How many files and deletion vectors a table has, without a Spark job where that is possible."""

import json
from pathlib import Path
from typing import NamedTuple

from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from lakehouse.spark.spark_failures import SPARK_FAILURES
from lakehouse.storage import names


class Files(NamedTuple):
    """Of the newest version: data files, their bytes, deletion vectors."""

    files: int | None = None
    bytes: int | None = None
    deletion_vectors: int | None = None


def measure(spark: SparkSession, target: Target, table: str) -> Files:
    """A silver table's files: from its newest checksum file, else from DESCRIBE DETAIL.

    The latter knows of deletion vectors on Databricks only; what is not known is None, and so is
    all of a table that cannot be read.
    """
    folder = names.location(target, "silver", table)
    noted = checksum(Path(folder, "_delta_log")) if folder else None
    return noted or _described(spark, names.name(target, "silver", table))


def checksum(log: Path) -> Files | None:
    """What Delta noted beside the newest commit of a transaction log; None if it has not yet."""
    newest = max((file.stem for file in log.glob("*.json") if file.stem.isdigit()), default=None)
    file = log / f"{newest}.crc"
    if not file.is_file():
        return None
    try:
        noted = json.loads(file.read_text(encoding="utf-8"))
    except ValueError:
        return None
    return Files(
        noted.get("numFiles"), noted.get("tableSizeBytes"), noted.get("numDeletionVectorsOpt")
    )


def _described(spark: SparkSession, name: str) -> Files:
    try:
        row = spark.sql(f"DESCRIBE DETAIL {name}").first()
    except SPARK_FAILURES:
        return Files()
    detail = row.asDict() if row else {}
    more = detail.get("statistics") or {}
    vectors = more.get("numDeletionVectors")
    known = None if vectors is None else int(vectors)
    return Files(detail.get("numFiles"), detail.get("sizeInBytes"), known)
