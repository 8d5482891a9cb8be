"""Dead letters tried again: their bronze records decoded anew under today's configuration.

What is good now takes its place at its own sequence, as a pass of its own. Each step can be
repeated, so that a replay that was killed is brought to its end by the next one: the pass's number
is reserved, the changes are joined into the table (again changes nothing), the change log gets the
new decode in place of the old one, and then the letters are resolved. What is still bad gets the
reason of today.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.errors import TableFailed
from lakehouse.run import ledger
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from silver.changelog import bronze_rows, dead_letters, log
from silver.contract import LOG_COLUMNS
from silver.decode.spark import decode_alone
from silver.expectations.gate import gate
from silver.groups.group_repairs import NOT_APPLIED, held_from_replay, pinned
from silver.groups.group_state import held_back, let_through
from silver.maintenance.compare_again import IDENTITY, compare_again
from silver.run import Run, SilverTable
from silver.state import fingerprint
from silver.state.batch import FEW, to_all
from silver.state.summary import Summary, summarize
from silver.state.table_state import TableState, Waiting, read_states
from silver.storage import layout
from silver.storage.row_columns import digest
from silver.storage.stages import sealed
from silver.storage.statements import execute, updating
from silver.table_run import LogPart, run_table
from silver.table_runs import run_tables

_JUDGED = ("_reason", "_message", "_rule")


class Replayed(NamedTuple):
    """How many of a table's dead letters were tried, and how many of them are resolved."""

    table: str
    tried: int
    resolved: int


def replay(
    spark: SparkSession, target: Target, table: Table, wanted: Column, run_id: str
) -> Replayed:
    """Tries the unresolved dead letters of a table again.

    Args:
        spark: the session.
        target: where the lake lies.
        table: the table's configuration as it is now.
        wanted: which of its dead letters, as a condition on their columns.
        run_id: the run.

    Raises:
        ConfigurationDrift: the configuration contradicts what the table was built with.
        TableFailed: not all of its change log is applied.
        AccountMismatch: the classes of the replayed records do not add up.
    """
    if not names.exists(spark, target, "silver", f"{table.table}_dead_letters"):
        return Replayed(table.table, 0, 0)
    if table.format == "snapshot":
        return Replayed(table.table, *compare_again(spark, target, table, wanted, run_id))
    states = read_states(spark, target)
    if states.get(table.table, TableState()).pending:
        _merge_what_waits(spark, target, table, run_id)
        states = read_states(spark, target)
    state = states.get(table.table, TableState())
    fingerprint.check(table, state.built)
    waits = held_from_replay(table, states)
    letters = _unresolved(spark, target, table, waits).where(wanted)
    before = log.reasons(letters)
    if not before:
        return Replayed(table.table, 0, 0)
    if log.newest(spark, target, table) > state.logged or state.logged > state.batch:
        raise TableFailed(table.table, NOT_APPLIED)
    silver_table = SilverTable(Lake(spark, target), table)
    fingerprint.check_types(table, silver_table.log.business)
    state = state.learned(fingerprint.aspects(table))
    few = sum(before.values()) <= FEW
    again = _decoded(silver_table, letters, state, few)
    if waits and not held_back(spark, waits, again).isEmpty():
        raise TableFailed(table.table, NOT_APPLIED)
    summary = summarize(again)
    replaying = _Replaying(silver_table, run_id, datetime.now(timezone.utc), states)
    rows = let_through(spark, waits, log.read(spark, target, table))
    good = _Good(rows, again.where("_reason IS NULL"), few)
    after, counts = _apply(replaying, good, summary, state)
    moved = _moved(before, summary.rejected)
    _correct(spark, target, table, again)
    _resolve(spark, target, table, again, run_id)
    if counts or moved:
        counts = moved | {name: n + moved.get(name, 0) for name, n in counts.items()}
        _note(replaying, pinned(silver_table, states, after), counts)
    tried = sum(before.values())
    return Replayed(table.table, tried, summary.records - sum(summary.rejected.values()))


def _merge_what_waits(spark: SparkSession, target: Target, table: Table, run_id: str) -> None:
    run = Run(run_id, _be_silent)
    run.memory.merge_all = True
    (entry,) = run_tables(run, Lake(spark, target), [table])
    if entry.message is not None:
        raise TableFailed(table.table, entry.message)


def _decoded(
    silver_table: SilverTable, letters: DataFrame, state: TableState, few: bool
) -> DataFrame:
    """The records of dead letters as the change log would have them today.

    What is good gets the number of the next batch, what is still bad keeps its own. A replay that
    was killed may have left a record of a letter good in the log already. `few` says that every
    task may hold which they are.
    """
    spark, target, table = silver_table.spark, silver_table.target, silver_table.config
    wanted, batch = to_all(letters.select(*IDENTITY), few), state.logged + 1
    held = log.read(spark, target, table).join(wanted, IDENTITY, "left_semi")
    spans = held.groupBy("_feed").agg(
        F.min("_feed_batch").alias("first"), F.max("_feed_batch").alias("last")
    )
    parts = [
        bronze_rows.between(spark, target, table, row["_feed"], row["first"], row["last"]).join(
            wanted, IDENTITY, "left_semi"
        )
        for row in spans.collect()
    ]
    learned, shown = silver_table.log.business, state.built
    raw = reduce(DataFrame.unionByName, parts)
    schemas = bronze_rows.avro_schemas(spark, target, table)
    changes = sealed(gate(decode_alone(raw, table, learned, shown, schemas), table))
    fields = layout.business(changes.schema)
    layout.ensure_table(silver_table.log, fields, LOG_COLUMNS)
    columns = [f.name for f in fields if f.name not in table.keys]
    grown = log.read(spark, target, table).join(wanted, IDENTITY, "left_semi")
    known = to_all(grown.select(*IDENTITY, F.col("_batch").alias("_held"), "_source_log"), few)
    number = F.when(F.col("_reason").isNull(), F.lit(batch)).otherwise(F.col("_held"))
    whole = changes.drop("_source_log").withColumn("_digest", digest(columns))
    whole = whole.join(known, IDENTITY)
    return whole.withColumn("_batch", number.cast("bigint")).drop("_held")


