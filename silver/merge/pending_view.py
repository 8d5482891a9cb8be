"""`silver.T_pending`: a view that folds the pending changes in a table's change log.

Only the view's text is written. It reads the batches of the change log after the newest merged one,
up to the newest one to be shown (the text has both numbers), and reduces them to one row per key as
the fold does; the table's own row of a key takes part where it may be newer than the pending
changes. Gold applies the view on top of the table (merge on read). So a change is visible once it
is in the log, or once it is as old as `max_staleness`, and the MERGE is made when it is worth it
(`silver.freshness`).

The text can fold only changes with all columns, in a table that has had no others: a key's newest
change is its row. Other batches are merged at once (`can_show`), after those that are shown, so
that readers never see an older state again. The view is right at any time: a change that is merged
and still shown is the same row twice, and is shown once.
"""

from collections.abc import Sequence

from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.storage import names
from lakehouse.storage.names import literal, quote
from lakehouse.storage.views import View, publish_views, retract_views
from silver.changelog.batch import Batch, Reach
from silver.contract import PENDING, waits_in_log
from silver.decode.values.sequences import WIDTH
from silver.fold.order_key import order_literal, order_sql, sequence_of, split_order
from silver.fold.order_key import sequence_sql as sequence_sql_of
from silver.run import SilverTable
from silver.state.epochs import sequence_sql
from silver.state.summary import Summary, find_now_micros
from silver.state.table_state import TableState

_ORDERED_FORMATS = ("debezium", "ydb")
COMMENT = "changes in the change log of {} that are not applied yet, one row per key"


def can_show(batch: Batch) -> bool:
    """Whether a batch, all of the log that is not merged, can be shown by its newest changes.

    The view takes a key's newest change for its row, and looks at nothing else. So every change
    carries all columns, in the table's types; no truncate, full snapshot or new epoch removes rows
    or reorders them; no row comes from another key; and no two changes of a key share a sequence.
    """
    table, state, kept = batch.table, batch.before, batch.table.kept
    obstacles = (
        not waits_in_log(table.target, table.config),
        batch.reach is not Reach.NEW or batch.cutoff_is_new,
        batch.summary.incomplete or batch.late or state.partial or state.key_changes,
        batch.summary.truncates,
        len(batch.table_changes.snapshot_progress) > len(state.whole.snapshot_progress),
    )
    if any(obstacles) or not kept.exists or _may_tie(batch):
        return False
    types = {field.name: field.dataType for field in kept.business}
    return all(types.get(field.name) == field.dataType for field in batch.fields)


def _may_tie(batch: Batch) -> bool:
    """Whether the view may show a change that loses a tie against an applied one.

    Sources with an order of their own rarely give one key two changes with one sequence. For others
    all pending sequences must be above those of the table; the view handles ties among them.
    """
    table, summary = batch.table, batch.summary
    if batch.before.ties or not (summary.oldest or "").strip("0/"):
        return True
    if table.config.format in _ORDERED_FORMATS:
        return False
    highest, first = _find_highest_order(table, batch.before), summary.first_order
    return first is None or (bool(highest) and sequence_of(first) <= sequence_of(highest))


def show_pending(batch: Batch, state: TableState) -> TableState:
    """Publishes the view of a batch that can be shown; returns the table's new state.

    `state` is the table's state with the batch, of which nothing is merged yet.
    """
    table, keys, format = batch.table, batch.table.config.keys, batch.table.config.format
    summary = _with_bounds(batch)
    first, highest = summary.first_order, _find_highest_order(table, state)
    columns = [field.name for field in batch.fields]
    changes = changes_sql(batch, columns, summary)
    keys_sql = f"SELECT {_join_quoted(keys)} FROM ({changes})"
    if first is not None and first <= highest:
        changes += f" UNION ALL {held_sql(table.config, table.kept.name, columns, keys_sql, first)}"
    since = state.waiting_since or summary.came or find_now_micros()
    with_since = f"SELECT *, timestamp_micros({since}) AS _since FROM ({{}})"
    newest = newest_sql(columns, keys, changes, format not in _ORDERED_FORMATS)
    view = _build_view(table, columns, with_since.format(newest))
    view = view._replace(of_keys=with_since.format(keys_sql), since=since)
    publish_views(table.lake, "silver", [view])
    return state.replace(waits=summary, highest=highest, waiting_since=since, shown=batch.number)


