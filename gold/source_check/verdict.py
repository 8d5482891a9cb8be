"""`verify --source`: which differences from a source database are real, and which in flight.

Gold is read first and the source after it, so the source is never the older one. A difference is in
flight when the source's row was written by a transaction that the table had not applied when gold
was read (PostgreSQL names it: `xmin`). A row that gold alone has was deleted at the source: nothing
tells by whom. It is real when the table has applied a change from beyond the place where the
write-ahead log was when the row was found missing; as long as it has not, it is in flight. So what
is open is compared again after a pause. Of other databases nothing tells: what still differs then
is real. Of a source at rest, all of whose changes are applied, every difference is real.
"""

import time
from collections.abc import Mapping, Sequence
from functools import partial
from typing import NamedTuple

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from gold.source_check.database import connected, find
from gold.source_check.digests import Difference, compare, differences
from gold.source_check.plan import name_at_source, planned
from gold.views import catalog
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import TableFailed
from lakehouse.run import ledger
from lakehouse.storage import names

PAUSE, ROUNDS = 5.0, 2


class Verdict(NamedTuple):
    """What a comparison came to: rows on both sides, and the differences of both sorts."""

    source: str
    gold_rows: int
    source_rows: int
    compared: tuple[str, ...]
    left_out: tuple[str, ...]
    real: list[Difference]
    in_flight: list[Difference]


class Applied(NamedTuple):
    """The part of a change log that a reading of gold can show: up to a batch."""

    log: DataFrame | None
    batch: int


class SourceDatabase(NamedTuple):
    """The database to compare with; the table's name there, where the topics do not tell it.

    `at_rest` says that nothing is written there, and that everything is applied.
    """

    url: str
    named: str | None = None
    at_rest: bool = False


def verdict(
    spark: SparkSession, target: Target, table: Table, given: SourceDatabase, pause: float = PAUSE
) -> Verdict:
    """Compares gold's rows of a table with its source database.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration.
        given: the database.
        pause: seconds before what is open is compared again.
    """
    before, shown = applied(spark, target, table), published(spark, target, table)
    with connected(given.url, table.table) as connection:
        source = find(connection, table, given.named)
        _check_keys(table, source.types)
        plan = planned(table, source.name, source.types, shown.columns)
        found = compare(shown, connection, source.side, plan)
        place = source.side.position(connection)
        first = list(differences(shown, connection, source.side, plan, found.ids))
    judge = partial(judged, at_rest=given.at_rest, place=place)
    real, open_ = judge(first, before)
    for _ in range(ROUNDS - 1 if open_ else 0):
        time.sleep(pause)
        before, shown = applied(spark, target, table), published(spark, target, table)
        with connected(given.url, table.table) as connection:
            ids = sorted({each.id for each in open_})
            again = list(differences(shown, connection, source.side, plan, ids))
        newly, open_ = judge(again, before)
        real += newly
    if place is None:
        real, open_ = [*real, *open_], []
    compared = tuple(c.name for c in plan.columns)
    return Verdict(plan.source, found.gold, found.source, compared, plan.left_out, real, open_)


def _check_keys(table: Table, types: Mapping[str, str]) -> None:
    """Raises TableFailed where the keys of gold and of the source cannot be told to be the same."""
    for key in table.keys:
        if name_at_source(table, key, types) not in types:
            raise TableFailed(table.table, f"its key {key} is no column of the source's table")
        if table.is_sensitive(key):
            raise TableFailed(table.table, f"gold does not show its key {key}, which is sensitive")


def published(spark: SparkSession, target: Target, table: Table) -> DataFrame:
    """Gold's rows of a table as of now.

    Raises:
        TableFailed: gold does not show it.
    """
    rows = catalog.read(spark, target, table.table)
    if rows is None:
        raise TableFailed(table.table, "gold does not show it yet; `lakehouse run` publishes it")
    return rows


def applied(spark: SparkSession, target: Target, table: Table) -> Applied:
    """The change log that gold shows now."""
    runs = ledger.read(spark, target).where("layer = 'silver' AND status = 'ok'")
    row = runs.where(F.col("table") == table.table).agg(F.max("batch").alias("batch")).first()
    log = f"{table.table}_changes"
    held = names.exists(spark, target, "silver", log)
    rows = spark.table(names.name(target, "silver", log)) if held else None
    return Applied(rows, int(row["batch"] or 0) if row else 0)


def judged(
    found: Sequence[Difference], before: Applied, at_rest: bool, place: int | None
) -> tuple[list[Difference], list[Difference]]:
    """Differences that are real, and those that are still open."""
    if at_rest or not found or before.log is None:
        return list(found), []
    if place is None:
        return [], list(found)
    writers = sorted({each.written_by for each in found if each.written_by is not None})
    return parted(found, _known(before.log.where(F.col("_batch") <= before.batch), writers), place)


def parted(
    found: Sequence[Difference], known: "LogKnowledge", place: int
) -> tuple[list[Difference], list[Difference]]:
    """The same, by what the change log knows; `place` is where the source's own log was."""
    if known.reached >= place:
        return list(found), []
    real = [each for each in found if each.written_by is not None and known.has(each.written_by)]
    return real, [each for each in found if each not in real]


class LogKnowledge(NamedTuple):
    """What a change log knows of its source: how far it reached, and whose changes it holds."""

    reached: int
    writers: frozenset[str]
    snapshot: int

    def has(self, writer: str) -> bool:
        """Whether a transaction's changes are in there, itself or in a snapshot taken later."""
        return writer in self.writers or int(writer) < self.snapshot


def _known(log: DataFrame, writers: Sequence[str]) -> LogKnowledge:
    number = F.col("_transaction").try_cast("bigint")
    row = log.agg(
        F.max(F.substring("_sequence", 1, 16)).alias("reached"),
        F.max(F.when(F.col("_snapshot").isNotNull(), number)).alias("snapshot"),
        F.collect_set(
            F.when(F.col("_transaction").isin(list(writers)), F.col("_transaction"))
        ).alias("writers"),
    ).first()
    if row is None:
        return LogKnowledge(0, frozenset(), 0)
    return LogKnowledge(
        int(row["reached"] or "0", 16), frozenset(row["writers"]), row["snapshot"] or 0
    )
