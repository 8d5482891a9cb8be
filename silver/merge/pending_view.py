"""`silver.T_pending` of a current table: what its change log has that is not applied yet, folded.

A view and no table: nothing is written but its text. It reads the batches of the change log from
the one after the newest applied up to the newest shown, which stand in it as numbers, and brings
them to one row per key as the fold does; the table's own row of a key is one of its changes
where it may be newer than what waits. Gold lays the view over the table whenever that is read. So a
change is seen once it is in the log, and the MERGE can wait until it pays (`silver.freshness`).

The text holds no more than what it takes to fold whole, ordinary changes of a table that has met no
others: a key's newest change is its row. What it takes more for is applied at once (`shows`), after
what was shown before it, so that no reader goes back. The numbers make it right at any time: what
is applied and shown as well is shown once, as it is the same.

Only a lake without a catalog has these views: there a run holds its tables' locks and remembers
what it has shown (`lakehouse.run.memory`).
"""

from collections.abc import Sequence

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from lakehouse.storage.names import literal, quote
from lakehouse.storage.views import View, publish, retract, stored
from silver.changelog.order import Placed
from silver.contract import PENDING, waits_in_log
from silver.decode.values.sequences import WIDTH
from silver.fold.order_key import order_literal, order_sql, split_order
from silver.state.batch import TableState
from silver.state.epochs import sequence_sql
from silver.state.summary import Summary
from silver.storage import layout

COMMENT = "changes in the change log of {} that are not applied yet, one row per key"


def until(target: Target, table: Table) -> int:
    """The newest batch of the change log that is shown; 0 when none is."""
    view = stored(target, "silver").get(f"{table.table}{PENDING}")
    return view.until if view else 0


def shows(
    spark: SparkSession,
    target: Target,
    table: Table,
    placed: Placed,
    summary: Summary,
    seen: TableState,
) -> bool:
    """Whether a batch, all of the log above that of `seen`, can be shown by its newest changes.

    Not with changes that lack columns or moved from another key, now or ever, with a truncate, a
    full snapshot, positions that start anew, columns or types that the table has not, or ties.
    """
    batch = placed.batch
    unlike = placed.recomputes or batch.cutoff_is_new or batch.of_whole_keys
    split = bool(summary.incomplete or batch.late) or seen.partial or seen.heirs
    wide = summary.truncates > 0 or len(placed.new.sightings) > len(seen.whole.sightings)
    if unlike or split or wide or _may_tie(summary, seen):
        return False
    kept = names.exists(spark, target, "silver", table.table)
    return kept and _fits(spark, target, table, placed)


def _may_tie(summary: Summary, seen: TableState) -> bool:
    """Whether a change that comes again may be shown in place of the one that won the tie.

    Sources with an order of their own rarely give one key two changes at one sequence.
    """
    return seen.ties or not (summary.oldest or "").strip("0/")


def _fits(spark: SparkSession, target: Target, table: Table, placed: Placed) -> bool:
    held = spark.table(names.name(target, "silver", table.table)).schema
    types = {field.name: field.dataType for field in layout.business(held)}
    return all(types.get(field.name) == field.dataType for field in placed.batch.fields)


def show(
    spark: SparkSession,
    target: Target,
    table: Table,
    placed: Placed,
    summary: Summary,
    seen: TableState,
) -> TableState:
    """Publishes the view of a batch that can be shown; what is known of the table after it."""
    summary = _with_bounds(placed, summary)
    highest = seen.highest or _highest(spark, target, table)
    first, last = summary.first_order, summary.last_order
    overtaken = first if first is not None and first <= highest else None
    columns = [field.name for field in placed.batch.fields]
    log, rows = (names.name(target, "silver", n) for n in (f"{table.table}_changes", table.table))
    changes = changes_sql(table, log, columns, placed, summary, seen.batch)
    keys = f"SELECT {_listed(table.keys)} FROM ({changes})"
    if overtaken is not None:
        changes += f" UNION ALL {held_sql(table, rows, columns, keys, overtaken)}"
    shown = dict.fromkeys([*columns, "_order", "_deleted"])
    comment = COMMENT.format(table.table)
    newest = newest_sql(columns, table.keys, changes)
    view = View(f"{table.table}{PENDING}", shown, comment, tuple(table.keys), newest)
    view = view._replace(of_keys=keys, until=placed.batch.number, since=summary.came)
    publish(spark, target, "silver", [view])
    return seen._replace(waits=summary, highest=max(highest, last or b""))


