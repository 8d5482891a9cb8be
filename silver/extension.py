"""A table's change log brought up to bronze: what is new there is decoded, gated and added."""

from collections.abc import Mapping

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StructField

from bronze.contract import beginning
from lakehouse.spark_failures import SPARK_FAILURES
from lakehouse.table import Table
from lakehouse.target import Target
from silver import built, lateness, layout, log, reading, schema_drift
from silver.batch import Seen
from silver.debezium_recall import is_unlike, keep_plan, plan_of, recall_nothing, recalled
from silver.decode import RECALLING, Recall, decode, with_learned
from silver.expectations import gate
from silver.summary import Summary


def extend(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    newest: Mapping[str, int],
    applied: int,
    recall: Recall | None = None,
) -> tuple[Seen, Summary | None]:
    """Adds what bronze has gained up to the batches `newest` to the log, as one batch.

    `applied` is the newest batch of the log that is applied. A batch unlike the last is decoded
    once more: a write that failed has written nothing. Returns what the log holds then, and the
    summary of the batch where its write told it.
    """
    learned = layout.learned(spark, target, table)
    built.check_types(spark, table, learned)

    def add() -> Summary | None:
        gated = _planned(spark, target, table, run_id, seen, newest, learned, recall)
        return log.append(spark, target, table, gated, seen.batch + 1, seen.whole.epochs)

    try:
        summary = add()
    except SPARK_FAILURES as failure:
        if recall is None or not is_unlike(failure):
            raise
        recall_nothing(table, recall)
        summary = add()
    if lateness.reject(spark, target, table, seen.batch, seen.horizon, applied):
        summary = None
    after = seen._replace(batch=seen.batch + 1, positions=dict(seen.positions) | dict(newest))
    return after, summary


def _planned(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    newest: Mapping[str, int],
    learned: list[StructField],
    recall: Recall | None,
) -> DataFrame:
    """What is new, decoded and gated.

    Planning a short batch takes longer than its work. So all of bronze is planned where that plan
    will do for the next batches too, each of which is a part of it.
    """
    kept = plan_of(table, learned, recall) if recall is not None else None
    if kept is not None and kept.sparkSession is spark:
        return _part(kept, table, seen, newest)
    raw = reading.unread(spark, target, table, seen.positions, newest)
    changes = decode(raw, table, learned, recall)
    schema_drift.follow(spark, target, table, raw, changes, seen.built, run_id)
    if recall is not None and _serves_again(table, learned, recall):
        everything = decode(reading.raw(spark, target, table), table, learned, recall)
        keep_plan(table, learned, recall, gate(everything, table))
    return gate(changes, table)


def _part(plan: DataFrame, table: Table, seen: Seen, newest: Mapping[str, int]) -> DataFrame:
    """The part of bronze's plan that is new; Spark takes the condition down to what is read.

    It is one of texts, see `lakehouse.numbers`.
    """
    (feed,) = reading.feeds_of(table)
    arrival, done = F.col("_arrival"), seen.positions.get(feed, 0)
    first, end = beginning(done + 1), beginning(newest[feed] + 1)
    return plan.where((arrival >= first) & (arrival < end))


def _serves_again(table: Table, learned: list[StructField], recall: Recall) -> bool:
    """Whether what was seen of the batch is kept for the next, and is all that it asks for."""
    known = with_learned(table, learned)
    alone = len(reading.feeds_of(table)) == 1 and table.schema_changes.incompatible != "fail"
    return alone and table.format in RECALLING and recalled(known, recall) is not None
