"""The table runs of one run of silver: many tables at once, recorded together in the ledger."""

from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone
from typing import NamedTuple

from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Arrived
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.spark.local_settings import SMALL
from lakehouse.storage.lake import Lake
from silver import freshness
from silver.changelog import bronze_rows, log
from silver.changelog.batch import Batch
from silver.changelog.extend import WaitsForForm, extend_log
from silver.groups.group_repairs import ShownProgress
from silver.groups.group_runs import Upstream, advance_groups
from silver.run import AtWork, Progress, Run, SilverTable
from silver.snapshot_source.snapshot_run import apply_snapshot_files
from silver.state import fingerprint
from silver.state.table_state import TableState, WaitingTransaction, read_states
from silver.table_run import TableResult, run_table, size_of

AT_ONCE = 4
# Of a small table, a MERGE of so many changes takes longer to compile than to interpret.
_LITTLE = 50_000


def run_tables(
    run: Run, lake: Lake, tables: Sequence[Table], held: Sequence[WaitingTransaction] | None = None
) -> list[Entry]:
    """Brings every table up to what bronze holds: one ledger entry each, a failure stops no other.

    Tables are independent of each other: a few are worked on at the same time, so that the planning
    of one fills the time in which another one's tasks run. A consistency group goes together.
    `held` are the transactions that a group keeps waiting, where they are known already.
    """
    run.memory.note_together([table.table for table in tables])
    states, logged = _read_states_and_logs(run, lake, tables)
    done = {name: state.positions for name, state in states.items()}
    feeds = bronze_rows.find_arrived(lake, tables, done, dict(run.memory.feeds))
    states = _record_fingerprints(run, lake, tables, states, feeds)
    run.memory.worked_on = sum(_has_work(t, states[t.table], logged, feeds) for t in tables)

    alone = [table for table in tables if table.consistency_group is None]
    at_work = AtWork(run.progress, len(alone))

    def work(config: Table) -> TableOutcome:
        table, began = SilverTable(lake, config), datetime.now(timezone.utc)
        state, message = states[config.table], None
        try:
            fingerprint.check_configuration(config, state.built)
            result = _advance_table(
                run, table, state, _find_newest_batch(table, logged[config.table]), feeds
            )
        except WaitsForForm as waits:
            result = TableResult(state, {"waiting": waits.records})
        except TABLE_FAILURES as failure:
            message = describe_failure(failure)
            result = TableResult(run.noted.get(config.table, state), {})
        return _build_outcome(run, table.name, began, result, message)

    def work_in_sight(config: Table) -> TableOutcome:
        with at_work.working_on(config.table):
            return work(config)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(work_in_sight, alone))
    moved = advance_groups(run, lake, tables, states, Upstream(logged, feeds), held)
    outcomes += [_build_outcome(run, name, *done) for name, done in moved.items()]
    _record_outcomes(run, lake, outcomes, states)
    return [outcome.entry for outcome in outcomes]


def recompute_table(
    run_id: str, progress: Progress, lake: Lake, table: Table, reach: ShownProgress | None
) -> Entry:
    """Runs one table from the beginning; a member of a group only as far as `reach`."""
    run = Run(run_id, progress)
    run.memory.merge_all = True
    if reach is None:
        return run_tables(run, lake, [table])[0]
    for feed in bronze_rows.feeds_of(table):
        newest = reach.positions.get(feed, 0)
        run.memory.feeds[feed] = Arrived(newest, {bronze_rows.ANY: newest})
    return run_tables(run, lake, [table], reach.waiting)[0]


def _read_states_and_logs(
    run: Run, lake: Lake, tables: Sequence[Table]
) -> tuple[dict[str, TableState], dict[str, int | None]]:
    """The state of each table, and the newest batch of its log; None where it cannot be read.

    States are taken out of the run's memory until `_record_outcomes` puts them back. Those that it
    does not hold are read from the lake: one query for all states, one for all logs.
    """
    remembered = run.memory.tables
    states = {t.table: remembered.pop(t.table) for t in tables if t.table in remembered}
    logged: dict[str, int | None] = {name: state.logged for name, state in states.items()}
    asked = [table for table in tables if table.table not in states]
    run.memory.shown -= {table.table for table in asked}
    if asked:
        stored = read_states(lake)
        states |= {table.table: stored.get(table.table, TableState()) for table in asked}
        logged |= log.find_newest_batches(lake, asked)
    return states, logged