def hide(target: Target, table: Table) -> None:
    """Takes the view away: all that it showed is applied."""
    if waits_in_log(target, table):
        retract(target, "silver", [f"{table.table}{PENDING}"])


def changes_sql(
    table: Table,
    log: str,
    columns: Sequence[str],
    placed: Placed,
    summary: Summary,
    applied: int,
) -> str:
    """The changes in the log's batches above `applied`: columns, operation, order key.

    `summary` is that of those batches. What its first and last order key tell of all between them
    is not asked of every row.
    """
    sequence, cutoff = _sequence(table, placed, summary), placed.batch.cutoff
    changes = (
        f"SELECT {_listed(columns)}, _operation, {order_sql(sequence)} AS _order"
        f" FROM {log} WHERE _batch > {applied} AND _batch <= {placed.batch.number}"
        " AND _reason IS NULL AND _operation IN ('upsert', 'delete')"
    )
    if cutoff is None or (summary.first_order or b"") > cutoff:
        return changes
    return f"SELECT * FROM ({changes}) WHERE _order > {order_literal(cutoff)}"


def _sequence(table: Table, placed: Placed, summary: Summary) -> str:
    """SQL of a change's sequence: where all are of one epoch, that stands in front of each."""
    if table.format != "debezium":
        return "_sequence"
    bounds = [summary.first_order, summary.last_order]
    first, last = (split_order(order)[0][:WIDTH] if order else "" for order in bounds)
    if first and first == last:
        return f"concat_ws('/', {literal(first)}, _sequence)"
    return sequence_sql(placed.new.epochs)


def held_sql(table: Table, rows: str, columns: Sequence[str], waiting: str, oldest: bytes) -> str:
    """The table's rows of the keys `waiting`, as the changes that made them.

    `oldest` is the first order key that waits: no row below it is newer than what waits of its key.
    """
    same = names.same("held", "waiting", table.keys, table.nullable_keys)
    operation = "CASE WHEN _deleted THEN 'delete' ELSE 'upsert' END AS _operation"
    return (
        f"SELECT /*+ BROADCAST(waiting) */ {_listed(columns)}, {operation}, _order"
        f" FROM {rows} AS held LEFT SEMI JOIN ({waiting}) AS waiting ON {same}"
        f" WHERE held._order >= {order_literal(oldest)}"
    )


def newest_sql(columns: Sequence[str], keys: Sequence[str], changes: str) -> str:
    """The newest of the changes of each key: columns, order key, whether it is a delete."""
    return (
        f"SELECT {_listed(columns)}, _order, _operation = 'delete' AS _deleted FROM ("
        f"SELECT *, row_number() OVER (PARTITION BY {_listed(keys)} ORDER BY _order DESC) AS _place"
        f" FROM ({changes})) WHERE _place = 1"
    )


def _listed(names: Sequence[str]) -> str:
    return ", ".join(map(quote, names))


def _with_bounds(placed: Placed, summary: Summary) -> Summary:
    """The summary with the lowest and highest order key, where its write did not tell them."""
    if summary.first_order is not None or not summary.changes:
        return summary
    bounds = F.min("_order").alias("first"), F.max("_order").alias("last")
    found = placed.batch.changes.agg(*bounds).collect()[0]
    return summary._replace(first_order=bytes(found["first"]), last_order=bytes(found["last"]))


def _highest(spark: SparkSession, target: Target, table: Table) -> bytes:
    """The highest order key of the table; asked once per run."""
    rows = spark.table(names.name(target, "silver", table.table))
    found = rows.agg(F.max("_order").alias("at")).collect()[0]["at"]
    return bytes(found or b"")
