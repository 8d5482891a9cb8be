"""One layer's job over some tables: tried again at once where Delta transactions collide."""

import functools
import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from datetime import datetime, timezone
from typing import TYPE_CHECKING, NamedTuple

from cdc_lakehouse.terminal.console import Progress, say
from lakehouse.config.table import Table
from lakehouse.config.target import Layer
from lakehouse.errors import ManyTablesFailed, TableFailed
from lakehouse.interrupts import stop_if_pressed
from lakehouse.remedies import is_unreachable, session_ended, with_remedy
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.spark.failures import TABLE_FAILURES, describe_failure
from lakehouse.storage.lake import Lake
from lakehouse.storage.writing import hold_table_lock

if TYPE_CHECKING:
    Job = Callable[[Lake, list[Table], str, Progress], list[Entry]]

MOST_TRIES = 4
RECORDED_HERE = ("bronze", "gold")
EVERY = "*"
"""In place of a table: what all tables share, such as the ledger."""


class Round(NamedTuple):
    """The lake and the options of a run, as every layer's work needs them.

    Attributes:
        lake: the session and the target.
        run_id: the name of the run in the ledger; without it each layer's work has its own.
        everything: all configured tables, also those that are not worked on.
        memory: what the run knows from earlier rounds; nobody else writes, as it holds the locks.
        merge: whether silver merges all pending changes, even where waiting is cheaper.
    """

    lake: Lake
    run_id: str | None = None
    everything: list[Table] | None = None
    memory: Memory | None = None
    merge: bool = False


def do_layer(
    given: Round, tables: Sequence[Table], layer: Layer, tell: Progress, watched: bool = True
) -> list[Entry]:
    """Does the layer's job, writes its entries into the ledger, and returns them.

    Entries of idle tables are not written, unless the table failed before.

    With `watched`, bronze also looks for records that are gone at the source; silver for positions
    that run backwards, and for snapshots that make up for either. Entries of tables that lack
    records are failures.
    """
    memory = given.memory or Memory()
    memory.merge_all = given.merge
    run = given.run_id or uuid.uuid4().hex
    do = build_layer_job(layer, given.everything, memory)
    if layer == "silver" and watched:
        _renew_pins(given, tables)
    entries = try_conflicts_again(do, given, tables, run, tell)
    if layer == "bronze":
        memory.count(entries)
        if watched:
            from bronze.loss.watch import watch_for_loss

            entries = watch_for_loss(given.lake, tables, entries, memory, tell)
    elif layer == "silver" and watched:
        from silver.maintenance.closed_gaps import check_gaps

        entries = check_gaps(given.lake, tables, entries)
    if layer in RECORDED_HERE:
        _write_entries(given, layer, to_keep(given, entries, memory), memory)
    if memory.among is not None:
        due = memory.note_rounds(layer, _list_written(entries))
        if due:
            _join_small_files(given, tables, layer, due)
    return entries


def _renew_pins(given: Round, tables: Sequence[Table]) -> None:
    from gold.job import renew_pins

    for failure in renew_pins(given.lake, tables):
        say(failure)


def _list_written(entries: Iterable[Entry]) -> list[str]:
    """The tables with news, and `*` if there are any: then the ledger was written too."""
    written = [entry.table for entry in entries if entry.status == "ok" and has_news(entry)]
    return [*written, EVERY] if written else []


def _join_small_files(
    given: Round, tables: Sequence[Table], layer: Layer, due: Sequence[str]
) -> None:
    """Joins the small files of a layer's tables, and of the ledger; a failure is only said.

    Files of tables with `cluster_by` wait for `maintain`, as Delta would order them all anew.
    """
    from bronze.storage import list_feed_tables
    from lakehouse.storage.upkeep import join_small_files
    from silver.maintenance.upkeep import of_table

    mine = [table for table in tables if table.table in due]
    try:
        names = list_feed_tables(given.lake, mine) if layer == "bronze" else []
        for table in mine if layer == "silver" else ():
            names += [n for n, of in of_table(given.lake, table).items() if not of.cluster_by]
        for name in names:
            join_small_files(given.lake.spark, name)
        if layer == "silver" and EVERY in due:
            with hold_table_lock(given.lake.target, "silver", ledger.TABLE):
                join_small_files(given.lake.spark, given.lake.name("silver", ledger.TABLE))
    except TABLE_FAILURES as failure:
        say(f"small files are left as they are: {describe_failure(failure)}")


