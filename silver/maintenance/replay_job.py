"""Replays the dead letters of many tables; a failure stops no other."""

from collections.abc import Callable, Sequence
from datetime import datetime, timezone

from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import in_short
from lakehouse.spark.spark_failures import TABLE_FAILURES
from lakehouse.storage import names
from silver.changelog.dead_letter_list import Wanted, condition
from silver.maintenance.replay import Replayed, replay

Progress = Callable[[str], None]


def replay_all(
    spark: SparkSession,
    target: Target,
    tables: Sequence[Table],
    wanted: Wanted,
    run_id: str,
    progress: Progress,
) -> tuple[list[Replayed], list[Entry]]:
    """Tries the wanted unresolved dead letters of the tables again.

    Returns:
        What became of each table's dead letters, and an entry for each table that failed.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    done, failed = [], []
    for table in tables:
        progress(f"replay {table.table}")
        started = datetime.now(timezone.utc)
        if not names.exists(spark, target, "silver", f"{table.table}_dead_letters"):
            continue
        try:
            chosen = condition(spark, target, table, wanted)
            done.append(replay(spark, target, table, chosen, run_id))
        except ConfigurationError:
            raise
        except TABLE_FAILURES as failure:
            message = in_short(failure)
            failed.append(ledger.told(run_id, "silver", table.table, started, message))
    return done, failed
