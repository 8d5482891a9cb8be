"""The table runs of one run of silver: many tables at once, recorded together in the ledger."""

from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Arrived
from lakehouse.spark.failures import in_short
from lakehouse.spark.spark_failures import TABLE_FAILURES
from lakehouse.storage.lake import Lake
from silver import pending_run
from silver.changelog import bronze_rows
from silver.changelog.extend import WaitsForForm
from silver.contract import waits_in_log
from silver.groups import group_runs
from silver.groups.group_repairs import Reach
from silver.groups.group_run import Part, Steps
from silver.groups.transactions import Waiting
from silver.run import Progress, Run, SilverTable
from silver.snapshot_source.snapshot_run import apply_snapshot_files
from silver.state import fingerprint, snapshots
from silver.state.batch import TableState
from silver.state.fingerprint import Built
from silver.states import Known, keep, known_of
from silver.table_result import Outcome, Pass, outcome_of
from silver.table_run import (
    LogPart,
    Upstream,
    apply_left,
    apply_new,
    apply_or_wait,
    apply_part,
    extend_log,
)

AT_ONCE = 4


def run_tables(
    run: Run, lake: Lake, tables: list[Table], held: tuple[Waiting, ...] | None = None
) -> list[Entry]:
    """Brings every table up to what bronze holds: one ledger entry each, a failure stops no other.

    Tables are independent of each other: a few are worked on at the same time, so that the planning
    of one fills the time in which another one's tasks run. A consistency group goes together.
    `held` is what is to wait in a group, where that is known already.
    """
    run.memory.gather([table.table for table in tables])
    before = known_of(lake.spark, lake.target, tables, run.memory)
    states = {name: known.state for name, known in before.items()}
    done = {name: dict(state.positions) for name, state in states.items()}
    found = bronze_rows.arrived(lake.spark, lake.target, tables, done, dict(run.memory.feeds))
    _note_fingerprints(run, lake, tables, before, found)

    def work(config: Table) -> Outcome:
        run.progress(f"silver {config.table}")
        return _run_table(run, SilverTable(lake, config), before[config.table], found)

    alone = [table for table in tables if table.consistency_group is None]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(work, alone))
    steps = _group_steps(run, lake, before, found)
    outcomes += group_runs.advance(run, lake, tables, states, steps, held)
    learned = {name: state.built for name, state in states.items()}
    fingerprint.note(lake.spark, lake.target, run.id, learned)
    _record(run, lake, outcomes, states)
    keep(run.memory, tables, before, outcomes)
    return [outcome.entry for outcome in outcomes]


def at_once(table: Table) -> Table:
    """The table's configuration without its permission to lag."""
    return table.model_copy(update={"max_staleness": None})


def recompute_table(
    run_id: str, progress: Progress, lake: Lake, table: Table, reach: Reach | None
) -> Entry:
    """Runs one table from the beginning; a member of a group only as far as `reach`."""
    run = Run(run_id, progress)
    if reach is None:
        return run_tables(run, lake, [at_once(table)])[0]
    for feed in bronze_rows.feeds_of(table):
        newest = reach.positions.get(feed, 0)
        run.memory.feeds[feed] = Arrived(newest, {bronze_rows.ANY: newest})
    return run_tables(run, lake, [table], reach.waiting)[0]


def _note_fingerprints(
    run: Run,
    lake: Lake,
    tables: list[Table],
    before: Mapping[str, Known],
    found: Mapping[str, Arrived],
) -> None:
    """Notes what tables are built with from now on, before anything is written with it."""
    begun: dict[str, Built] = {}
    for table in tables:
        state, logged = before[table.table]
        left = logged is None or logged > state.batch
        if not left and not bronze_rows.has_new(table, state.positions, found):
            continue
        if not any(fingerprint.differences(table, state.built.known)):
            state.built.learn(fingerprint.aspects(table))
            begun[table.table] = state.built
    fingerprint.note(lake.spark, lake.target, run.id, begun)


