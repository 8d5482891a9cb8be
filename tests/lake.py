"""Runs a whole lake in this process, and reads what gold shows."""

from pathlib import Path
from typing import Any

from pyspark.sql import SparkSession

from bronze import job as bronze
from gold import job as gold
from lakehouse import ledger
from lakehouse.ledger import Entry
from lakehouse.table import Table
from lakehouse.target import Target
from silver import job as silver


def quiet(_: str) -> None:
    """No progress to show."""


def run(spark: SparkSession, target: Target, tables: list[Table]) -> list[Entry]:
    """What is new through all three layers; fails where a table failed."""
    taken = bronze.ingest(spark, target, tables, "run", quiet)
    ledger.append(spark, target, [entry for entry in taken if entry.counts])
    done = [*taken, *silver.apply(spark, target, tables, "run", quiet)]
    done += gold.publish(spark, target, tables, "run", quiet)
    failures = [e.message for e in done if e.status == "failed"]
    assert not failures, failures
    return done


def rows(spark: SparkSession, target: Target, name: str) -> list[dict[str, Any]]:
    """The rows of a gold table."""
    query = f"SELECT * FROM gold.`{name}`"
    gold.open_catalog(spark, target, query)
    return [row.asDict() for row in spark.sql(query).collect()]


def land(target: Target, folder: str, name: str, lines: list[str]) -> None:
    """Drops one file of lines, as a source does: written aside, then renamed."""
    place = Path(target.landing, folder)
    place.mkdir(parents=True, exist_ok=True)
    (place / f".{name}").write_text("".join(line + "\n" for line in lines), encoding="utf-8")
    (place / f".{name}").rename(place / name)