def _has_work(
    table: Table, state: TableState, logged: Mapping[str, int | None], feeds: Mapping[str, Arrived]
) -> bool:
    """Whether a table has new records or pending changes."""
    waits = state.pending > 0 or (logged[table.table] or 0) > state.batch
    return waits or bronze_rows.has_new(table, state.positions, feeds)


def _find_newest_batch(table: SilverTable, logged: int | None) -> int:
    """The newest batch of the log; a log that cannot be read fails its own table here."""
    if logged is not None:
        return logged
    return log.find_newest_batch(table)


def _record_fingerprints(
    run: Run,
    lake: Lake,
    tables: Sequence[Table],
    states: Mapping[str, TableState],
    feeds: Mapping[str, Arrived],
) -> dict[str, TableState]:
    """Records the fingerprints of tables with new records, before anything is written.

    A YAML that is changed after a run was killed is refused by them. One commit for all tables.
    """
    updated = dict(states)
    begun: list[Entry] = []
    for table in tables:
        state = states[table.table]
        aspects = fingerprint.build_fingerprint(table)
        if not bronze_rows.has_new(table, state.positions, feeds):
            continue
        if all(state.built.get(aspect) == value for aspect, value in aspects.items()):
            continue
        if not any(fingerprint.list_differences(table, state.built)):
            updated[table.table] = state.with_fingerprint(aspects)
            begun.append(updated[table.table].begun(run.id, table.table))
    ledger.append_entries(lake, begun)
    return updated


def _advance_table(
    run: Run, table: SilverTable, state: TableState, logged: int, feeds: Mapping[str, Arrived]
) -> TableResult:
    """Adds new records to the change log, and merges them or leaves them pending."""
    if table.config.format == "snapshot":
        has_new = bronze_rows.has_new(table.config, state.positions, feeds)
        if logged <= state.batch and not has_new:
            return TableResult(state, {})
        return apply_snapshot_files(
            run, table, state, bronze_rows.find_newest_batches(table.config, feeds)
        )
    brief = table.with_session(run.memory.session_for(table.spark, table.name))
    after = extend_log(run, brief, state, logged, feeds)
    if after.logged == state.batch:
        return TableResult(after, {})
    is_due = freshness.is_due(table, after, datetime.now(timezone.utc), run.memory)
    if not is_due and after.logged in (state.shown, state.logged):
        return TableResult(after, {})
    if is_due and run.memory.brief is not None and _is_little(table, after):
        table = table.with_session(run.memory.brief)
    return run_table(run, Batch.of_log(table, state, after, may_wait=not is_due))


def _is_little(table: SilverTable, state: TableState) -> bool:
    """Whether few changes, as far as is known, are to be merged into a small table."""
    if state.waits is None or state.waits.records > _LITTLE:
        return False
    return not table.kept.exists or size_of(table) < SMALL


class TableOutcome(NamedTuple):
    """The ledger entry of a table, and the table's new state."""

    entry: Entry
    state: TableState


def _build_outcome(
    run: Run, table: str, began: datetime, result: TableResult, message: str | None
) -> TableOutcome:
    entry = ledger.make_entry(run.id, "silver", table, began, message)
    return TableOutcome(result.state.done(entry, result.counts), result.state)


def _record_outcomes(
    run: Run, lake: Lake, outcomes: Sequence[TableOutcome], before: Mapping[str, TableState]
) -> None:
    """Writes the ledger entries of all tables in one commit; none where nothing happened.

    The batches of a run that is killed before this are applied again, which changes nothing. The
    run's memory keeps the states of the tables that did not fail.
    """
    worth = [
        entry
        for entry, state in outcomes
        if entry.status == "failed" or state != before[entry.table]
    ]
    if any(entry.counts or entry.status == "failed" for entry, _ in outcomes):
        ledger.append_with_waiting(lake, worth, run.memory)
    for entry, state in outcomes:
        if entry.status == "ok":
            run.memory.tables[entry.table] = state
