"""A table's change log brought up to bronze: what is new there is decoded, gated and added."""

from collections.abc import Mapping

from pyspark.sql import SparkSession

from lakehouse.spark_failures import SPARK_FAILURES
from lakehouse.table import Table
from lakehouse.target import Target
from silver import built, lateness, layout, log, reading, schema_drift
from silver.batch import Seen
from silver.debezium_recall import is_unlike
from silver.decode import Recall, decode
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
    raw = reading.unread(spark, target, table, seen.positions, newest)
    learned = layout.learned(spark, target, table)
    built.check_types(spark, table, learned)

    def add() -> Summary | None:
        changes = decode(raw, table, learned, recall)
        schema_drift.follow(spark, target, table, raw, changes, seen.built, run_id)
        gated, number = gate(changes, table), seen.batch + 1
        return log.append(spark, target, table, gated, number, seen.whole.epochs)

    try:
        summary = add()
    except SPARK_FAILURES as failure:
        if recall is None or not is_unlike(failure):
            raise
        del recall[table.table]
        summary = add()
    if lateness.reject(spark, target, table, seen.batch, seen.horizon, applied):
        summary = None
    after = seen._replace(batch=seen.batch + 1, positions=dict(seen.positions) | dict(newest))
    return after, summary
