"""Silver's job, table by table: decode, gate, sequence, apply, record."""

from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from datetime import datetime, timezone

from pyspark.sql import SparkSession

from lakehouse import ledger
from lakehouse.failures import in_short
from lakehouse.ledger import Entry
from lakehouse.memory import Arrived, Memory
from lakehouse.spark_failures import TABLE_FAILURES
from lakehouse.table import Table
from lakehouse.target import Target
from silver import built, group_passes, log, log_pass, reading, snapshots, swap
from silver.batch import Seen
from silver.built import Built
from silver.contract import waits_in_log
from silver.group_repairs import Reach
from silver.known import keep, known_of
from silver.passes import Outcome, Pass, told
from silver.table_pass import (
    apply_ahead,
    apply_days,
    apply_new,
    apply_or_wait,
    apply_part,
    extended,
)
from silver.transactions import Waiting

Progress = Callable[[str], None]

AT_ONCE = 4


def apply(
    spark: SparkSession,
    target: Target,
    tables: list[Table],
    run_id: str,
    progress: Progress,
    memory: Memory | None = None,
    held: tuple[Waiting, ...] | None = None,
) -> list[Entry]:
    """Brings every table up to what bronze holds.

    One ledger entry each, and a failure stops no other. `memory` is the run's, where it has one.
    `held` is what is to wait in a group, where that is not to be found out.

    Tables are independent of each other: a few are worked on at the same time, so that the planning
    of one fills the time in which another one's tasks run. A consistency group goes together.
    """
    memory = memory or Memory()
    memory.gather([table.table for table in tables])
    for table in swap.end_all(spark, target, run_id):
        memory.tables.pop(table, None)
    before = known_of(spark, target, tables, memory)
    known = {table: of.seen for table, of in before.items()}
    logged = {table: of.logged for table, of in before.items()}
    done = {table: dict(of.positions) for table, of in known.items()}
    found = reading.arrived(spark, target, tables, done, dict(memory.feeds))
    _begin(spark, target, tables, run_id, known, logged, found)

    def work(table: Table) -> Outcome:
        progress(f"silver {table.table}")
        own = logged[table.table]
        return _outcome(spark, target, table, run_id, known[table.table], own, found, memory)

    def extend(table: Table) -> Seen:
        built.check(table, known[table.table].built.known)
        ahead = _ahead(spark, target, table, logged[table.table])
        own = known[table.table]
        return extended(spark, target, table, run_id, own, ahead, found, memory.shown)[0]

    alone = [table for table in tables if table.consistency_group is None]
    with ThreadPoolExecutor(AT_ONCE) as pool:
        outcomes = list(pool.map(work, alone))
    outcomes += group_passes.advance(
        spark, target, tables, run_id, known, extend, apply_part, progress, held
    )
    built.note(spark, target, run_id, {name: of.built for name, of in known.items()})
    _record(spark, target, outcomes, known, memory)
    keep(memory, tables, before, outcomes)
    return [outcome.entry for outcome in outcomes]


def _begin(
    spark: SparkSession,
    target: Target,
    tables: list[Table],
    run_id: str,
    known: Mapping[str, Seen],
    logged: Mapping[str, int | None],
    found: Mapping[str, Arrived],
) -> None:
    """Notes what tables are built with from now on, before anything is written with it."""
    begun: dict[str, Built] = {}
    for table in tables:
        seen = known[table.table]
        ahead = logged[table.table]
        left = ahead is None or ahead > seen.batch
        if not left and not reading.has_new(table, seen.positions, found):
            continue
        if not any(built.differences(table, seen.built.known)):
            seen.built.learn(built.aspects(table))
            begun[table.table] = seen.built
    built.note(spark, target, run_id, begun)


def apply_all(
    spark: SparkSession, target: Target, tables: list[Table], run_id: str, progress: Progress
) -> list[Entry]:
    """The same, and applies what may wait because of `max_staleness` as well."""
    at_once = [table.model_copy(update={"max_staleness": None}) for table in tables]
    return apply(spark, target, at_once, run_id, progress)


