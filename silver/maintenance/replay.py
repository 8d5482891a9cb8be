"""Replays dead letters: their bronze records are decoded again with today's configuration.

Records that are good now are applied at their own sequence, by a table run of their own. Each step
can be repeated, so that the next replay completes one that was killed: the number of the batch is
reserved, the changes are folded into the table (twice is the same as once), the change log gets the
new decoded rows in place of the old ones, and then the letters are resolved. Letters that are still
bad get today's reason.

What a snapshot row changes follows from a comparison with the state before. So a replay of a
snapshot table decodes all rows of the dates again, and replaces their earlier outcome.
"""

from collections.abc import Mapping, Sequence
from datetime import datetime, timezone
from functools import reduce
from typing import NamedTuple

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

from bronze.contract import arrival_sql
from lakehouse.config.table import Table
from lakehouse.errors import ConfigurationError, TableFailed
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from lakehouse.storage.statements import execute_with_rows, render_update
from silver.changelog import bronze_rows, dead_letters, log
from silver.changelog.batch import Batch
from silver.changelog.dead_letter_list import Wanted, build_condition
from silver.contract import LOG_COLUMNS
from silver.decode.facts import FACTS
from silver.decode.protocols.snapshot_files import day_of_sequence
from silver.decode.spark import decode_alone
from silver.expectations.gate import gate_changes
from silver.groups.group_repairs import NOT_APPLIED, find_waiting_transactions, pin_current
from silver.groups.transactions import remove_waiting, select_waiting
from silver.run import Progress, Run, SilverTable, be_silent
from silver.snapshot_source.snapshot_run import apply_snapshot_files
from silver.state import fingerprint
from silver.state.summary import Summary, summarize
from silver.state.table_state import TableState, WaitingTransaction, read_states
from silver.storage import layout
from silver.storage.row_columns import FEW, hash_change, to_all
from silver.storage.stages import add_plan_barrier
from silver.table_run import run_table
from silver.table_runs import run_tables

IDENTITY = ["_feed", "_arrival"]
_JUDGED = ("_reason", "_message", "_rule")


class Replayed(NamedTuple):
    """How many of a table's dead letters were tried, and how many of them are resolved."""

    table: str
    tried: int
    resolved: int


def replay_all(
    lake: Lake, tables: Sequence[Table], wanted: Wanted, run_id: str, progress: Progress
) -> tuple[list[Replayed], list[Entry]]:
    """Tries the wanted unresolved dead letters of the tables again; a failure stops no other table.

    Returns:
        What became of each table's dead letters, and an entry for each table that failed.

    Raises:
        ConfigurationError: a value of the key is none of its column's type.
    """
    done, failed = [], []
    for config in tables:
        progress(f"replay {config.table}")
        started, table = datetime.now(timezone.utc), SilverTable(lake, config)
        if not table.dead_letters.exists:
            continue
        try:
            done.append(replay_table(table, build_condition(table, wanted), run_id))
        except ConfigurationError:
            raise
        except TABLE_FAILURES as failure:
            message = describe_failure(failure)
            failed.append(ledger.make_entry(run_id, "silver", config.table, started, message))
    return done, failed


def replay_table(table: SilverTable, wanted: Column, run_id: str) -> Replayed:
    """Tries the unresolved dead letters of a table again.

    Args:
        table: the table, with its configuration as it is now.
        wanted: which of its dead letters, as a condition on their columns.
        run_id: the run.

    Raises:
        ConfigurationDrift: the configuration contradicts what the table was built with.
        TableFailed: not all of its change log is applied.
        AccountMismatch: the outcomes of the replayed records do not add up.
    """
    if not table.dead_letters.exists:
        return Replayed(table.name, 0, 0)
    states = read_states(table.lake)
    state = states.get(table.name, TableState())
    if table.config.format == "snapshot":
        return Replayed(table.name, *_compare_again(table, wanted, run_id, state))
    if state.pending:
        _merge_what_waits(table, run_id)
        states = read_states(table.lake)
        state = states.get(table.name, TableState())
    fingerprint.check_configuration(table.config, state.built)
    waits = find_waiting_transactions(table.config, states)
    letters = _read_unresolved(table, waits).where(wanted)
    before = log.count_reasons(letters)
    if not before:
        return Replayed(table.name, 0, 0)
    if log.find_newest_batch(table) > state.logged or state.logged > state.batch:
        raise TableFailed(table.name, NOT_APPLIED)
    fingerprint.check_types(table.config, table.log.business)
    replaying = _Replaying(table, run_id, datetime.now(timezone.utc), states, waits)
    state = state.with_fingerprint(fingerprint.build_fingerprint(table.config))
    return replaying.try_again(letters, before, state)


