"""How far every rebuild has come, in `silver._rebuilds`: a row per step, never changed."""

import hashlib
from datetime import datetime, timezone
from typing import NamedTuple

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Aside, Target
from lakehouse.spark.local_rows import local_rows
from lakehouse.storage import names
from lakehouse.storage.writing import append
from silver.contract import LayerColumn
from silver.storage import layout

REBUILDS = "_rebuilds"
BUILDING, SWAPPING, DONE, ABANDONED = 1, 2, 3, 4
REBUILD_COLUMNS = (
    LayerColumn("rebuild", "string", "the rebuild, in the names of its tables"),
    LayerColumn("table", "string", "the table that is rebuilt"),
    LayerColumn("configuration", "string", "digest of the YAML that it is built with"),
    LayerColumn("step", "int", "1 building, 2 being swapped in, 3 done, 4 abandoned"),
    LayerColumn("at", "timestamp", "when the step began"),
    LayerColumn("run_id", "string", "the run that did it"),
)


class Rebuild(NamedTuple):
    """A rebuild and the newest step that it has reached."""

    id: str
    table: str
    configuration: str
    step: int


def aside(target: Target, rebuild: str) -> Aside:
    """The target whose silver tables are those of the rebuild."""
    return Aside(**target.model_dump(), rebuild=rebuild)


def digest(table: Table) -> str:
    """What tells one configuration of a table from another."""
    return hashlib.sha256(table.model_dump_json().encode()).hexdigest()[:16]


def unfinished(spark: SparkSession, target: Target) -> list[Rebuild]:
    """The rebuilds that are neither done nor abandoned; without a look where there were none."""
    if not names.exists(spark, target, "silver", REBUILDS):
        return []
    steps = spark.table(names.name(target, "silver", REBUILDS))
    newest = steps.groupBy("rebuild", "table", "configuration").agg(F.max("step").alias("step"))
    found = newest.where(F.col("step") < DONE).orderBy("rebuild").collect()
    return [Rebuild(*row) for row in found]


def note(spark: SparkSession, target: Target, rebuild: Rebuild, step: int, run_id: str) -> Rebuild:
    """Writes down that a rebuild has reached a step; returns it so."""
    layout.ensure(spark, target, REBUILDS, [], REBUILD_COLUMNS)
    row = {
        "rebuild": rebuild.id,
        "table": rebuild.table,
        "configuration": rebuild.configuration,
        "step": step,
        "at": datetime.now(timezone.utc),
        "run_id": run_id,
    }
    schema = ", ".join(f"`{c.name}` {c.type}" for c in REBUILD_COLUMNS)
    append(spark, target, "silver", REBUILDS, local_rows(spark, [row], schema))
    return rebuild._replace(step=step)