def _unresolved(
    spark: SparkSession, target: Target, table: Table, waits: Sequence[Waiting]
) -> DataFrame:
    """The letters but those of transactions that wait: these are not applied either."""
    name = dead_letters.ensure(spark, target, table)
    letters = spark.table(name).where("resolved_at IS NULL")
    if waits:
        held = held_back(spark, waits, log.read(spark, target, table))
        letters = letters.join(held.select(*IDENTITY), IDENTITY, "left_anti")
    return letters.withColumn("_reason", F.col("reason"))


class _Replaying(NamedTuple):
    """A replay: the table, the run, when it began, and what is known of all tables."""

    table: SilverTable
    run_id: str
    started: datetime
    states: Mapping[str, TableState]


class _Good(NamedTuple):
    """The applied part of the change log, and the records that are good now, maybe a `few`."""

    applied: DataFrame
    records: DataFrame
    few: bool

    def log(self) -> DataFrame:
        """The applied part of the log with the good records in place of their dead letters."""
        known = to_all(self.records.select(*IDENTITY), self.few)
        others = self.applied.join(known, IDENTITY, "left_anti")
        return others.unionByName(self.records, allowMissingColumns=True)


def _apply(
    replaying: _Replaying, good: _Good, summary: Summary, state: TableState
) -> tuple[TableState, dict[str, int]]:
    """Joins what is good now into the table.

    The number of the batch is reserved first, with what the batch brings of changes that lack
    columns: a replay that was killed is known to have begun.

    Returns:
        What is known of the table then, and what became of the records, by outcome.
    """
    if summary.records == sum(summary.rejected.values()):
        return state, {}
    after = state.replace(logged=state.logged + 1, waits=None)
    notes = {"incomplete": summary.incomplete, "heirs": summary.heirs}
    reserved = {name: n for name, n in notes.items() if n}
    met = {
        "partial": state.partial or summary.incomplete > 0,
        "heirs": state.heirs or summary.heirs > 0,
    }
    _note(replaying, state.replace(batch=after.logged, logged=after.logged, **met), reserved)
    part = LogPart(good.log(), state, after)
    done = run_table(Run(replaying.run_id, _be_silent), replaying.table, part)
    counts = {n: count for n, count in done.counts.items() if n not in reserved}
    return done.state, counts | {"records": 0}


def _be_silent(_: str) -> None:
    """A replay shows its own progress."""


def _moved(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """How the dead letters of each reason got more or fewer; nothing where none was resolved."""
    found = {r: after.get(r, 0) - before.get(r, 0) for r in {*before, *after}}
    moved = {f"dead_letter:{reason}": n for reason, n in found.items() if n}
    resolved = sum(before.values()) - sum(after.values())
    return moved | ({"replayed": resolved} if resolved else {})


def _correct(spark: SparkSession, target: Target, table: Table, again: DataFrame) -> None:
    """Puts the new decode in place of the old one in the change log: one row per record as ever."""
    name = names.name(target, "silver", f"{table.table}_changes")
    rows = spark.table(name)
    missing = [f for f in rows.schema.fields if f.name not in again.columns]
    given = again.select("*", *[F.lit(None).cast(f.dataType).alias(f.name) for f in missing])
    same = " AND ".join(f"t.{c} <=> s.{c}" for c in _JUDGED)
    text = (
        f"MERGE INTO {name} t USING {{rows}} s ON {dead_letters.SAME} AND t._reason IS NOT NULL"
        f" WHEN MATCHED AND NOT ({same}) THEN {updating(rows.columns)}"
    )
    execute(spark, text, given.select(*[F.col(names.quote(f.name)) for f in rows.schema.fields]))


def _resolve(
    spark: SparkSession, target: Target, table: Table, again: DataFrame, run_id: str
) -> None:
    """Marks the letters that are good now; the others get today's reason."""
    name = names.name(target, "silver", f"{table.table}_dead_letters")
    given = again.select(*IDENTITY, *_JUDGED)
    now = f"resolved_at = current_timestamp(), resolved_by = {names.literal(run_id)}"
    today = ", ".join(f"{c} = s._{c}" for c in ("reason", "message", "rule"))
    text = (
        f"MERGE INTO {name} t USING {{rows}} s ON {dead_letters.SAME} AND t.resolved_at IS NULL"
        f" WHEN MATCHED AND s._reason IS NULL THEN UPDATE SET {now}"
        " WHEN MATCHED AND NOT (t.reason <=> s._reason AND t.message <=> s._message)"
        f" THEN UPDATE SET {today}"
    )
    execute(spark, text, given)


def _note(replaying: _Replaying, state: TableState, counts: dict[str, int]) -> None:
    table = replaying.table
    entry = ledger.told(replaying.run_id, "silver", table.name, replaying.started)
    done = entry.done(counts, state.batch, state.positions)
    entries = [done.model_copy(update={"state": state.to_text()})]
    ledger.append(table.spark, table.target, entries)
