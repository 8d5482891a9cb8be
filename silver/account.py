"""What became of every record of a pass: each is in exactly one class, and the classes add up.

`inserted`, `updated`, `deleted` and `delete_unknown` (there was no row) changed what the table
shows; `superseded` lost against a newer change; `duplicate` had been delivered before; `late` came
after a newer change of its key had been applied, and was woven into the history or gave a row the
columns that nothing newer carries. `truncate`, `without_change` and `dead_letter:<reason>` are what
they say. A table with a history applies every change in its turn; of a table without one, only the
newest change of a key in a pass is applied and the others are superseded. The classes are those of
the order as it is known after the pass. Records that an earlier pass has counted as `pending` (see
`silver.deferral`) are no records again: they are taken off what is pending.
"""

from collections.abc import Mapping
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse import names
from lakehouse.errors import AccountMismatch
from lakehouse.table import Table
from lakehouse.target import Target
from silver.batch import Seen, keyed
from silver.row_columns import column
from silver.contract import ACCOUNT_NOTES, DELETE, UPSERT
from silver.epochs import position
from silver.lives import without_repeats
from silver.order import Placed
from silver.summary import Summary

_NO_CLASS = ("forgotten", "replaced")
_OF_ANY_ORDER = ("rows", "bigquery")


class Arrived(NamedTuple):
    """Of a pass's upserts and deletes: those delivered for the first time, and ties among them."""

    first: int = 0
    ties: int = 0


def classes(
    spark: SparkSession,
    target: Target,
    table: Table,
    placed: Placed,
    summary: Summary,
    arrived: Arrived,
    seen: Seen,
) -> dict[str, int]:
    """Counts the records of a pass by class.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration.
        placed: the pass as it was applied.
        summary: what its records are.
        arrived: how many of them are new.
        seen: what was applied before.

    Returns:
        The classes that occur; beside them `records`, their sum, and the notes: changes without all
        columns, those that moved from another key, and ties broken by arrival.

    Raises:
        AccountMismatch: the classes do not add up to the records.
    """
    counts = {f"dead_letter:{reason}": n for reason, n in summary.rejected.items()}
    counts |= {"truncate": summary.truncates, "without_change": summary.without_change}
    notes = {"incomplete": summary.incomplete, "heirs": summary.heirs}
    if summary.changes:
        counts |= _changes(spark, target, table, placed, summary, arrived, seen)
        notes["ties"] = arrived.ties
    check(table.table, summary.records, counts)
    counts["pending"] = -seen.pending
    kept = {name: n for name, n in (counts | notes).items() if n}
    return {"records": summary.records - seen.pending} | kept


def check(table: str, records: int, counts: dict[str, int]) -> None:
    """Raises AccountMismatch unless the classes add up to the records and none is negative."""
    known = {name: n for name, n in counts.items() if name not in ACCOUNT_NOTES}
    if sum(known.values()) != records or min(known.values(), default=0) < 0:
        raise AccountMismatch(table, records, known)


def _changes(
    spark: SparkSession,
    target: Target,
    table: Table,
    placed: Placed,
    summary: Summary,
    arrived: Arrived,
    seen: Seen,
) -> dict[str, int]:
    """The classes of a pass's upserts and deletes."""
    told = _told(placed, summary, seen)
    if told is not None:
        found = dict(told)
    elif placed.refold and table.stored_as_scd_type == 1 and table.keys:
        found = _counted(_refolded(placed, table.keys, seen))
    else:
        found = _counted(_written(spark, target, table, seen.batch))
    late, lost = found.pop("late", 0), found.pop("superseded", 0)
    applied = {kind: n for kind, n in found.items() if kind not in _NO_CLASS}
    first = max(arrived.first, sum(applied.values()))
    late = min(late, first - sum(applied.values()))
    lost = max(lost, first - sum(applied.values()) - late)
    return applied | {"late": late, "superseded": lost, "duplicate": summary.changes - first}


def may_tie(table: Table, summary: Summary, seen: Seen) -> bool:
    """Whether `turns_a_tie` is worth asking before the pass is applied.

    Sources that have an order of their own rarely give one key two changes at one place.
    """
    without_order = not (summary.oldest or "").strip("0/")
    expected = seen.ties or table.format in _OF_ANY_ORDER or without_order
    return expected and _knows_one_change(table)


def turns_a_tie(table: Table, summary: Summary, arrived: Arrived, seen: Seen) -> bool:
    """Whether a change that came again may win against another one of its key and sequence.

    In a current table: a history and a table without keys know by themselves what came before.
    """
    repeats = arrived.first < summary.changes
    return repeats and (seen.ties or arrived.ties > 0) and _knows_one_change(table)