def try_conflicts_again(
    do: "Job", given: Round, tables: Sequence[Table], run: str, tell: Progress
) -> list[Entry]:
    """The job's entries; tables whose Delta transactions collided are done again a few times.

    No other failure is tried again.
    """
    done: dict[str, Entry] = {}
    again = list(tables)
    for _ in range(MOST_TRIES):
        done |= {entry.table: entry for entry in do(given.lake, again, run, tell)}
        again = [table for table in tables if done[table.table].conflict]
        if not again:
            break
    return list(done.values())


def _write_entries(given: Round, layer: Layer, entries: list[Entry], memory: Memory) -> None:
    """Writes entries into the ledger; bronze's wait for silver's where these will follow."""
    waits = [entry for entry in entries if layer == "bronze" and entry.status == "ok"]
    if not (memory.defers and any(entry.counts.get("records", 0) > 0 for entry in waits)):
        waits = []
    memory.waiting.extend(waits)
    ledger.append_entries(given.lake, [e for e in entries if e not in waits])


def to_keep(given: Round, entries: Sequence[Entry], memory: Memory) -> list[Entry]:
    """The entries for the ledger: those with news, and the first after a failure."""
    if memory.failing is None and not all(map(has_news, entries)):
        memory.failing = ledger.find_failing(given.lake)
    failing = memory.failing
    if failing is None:
        return list(entries)
    kept = [e for e in entries if has_news(e) or (e.layer, e.table) in failing]
    for entry in kept:
        (failing.discard if entry.status == "ok" else failing.add)((entry.layer, entry.table))
    return kept


def try_layer(
    given: Round, tables: Sequence[Table], layer: Layer, tell: Progress, watched: bool = True
) -> list[Entry]:
    """Does a layer; what fails for all tables at once, such as the ledger, fails each of them.

    Raises:
        SparkUnavailable: the session is gone, so that nothing could be tried again.
    """
    from lakehouse.spark.session import has_ended

    stop_if_pressed()
    began = datetime.now(timezone.utc)
    try:
        done = do_layer(given, tables, layer, tell, watched)
    except TABLE_FAILURES as failure:
        run, said = given.run_id or "none", describe_failure(failure)
        done = [ledger.make_entry(run, layer, table.table, began, said) for table in tables]
    stop_if_pressed()
    if any(entry.status == "failed" for entry in done) and has_ended(given.lake.spark):
        raise session_ended(given.lake.target)
    return done


@contextmanager
def write_entries_together(
    lake: Lake, layers: Sequence[Layer], memory: Memory | None
) -> Iterator[None]:
    """Within, bronze's entries go into the ledger with silver's, one commit for both.

    Entries that are left at the end are written then, unless the work was broken off. A continuous
    run also gets a session for little work.
    """
    from lakehouse.spark.session import interpreting_session

    memory = memory or Memory()
    if memory.among is not None and lake.target.kind == "local":
        memory.brief = interpreting_session(lake.spark)
    memory.defers = {"bronze", "silver"} <= set(layers)
    yield
    memory.defers = False
    ledger.append_with_waiting(lake, [], memory)


def has_news(entry: Entry) -> bool:
    """Whether the work failed or counted anything."""
    return entry.status == "failed" or any(entry.counts.values())


def build_layer_job(layer: Layer, everything: list[Table] | None, memory: Memory) -> "Job":
    """The function of the layer's `job.py`; bronze also gets all configured tables."""
    if layer == "gold":
        from gold.job import publish

        return publish
    memory.configured = everything
    if layer == "bronze":
        from bronze.job import ingest

        return functools.partial(ingest, memory=memory)
    from silver.job import apply

    return functools.partial(apply, memory=memory)


def whole_groups(tables: Sequence[Table], everything: Sequence[Table]) -> list[Table]:
    """The tables and the other members of their consistency groups: a group moves together."""
    groups = {table.consistency_group for table in tables} - {None}
    return [t for t in everything if t in tables or t.consistency_group in groups]


def list_failures(entries: Sequence[Entry]) -> list[TableFailed]:
    """A failure for every entry that failed, with its remedy where that is known."""
    return [
        TableFailed(
            f"{e.layer} {e.table}",
            with_remedy((e.message or "").removeprefix(f"{e.table}: ")),
            is_unreachable(e.message),
        )
        for e in entries
        if e.status == "failed"
    ]


def raise_all(failures: Sequence[TableFailed]) -> None:
    """Raise ManyTablesFailed when there are any."""
    if failures:
        raise ManyTablesFailed(failures)


def fail_at_the_end(entries: Sequence[Entry]) -> None:
    """Raise ManyTablesFailed when any table failed in any layer."""
    raise_all(list_failures(entries))
