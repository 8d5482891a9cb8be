"""What became of every record of a batch: the classes add up to the records."""

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.table import Table
from lakehouse.target import Target
from silver.compact import column
from silver.contract import DELETE
from silver.log import Summary
from silver.order import Placed

NOTES = ("incomplete", "heirs")


def classes(
    spark: SparkSession,
    target: Target,
    table: Table,
    placed: Placed,
    summary: Summary,
) -> dict[str, int]:
    """Counts the records of a batch by what was done with them.

    `inserted`, `updated`, `deleted` and `delete_unknown` changed a row; `duplicate` is a repeat
    within the batch; `superseded` had a newer change in the batch or in the table, and is woven
    into the history where one is kept; `refolded` ones were applied with all others anew;
    `truncate`, `without_change` and `dead_letter:<reason>` are what they say. A table without a key
    has the one class `applied`: each change is kept once, a repeat not again. Beside the classes
    stand `records`, their sum, and `incomplete` and `heirs`: changes without all columns.
    """
    counts = {f"dead_letter:{reason}": n for reason, n in summary.rejected.items()}
    counts |= {"records": summary.records, "truncate": summary.truncates}
    counts |= {"without_change": summary.without_change}
    if summary.changes and not table.keys:
        counts["applied"] = summary.changes
    elif summary.changes and not placed.refold:
        rows = _written(spark, target, table, placed.batch.number)
        found = _counted(rows.unionByName(_distinct(placed.batch.changes, table.keys)))
        distinct = found.pop("distinct", 0)
        written = {kind: n for kind, n in found.items() if kind != "late"}
        counts |= written | {"duplicate": summary.changes - distinct}
        counts["superseded"] = distinct - sum(written.values())
    elif summary.changes:
        counts["refolded"] = summary.changes
    notes = {"incomplete": summary.incomplete, "heirs": summary.heirs}
    return {name: n for name, n in (counts | notes).items() if n or name == "records"}


def _counted(kinds: DataFrame) -> dict[str, int]:
    return {row["kind"]: row["count"] for row in kinds.groupBy("kind").count().collect()}


def _distinct(changes: DataFrame, keys: list[str]) -> DataFrame:
    """The kind `distinct`, once per change that is no repeat."""
    identity = [F.col(c) for c in ("_sequence", "_operation", "_digest")]
    once = changes.groupBy(*[column(k) for k in keys], *identity).agg(F.lit(1).alias("one"))
    return once.select(F.lit("distinct").alias("kind"))


def _written(spark: SparkSession, target: Target, table: Table, batch: int) -> DataFrame:
    """What became of each row that the batch wrote, as the column `kind`."""
    versions = table.stored_as_scd_type == 2
    name = f"{table.table}_history" if versions else table.table
    rows = spark.table(names.name(target, "silver", name)).where(F.col("_batch") == batch)
    if not versions:
        return rows.select(F.col("_class").alias("kind"))
    deleted = F.when(F.col("_operation") == DELETE, F.lit("deleted"))
    kind = F.coalesce(deleted, F.when(F.col("_shown"), F.lit("version")), F.lit("woven"))
    return rows.select(kind.alias("kind"))