class _Replaying(NamedTuple):
    """A replay: table, run, its beginning, the states of all tables, and waiting transactions."""

    table: SilverTable
    run_id: str
    started: datetime
    states: Mapping[str, TableState]
    waits: Sequence[WaitingTransaction]

    def try_again(
        self, letters: DataFrame, before: Mapping[str, int], state: TableState
    ) -> Replayed:
        """Decodes the letters, with `before` by reason, and applies those that are good now."""
        table, tried = self.table, sum(before.values())
        few = tried <= FEW
        again = _decode_again(table, letters, state, few)
        if self.waits and not select_waiting(self.waits, again).isEmpty():
            raise TableFailed(table.name, NOT_APPLIED)
        summary = summarize(again)
        good = again.where("_reason IS NULL")
        earlier = remove_waiting(self.waits, log.read_log(table)).join(
            to_all(good.select(*IDENTITY), few), IDENTITY, "left_anti"
        )
        rows = earlier.unionByName(good, allowMissingColumns=True)
        after, counts = self.apply_good(rows, summary, state)
        moved = _compare_reasons(before, summary.rejected)
        _correct_log(table, again)
        _resolve_letters(table, again, self.run_id)
        if counts or moved:
            counts = moved | {name: n + moved.get(name, 0) for name, n in counts.items()}
            self.record(pin_current(table, self.states, after), counts)
        return Replayed(table.name, tried, summary.records - sum(summary.rejected.values()))

    def apply_good(
        self, rows: DataFrame, summary: Summary, state: TableState
    ) -> tuple[TableState, dict[str, int]]:
        """Folds the records that are good now into the table; `rows` are the log with them.

        The number of the batch is reserved first, and changes in it that lack columns are recorded:
        so a replay that was killed is known to have begun.

        Returns:
            The table's new state, and the records by outcome.
        """
        if summary.records == sum(summary.rejected.values()):
            return state, {}
        after = state.replace(logged=state.logged + 1, waits=None)
        notes = {"incomplete": summary.incomplete, "key_changes": summary.key_changes}
        reserved = {name: n for name, n in notes.items() if n}
        met = {
            "partial": state.partial or summary.incomplete > 0,
            "key_changes": state.key_changes or summary.key_changes > 0,
        }
        self.record(state.replace(batch=after.logged, logged=after.logged, **met), reserved)
        done = run_table(Run(self.run_id, be_silent), Batch(self.table, rows, state, after))
        counts = {n: count for n, count in done.counts.items() if n not in reserved}
        return done.state, counts | {"records": 0}

    def record(self, state: TableState, counts: Mapping[str, int]) -> None:
        """Records a state of the table, and counts, in the ledger."""
        entry = ledger.make_entry(self.run_id, "silver", self.table.name, self.started)
        ledger.append_entries(self.table.lake, [state.done(entry, counts)])


def _merge_what_waits(table: SilverTable, run_id: str) -> None:
    run = Run(run_id, be_silent)
    run.memory.merge_all = True
    (entry,) = run_tables(run, table.lake, [table.config])
    if entry.message is not None:
        raise TableFailed(table.name, entry.message)


def _decode_again(
    table: SilverTable, letters: DataFrame, state: TableState, few: bool
) -> DataFrame:
    """Decodes the records of dead letters again, as rows of the change log.

    Good ones get the number of the next batch, bad ones keep their own. A replay that was killed
    may have left a letter's record in the log as a good one. `few` says that the letters' ids can
    be sent to every task.
    """
    wanted, batch = to_all(letters.select(*IDENTITY), few), state.logged + 1
    held = log.read_log(table).join(wanted, IDENTITY, "left_semi")
    spans = held.groupBy("_feed").agg(F.min("_feed_batch"), F.max("_feed_batch")).collect()
    parts = [bronze_rows.read_batches(table, *span) for span in spans]
    records = wanted.withColumn("_arrival", F.expr(arrival_sql()))
    raw = reduce(DataFrame.unionByName, parts).join(records, IDENTITY, "left_semi")
    schemas = bronze_rows.avro_schemas(table)
    decoded = decode_alone(raw, table.config, table.log.business, state.built, schemas)
    changes = add_plan_barrier(gate_changes(decoded, table.config))
    fields = layout.list_source_fields(changes.schema)
    layout.ensure_table(table.log, fields, LOG_COLUMNS)
    columns = [f.name for f in fields if f.name not in table.config.keys]
    grown = log.read_log(table).join(wanted, IDENTITY, "left_semi")
    places = to_all(grown.select(*IDENTITY, F.col("_batch").alias("_held"), "_source_log"), few)
    number = F.when(F.col("_reason").isNull(), F.lit(batch)).otherwise(F.col("_held"))
    digest = hash_change(changes.schema, columns)
    whole = changes.drop("_source_log", FACTS).withColumn("_digest", digest).join(places, IDENTITY)
    return whole.withColumn("_batch", number.cast("bigint")).drop("_held")