def _run_table(run: Run, table: SilverTable, known: Known, found: Mapping[str, Arrived]) -> Outcome:
    began = datetime.now(timezone.utc)
    state, logged = known.state, known.logged or 0
    passes, message, waiting = list[Pass](), None, 0
    try:
        fingerprint.check(table.config, state.built.known)
        logged = known.newest_logged(table)
        passes += _passes(run, table, state, Upstream(found, logged))
    except WaitsForForm as waits:
        found, waiting = {}, waits.records
    except TABLE_FAILURES as failure:
        message = in_short(failure)
    state = passes[-1].state if passes else state
    reached = bronze_rows.reaches(table.config, found) if message is None else {}
    now = state._replace(positions=dict(state.positions) | reached)
    entry = ledger.told(run.id, "silver", table.name, began, message)
    outcome = outcome_of(entry, now, passes, logged)
    return outcome if passes or not waiting else outcome.with_waiting(waiting)


def _passes(run: Run, table: SilverTable, state: TableState, upstream: Upstream) -> Iterator[Pass]:
    """What a killed run left in the log, then what is new in bronze; extracts go day by day.

    Of a table that may lag, or whose log readers see, both together, and only when it is due.
    """
    config, found = table.config, upstream.found
    may_wait = config.max_staleness is not None or run.memory.among is not None
    if may_wait and waits_in_log(table.target, config):
        yield from pending_run.passes(run, table, state, upstream)
    elif config.format == "snapshot":
        has_new = bronze_rows.has_new(config, state.positions, found)
        if upstream.logged > state.batch or has_new:
            yield apply_snapshot_files(run, table, state, bronze_rows.reaches(config, found))
    elif config.max_staleness is not None:
        after, summary = extend_log(run, table, state, upstream)
        done = apply_or_wait(run, table, state, after, summary)
        if done is not None:
            yield done
    else:
        if upstream.logged > state.batch:
            left = apply_left(run, table, state, upstream.logged)
            state = left.state
            yield left
        if bronze_rows.has_new(config, state.positions, found):
            yield apply_new(run, table, state, bronze_rows.reaches(config, found))


def _group_steps(
    run: Run, lake: Lake, before: Mapping[str, Known], found: Mapping[str, Arrived]
) -> Steps:
    """How a member of a consistency group extends its log, and applies its part of it."""

    def extend(config: Table) -> TableState:
        table, known = SilverTable(lake, config), before[config.table]
        fingerprint.check(config, known.state.built.known)
        upstream = Upstream(found, known.newest_logged(table))
        try:
            return extend_log(run, table, known.state, upstream)[0]
        except WaitsForForm:
            return known.state

    def apply(part: Part) -> Pass:
        table = SilverTable(lake, part.member.table)
        return apply_part(run, table, LogPart(part.rows, part.member.seen, part.member.after))

    return Steps(extend, apply)


def _record(
    run: Run, lake: Lake, outcomes: list[Outcome], states: Mapping[str, TableState]
) -> None:
    """Keeps what the run did, in two commits for all tables; nothing when nothing came.

    A run that is killed before applies its batches again, which changes nothing.
    """
    for outcome in outcomes:
        if any(each.recomputed for each in outcome.passes):
            snapshots.forget(lake.spark, lake.target, outcome.entry.table)
    shown = {o.entry.table: [(p.state.batch, p.whole) for p in o.passes] for o in outcomes}
    snapshots.record(lake.spark, lake.target, shown)
    entries = [outcome.entry for outcome in outcomes]
    if any(entry.counts or entry.status == "failed" for entry in entries):
        moved = [e for e in entries if _has_moved(e, states[e.table])]
        failed = [e for e in entries if e.status == "failed" and e not in moved]
        ledger.append_with_waiting(lake.spark, lake.target, [*moved, *failed], run.memory)


def _has_moved(entry: Entry, state: TableState) -> bool:
    return entry.positions != dict(state.positions) or entry.batch != state.batch