def apply_anew(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    progress: Progress,
    reach: Reach | None,
) -> Entry:
    """The same for one table; a member of a group only as far as `reach`."""
    if reach is None:
        return apply_all(spark, target, [table], run_id, progress)[0]
    memory = Memory()
    for feed in reading.feeds_of(table):
        newest = reach.positions.get(feed, 0)
        memory.feeds[feed] = Arrived(newest, {reading.ANY: newest})
    return apply(spark, target, [table], run_id, progress, memory, reach.waiting)[0]


def _record(
    spark: SparkSession,
    target: Target,
    outcomes: list[Outcome],
    known: Mapping[str, Seen],
    memory: Memory,
) -> None:
    """Keeps what the run did, in two commits for all tables; nothing when nothing came.

    A run that is killed before applies its batches again, which changes nothing.
    """
    for outcome in outcomes:
        if any(each.recomputed for each in outcome.passes):
            snapshots.forget(spark, target, outcome.entry.table)
    shown = {o.entry.table: [(p.seen.batch, p.whole) for p in o.passes] for o in outcomes}
    snapshots.record(spark, target, shown)
    entries = [outcome.entry for outcome in outcomes]
    if any(entry.counts or entry.status == "failed" for entry in entries):
        moved = [e for e in entries if _moved(e, known[e.table])]
        failed = [e for e in entries if e.status == "failed" and e not in moved]
        ledger.append_with_waiting(spark, target, [*moved, *failed], memory)


def _moved(entry: Entry, seen: Seen) -> bool:
    return entry.positions != dict(seen.positions) or entry.batch != seen.batch


def _outcome(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    logged: int | None,
    found: Mapping[str, Arrived],
    memory: Memory,
) -> Outcome:
    began = datetime.now(timezone.utc)
    passes, message, ahead = list[Pass](), None, logged or 0
    try:
        built.check(table, seen.built.known)
        ahead = _ahead(spark, target, table, logged)
        for one in _passes(spark, target, table, run_id, seen, ahead, found, memory):
            passes.append(one)
    except TABLE_FAILURES as failure:
        message = in_short(failure)
    seen = passes[-1].seen if passes else seen
    reached = reading.reaches(table, found) if message is None else {}
    now = seen._replace(positions=dict(seen.positions) | reached)
    return told(table, run_id, now, passes, message, began, ahead)


def _ahead(spark: SparkSession, target: Target, table: Table, logged: int | None) -> int:
    """The newest batch of a table's log; one that could not be read fails its own table here."""
    return log.newest(spark, target, table) if logged is None else logged


def _passes(
    spark: SparkSession,
    target: Target,
    table: Table,
    run_id: str,
    seen: Seen,
    logged: int,
    found: Mapping[str, Arrived],
    memory: Memory,
) -> Iterator[Pass]:
    """What a killed run left in the log, then what is new in bronze; extracts go day by day.

    Of a table that may lag, or whose log readers see, both together, and only when it is due.
    """
    newest = reading.reaches(table, found)
    may_wait = table.max_staleness is not None or memory.among is not None
    if may_wait and waits_in_log(target, table):
        yield from log_pass.passes(spark, target, table, run_id, seen, logged, found, memory)
        return
    if table.format == "snapshot":
        if logged > seen.batch or reading.has_new(table, seen.positions, found):
            yield apply_days(spark, target, table, run_id, seen, newest)
        return
    if table.max_staleness is not None:
        after, summary = extended(spark, target, table, run_id, seen, logged, found, memory.shown)
        done = apply_or_wait(spark, target, table, run_id, seen, after, summary)
        if done is not None:
            yield done
        return
    if logged > seen.batch:
        left = apply_ahead(spark, target, table, run_id, seen, logged)
        seen = left.seen
        yield left
    if reading.has_new(table, seen.positions, found):
        yield apply_new(spark, target, table, run_id, seen, newest, memory.shown)