def _read_unresolved(table: SilverTable, waits: Sequence[WaitingTransaction]) -> DataFrame:
    """The unresolved letters, without those of waiting transactions, which are not applied yet."""
    dead_letters.ensure_letter_table(table)
    letters = table.dead_letters.read().where("resolved_at IS NULL")
    if waits:
        held = select_waiting(waits, log.read_log(table))
        letters = letters.join(held.select(*IDENTITY), IDENTITY, "left_anti")
    return letters.withColumn("_reason", F.col("reason"))


def _compare_reasons(before: Mapping[str, int], after: Mapping[str, int]) -> dict[str, int]:
    """The change in the number of dead letters by reason; empty where none was resolved."""
    differences = {r: after.get(r, 0) - before.get(r, 0) for r in {*before, *after}}
    moved = {f"dead_letter:{reason}": n for reason, n in differences.items() if n}
    resolved = sum(before.values()) - sum(after.values())
    return moved | ({"replayed": resolved} if resolved else {})


def _correct_log(table: SilverTable, again: DataFrame) -> None:
    """Replaces the letters' rows in the change log by the newly decoded ones."""
    rows = table.log.read()
    missing = [f for f in rows.schema.fields if f.name not in again.columns]
    given = again.select("*", *[F.lit(None).cast(f.dataType).alias(f.name) for f in missing])
    same = " AND ".join(f"t.{c} <=> s.{c}" for c in (*_JUDGED, "_raw"))
    text = (
        f"MERGE INTO {table.log.name} t USING {{rows}} s ON {dead_letters.SAME}"
        " AND t._reason IS NOT NULL"
        f" WHEN MATCHED AND NOT ({same}) THEN {render_update(rows.columns)}"
    )
    ordered = given.select(*[F.col(names.quote(f.name)) for f in rows.schema.fields])
    execute_with_rows(table.spark, text, ordered)


def _resolve_letters(table: SilverTable, again: DataFrame, run_id: str) -> None:
    """Marks the letters that are good now as resolved; the others get today's reason."""
    today = ", ".join(f"{c} = s._{c}" for c in ("reason", "message", "rule"))
    text = (
        f"MERGE INTO {table.dead_letters.name} t USING {{rows}} s"
        f" ON {dead_letters.SAME} AND t.resolved_at IS NULL"
        f" WHEN MATCHED AND s._reason IS NULL THEN UPDATE SET {dead_letters.resolved_sql(run_id)}"
        " WHEN MATCHED AND NOT (t.reason <=> s._reason AND t.message <=> s._message)"
        f" THEN UPDATE SET {today}"
    )
    execute_with_rows(table.spark, text, again.select(*IDENTITY, *_JUDGED))


def _compare_again(
    table: SilverTable, wanted: Column, run_id: str, state: TableState
) -> tuple[int, int]:
    """Compares the dates of the letters again; returns how many were tried, and are resolved."""
    started = datetime.now(timezone.utc)
    letters = _read_unresolved(table, ()).where(wanted)
    rows = letters.select(*IDENTITY, "_sequence").collect()
    days = {day.effective_date for day in state.days}
    asked = {day_of_sequence(row["_sequence"]) for row in rows if row["_sequence"]} & days
    if not asked:
        return len(rows), 0
    fingerprint.check_configuration(table.config, state.built)
    state = state.with_fingerprint(fingerprint.build_fingerprint(table.config))
    run = Run(run_id, be_silent)
    done = apply_snapshot_files(run, table, state, state.positions, asked)
    entry = ledger.make_entry(run_id, "silver", table.name, started)
    ledger.append_entries(table.lake, [done.state.done(entry, done.counts)])
    good = log.read_log(table).where("_reason IS NULL").select(*IDENTITY)
    judged = [F.lit(None).cast("string").alias(name) for name in _JUDGED]
    resolved = letters.select(*IDENTITY).join(good, IDENTITY, "left_semi")
    _resolve_letters(table, resolved.select(*IDENTITY, *judged), run_id)
    left = table.dead_letters.read().where("resolved_at IS NULL").where(wanted).count()
    return len(rows), len(rows) - left