def _knows_one_change(table: Table) -> bool:
    return table.stored_as_scd_type == 1 and bool(table.keys)


def arrivals(table: Table, rows: DataFrame, done: int, summary: Summary) -> Arrived:
    """What is new among a pass's changes; asks the change log alone, so it needs no effect of them.

    Only earlier records from the pass's oldest sequence on can be the same change. Rows of a full
    snapshot of a table without keys share one sequence and may be equal: each is its own.

    Args:
        table: the table's configuration.
        rows: the change log up to the pass, which begins above the batch `done`.
        done: the newest batch that was applied before.
        summary: what the records of the pass are.
    """
    if not summary.changes:
        return Arrived()
    changes = keyed(rows.where(F.col("_reason").isNull()))
    new = F.col("_batch") > done
    near = changes.where(new | (F.col("_sequence") >= F.lit(summary.oldest)))
    own = F.when(F.col("_snapshot").isNotNull(), position())
    named = near.withColumns({"_is_new": new.cast("int"), "_own": own})
    keys = [column(k) for k in table.keys]
    place = [*(keys or [F.col("_digest"), F.col("_own")]), F.col("_sequence")]
    identity = ["_operation", *(["_digest"] if keys else [])]
    each = named.repartition(*place).groupBy(*place, *identity)
    known = each.agg(F.min("_is_new").alias("first"), F.max(1 - F.col("_is_new")).alias("old"))
    at_place = known.groupBy(*place).agg(
        F.sum("first").alias("first"),
        (F.count(F.lit(1)) - F.greatest(F.sum("old"), F.lit(1))).alias("ties"),
    )
    found = at_place.agg(F.sum("first").alias("first"), F.sum("ties").alias("ties")).collect()[0]
    return Arrived(int(found["first"] or 0), int(found["ties"] or 0))


def first(table: Table, rows: DataFrame, placed: Placed, summary: Summary) -> Arrived:
    """The same of a table's first pass.

    Where its write told of as many rows as there are changes, each of them has a key of its own.
    """
    told = placed.batch.told or []
    if len(told) == 1 and sum(told[0].values()) == summary.changes:
        return Arrived(summary.changes)
    return arrivals(table, rows, 0, summary)


def _told(placed: Placed, summary: Summary, seen: Seen) -> Mapping[str, int] | None:
    """What the one write of a pass told, where none before it left rows of later batches.

    A pass that was killed leaves its changes in the log. So there was none where this pass wrote
    all that the log holds beyond what is applied, or the run has applied all up to there itself.
    """
    told, ours = placed.batch.told or [], placed.batch.number == seen.batch + 1
    sure = summary.came is not None and (ours or seen.took is not None)
    return told[0] if sure and len(told) == 1 else None


def _counted(rows: DataFrame) -> dict[str, int]:
    return {row["kind"]: int(row["count"]) for row in rows.groupBy("kind").count().collect()}


def _written(spark: SparkSession, target: Target, table: Table, done: int) -> DataFrame:
    """What became of each row that the pass wrote, its `kind`."""
    history = table.stored_as_scd_type == 2
    name = f"{table.table}_history" if history else table.table
    rows = spark.table(names.name(target, "silver", name)).where(F.col("_batch") > done)
    return rows.select(F.col("_class").alias("kind"))


def _refolded(placed: Placed, keys: list[str], seen: Seen) -> DataFrame:
    """What became of each key's newest change where the table was folded anew."""
    new = F.col("_batch") > seen.batch
    state = F.struct("_stamp", "_operation", "_batch")
    upserted = F.when(new & (F.col("_operation") == UPSERT), F.col("_stamp"))
    once = without_repeats(placed.batch.changes, keys)
    by_key = once.groupBy(*[column(k) for k in keys]).agg(
        F.max(state).alias("now"),
        F.max(F.when(~new, state)).alias("before"),
        F.max(upserted).alias("upserted"),
    )
    floors = seen.whole.floors(True)
    was = F.coalesce(_live(F.col("before"), floors[-1].stamp if floors else None), F.lit(False))
    came = F.coalesce(F.col("upserted") > F.coalesce("before._stamp", F.lit("")), F.lit(False))
    deleted = F.col("now._operation") == DELETE
    kind = F.when(deleted, F.when(was | came, "deleted").otherwise("delete_unknown"))
    kind = F.coalesce(kind, F.when(was, "updated").otherwise("inserted"))
    won = by_key.where(F.col("now._batch") > seen.batch)
    if placed.batch.floor is not None:
        won = won.where(F.col("now._stamp") > placed.batch.floor)
    return won.select(kind.alias("kind"))


def _live(state: Column, floor: str | None) -> Column:
    live = state["_operation"] != DELETE
    return live if floor is None else live & (state["_stamp"] > floor)
