"""Puts the new part of the change log in order, and notices when that order reaches back.

A batch is applied on its own as long as it only adds to the order. A full snapshot that turns out
to have begun before changes that are applied already, or a change of an old key that arrives after
the key change that took a value from it, changes the past: then the table is recomputed from its
whole log. Tables whose columns have orders of their own, and those that keep deleted rows in sight
and receive partial changes, have the keys of each batch recomputed: what a row held before its last
delete is not stored.
"""

from typing import NamedTuple

from pyspark.sql import DataFrame
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.errors import TruncateRefused
from silver.changelog import key_changes, log
from silver.decode.expressions.names import grouped_columns
from silver.fold.rules import Cutoff
from silver.state import snapshots
from silver.state.batch import Batch, keyed, of_keys, ordered
from silver.state.epochs import Epoch, epoch
from silver.state.snapshots import TableChanges
from silver.state.summary import Summary, summarize
from silver.state.table_state import TableState
from silver.storage import layout
from silver.storage.row_columns import column
from silver.storage.stages import apart


class Placed(NamedTuple):
    """A batch in order; whether it replaces the table; the table-wide changes with its own.

    `judged` are the log rows among which its dead letters are.
    """

    batch: Batch
    recomputes: bool
    new: TableChanges
    judged: DataFrame


def place(
    table: Table,
    rows: DataFrame,
    seen: TableState,
    after: TableState,
    summary: Summary,
    recomputes: bool = False,
) -> Placed:
    """Orders the log rows above the batch of `seen`, or the whole log where they change the past.

    Args:
        table: the table's configuration.
        rows: the change log up to the newest batch of `after`.
        seen: what the table has applied.
        after: what is known with the batch, and the places where the source's positions start anew.
        summary: what the rows above the batch of `seen` hold.
        recomputes: whether the whole log is ordered, whatever the new rows are.

    Raises:
        TruncateRefused: the source truncated the table and `on_truncate` is `fail`.
    """
    if summary.truncates and table.on_truncate == "fail":
        raise TruncateRefused(table.table)
    newest, known = after.logged, seen.whole
    anew = [sighting for sighting in after.whole.sightings if sighting not in known.sightings]
    summary = summary.replace(sightings=[*anew, *summary.sightings])
    whole = TableChanges([*known.sightings, *summary.sightings], known.truncates)
    if recomputes or _reaches_back(table, rows, whole.epochs, seen, summary):
        return _recomputing(table, rows, seen, newest, summary)
    placed = _appended(table, rows, seen, newest, summary)
    if not needs_whole_keys(table, placed.batch.seen_partial or summary.incomplete > 0):
        return placed
    if placed.batch.cutoff_is_new and seen.batch:
        return _recomputing(table, rows, seen, newest, summary)
    return _with_whole_keys(table, rows, seen, placed, summary)


def needs_whole_keys(table: Table, partial: bool) -> bool:
    """Whether a batch brings all changes of its keys together; `partial`: some lack columns."""
    if not table.keys:
        return False
    flagged = table.on_delete == "flag" and table.stored_as_scd_type == 1
    return bool(table.sequence_groups) or (flagged and partial)


def new_rows(rows: DataFrame, seen: TableState) -> DataFrame:
    """The log rows above the batch of `seen`."""
    return apart(rows.where(F.col("_batch") > seen.batch))


def _appended(
    table: Table, rows: DataFrame, seen: TableState, newest: int, summary: Summary
) -> Placed:
    """The new rows as a batch of their own."""
    sightings = [*seen.whole.sightings, *summary.sightings]
    epochs = TableChanges(sightings, []).epochs
    new = ordered(new_rows(rows, seen), table, epochs)
    cut = snapshots.truncates(new) if summary.truncates else []
    changed = TableChanges(sightings, _united(seen.whole.truncates, cut))
    applies = table.on_truncate == "apply"
    cutoffs = changed.cutoffs(applies)
    changes, late = keyed(new).withColumn("_new", F.lit(True)), log.late_columns(table, rows)
    if summary.heirs and table.keys:
        everything = keyed(ordered(rows, table, epochs))
        changes = key_changes.with_old_keys(changes, everything, table)
    if not table.keys and seen.batch and summary.oldest is not None:
        earlier = rows.where(F.col("_batch") <= seen.batch)
        since = earlier.where(F.col("_sequence") >= summary.oldest)
        changes = _with_equal_places(changes, _marked(keyed(ordered(since, table, epochs)), seen))
    batch = Batch(
        number=newest,
        changes=changes,
        fields=layout.business(rows.schema),
        partial=_partial(table, rows, summary),
        cutoffs=cutoffs,
        cutoff_is_new=cutoffs != seen.whole.cutoffs(applies),
        seen_partial=seen.partial or bool(late),
        late=late,
        size=summary.changes,
        first=summary.first_order,
        new=summary.changes,
    )
    return Placed(batch, False, changed, new_rows(rows, seen))