def hide_pending(table: SilverTable) -> None:
    """Makes the view empty: all that it showed is merged.

    In a lake without a catalog the view is removed.
    """
    if not waits_in_log(table.target, table.config):
        return
    if not table.target.catalog:
        retract_views(table.target, "silver", [f"{table.name}{PENDING}"])
        return
    columns = [field.name for field in table.kept.business]
    shown = _join_quoted([*columns, "_order", "_deleted"])
    nothing = f"SELECT {shown}, current_timestamp() AS _since FROM {table.kept.name} WHERE false"
    view = _build_view(table, columns, nothing)
    publish_views(table.lake, "silver", [view])


def _build_view(table: SilverTable, columns: Sequence[str], query: str) -> View:
    shown: dict[str, str | None] = dict.fromkeys([*columns, "_order", "_deleted", "_since"])
    comment = COMMENT.format(table.name)
    return View(f"{table.name}{PENDING}", shown, comment, tuple(table.config.keys), query)


def changes_sql(batch: Batch, columns: Sequence[str], summary: Summary) -> str:
    """The changes in the log's batches that are not merged: columns, operation, order key.

    `summary` is that of those batches. Conditions that its first and last order key decide for all
    rows are left out.
    """
    order = order_sql(_build_sequence_sql(batch, summary))
    changes = (
        f"SELECT {_join_quoted(columns)}, _operation, {order} AS _order, _digest"
        f" FROM {batch.table.log.name}"
        f" WHERE _batch > {batch.before.batch} AND _batch <= {batch.number}"
        " AND _reason IS NULL AND _operation IN ('upsert', 'delete')"
    )
    cutoff = batch.cutoff
    if cutoff is None or (summary.first_order or b"") > cutoff:
        return changes
    return f"SELECT * FROM ({changes}) WHERE _order > {order_literal(cutoff)}"


def _build_sequence_sql(batch: Batch, summary: Summary) -> str:
    """SQL of a change's sequence; a literal epoch in front where all changes have the same."""
    if batch.table.config.format != "debezium":
        return "_sequence"
    bounds = [summary.first_order, summary.last_order]
    first, last = (split_order(order)[0][:WIDTH] if order else "" for order in bounds)
    if first and first == last:
        return f"concat_ws('/', {literal(first)}, _sequence)"
    return sequence_sql(batch.epochs)


def held_sql(table: Table, rows: str, columns: Sequence[str], waiting: str, oldest: bytes) -> str:
    """The table's rows of the keys that the query `waiting` gives, as the changes that made them.

    `oldest` is the lowest pending order key: no row below it is newer than its pending changes.
    """
    same = names.agree_on("held", "waiting", table.keys, table.nullable_keys)
    operation = "CASE WHEN _deleted THEN 'delete' ELSE 'upsert' END AS _operation"
    return (
        f"SELECT /*+ BROADCAST(waiting) */ {_join_quoted(columns)}, {operation}, _order, _digest"
        f" FROM {rows} AS held LEFT SEMI JOIN ({waiting}) AS waiting ON {same}"
        f" WHERE held._order >= {order_literal(oldest)}"
    )


def newest_sql(columns: Sequence[str], keys: Sequence[str], changes: str, ties: bool) -> str:
    """The newest of the changes of each key: columns, order key, whether it is a delete.

    With `ties` a repeated change has the order key of its first delivery.
    """
    rows, order = changes, "_order DESC"
    if ties:
        same = f"{_join_quoted(keys)}, {sequence_sql_of('_order')}, _digest"
        first = f"min(_order) OVER (PARTITION BY {same}) AS _first"
        rows, order = f"SELECT *, {first} FROM ({changes})", "_first DESC, _order"
    return (
        f"SELECT {_join_quoted(columns)}, _order, _operation = 'delete' AS _deleted FROM ("
        f"SELECT *, row_number() OVER (PARTITION BY {_join_quoted(keys)} ORDER BY {order})"
        f" AS _place FROM ({rows})) WHERE _place = 1"
    )


def _join_quoted(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names))


def _with_bounds(batch: Batch) -> Summary:
    """The summary with the lowest and highest order key, also where its write lacks them."""
    summary = batch.summary
    if summary.first_order is not None or not summary.changes:
        return summary
    bounds = F.min("_order").alias("first"), F.max("_order").alias("last")
    row = batch.changes.agg(*bounds).collect()[0]
    return summary.replace(first_order=bytes(row["first"]), last_order=bytes(row["last"]))


def _find_highest_order(table: SilverTable, state: TableState) -> bytes:
    """The highest order key of the table; by a query where the state does not have it."""
    if state.highest is not None:
        return state.highest
    highest = table.kept.read().agg(F.max("_order").alias("at")).collect()[0]["at"]
    return bytes(highest or b"")