def _recomputing(
    table: Table, rows: DataFrame, seen: TableState, newest: int, summary: Summary
) -> Placed:
    """The whole log as a batch that replaces the table."""
    whole, sightings = summarize(rows), [*seen.whole.sightings, *summary.sightings]
    everything = ordered(rows, table, TableChanges(sightings, []).epochs)
    cut = snapshots.truncates(everything) if whole.truncates else []
    changed = TableChanges(sightings, _united([], cut))
    cutoffs = changed.cutoffs(table.on_truncate == "apply")
    changes = _marked(keyed(everything), seen)
    if whole.heirs and table.keys:
        changes = key_changes.with_old_keys(changes, changes, table)
    fields, partial = layout.business(rows.schema), _partial(table, rows, whole)
    late, size = log.late_columns(table, rows), whole.changes
    batch = Batch(newest, changes, fields, partial, cutoffs, True, False, True, late, size)
    return Placed(batch._replace(new=summary.changes), True, changed, rows)


def _with_whole_keys(
    table: Table, rows: DataFrame, seen: TableState, placed: Placed, summary: Summary
) -> Placed:
    """The same batch with all changes of its keys."""
    everything = _marked(keyed(ordered(rows, table, placed.new.epochs)), seen)
    touched = keyed(new_rows(rows, seen)).select(*[column(k) for k in table.keys]).distinct()
    changes = of_keys(everything, touched, table)
    if seen.heirs or summary.heirs:
        changes = key_changes.with_old_keys(changes, everything, table)
    batch = placed.batch._replace(changes=changes, of_whole_keys=True, first=None)
    return placed._replace(batch=batch)


def _with_equal_places(changes: DataFrame, earlier: DataFrame) -> DataFrame:
    """Changes without a key and the earlier ones at their places in order.

    Equal rows at one place are counted together.
    """
    places = changes.where("_snapshot IS NULL").select("_sequence")
    return changes.unionByName(earlier.join(places, "_sequence", "left_semi"))


def _marked(changes: DataFrame, seen: TableState) -> DataFrame:
    return changes.withColumn("_new", F.col("_batch") > seen.batch)


def _united(known: list[Cutoff], found: list[Cutoff]) -> list[Cutoff]:
    return sorted({*known, *found}, key=lambda each: each.order)


def _partial(table: Table, rows: DataFrame, summary: Summary) -> list[str]:
    fields = {f.name for f in layout.business(rows.schema)}
    return sorted({*summary.partial, *(fields & {*grouped_columns(table)})})


def _reaches_back(
    table: Table, rows: DataFrame, after: list[Epoch], seen: TableState, summary: Summary
) -> bool:
    if table.format != "debezium" or seen.batch == 0:
        return False
    before, earlier = seen.whole.epochs, rows.where(F.col("_batch") <= seen.batch)
    if _begins(before) != _begins(after) and _moves(earlier, before, after):
        return True
    if not table.keys or not seen.heirs:
        return False
    pending = rows.where(F.col("_batch") > seen.batch)
    old, new = (keyed(ordered(part, table, after)) for part in (earlier, pending))
    return key_changes.are_overtaken(old, new, table)


def _begins(epochs: list[Epoch]) -> list[tuple[str, int, int | None, dict[str, str]]]:
    return [(e.snapshot, e.number, e.started, e.first) for e in epochs]


def _moves(earlier: DataFrame, before: list[Epoch], after: list[Epoch]) -> bool:
    """Whether some applied change belongs to another epoch now."""
    changes = earlier.where(F.col("_operation") != "none")
    return not changes.where(epoch(before) != epoch(after)).isEmpty()
