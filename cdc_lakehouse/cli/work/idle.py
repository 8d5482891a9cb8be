"""A run that finds nothing new answers without Spark, from the mark of the last run.

Only a run of all tables and layers does, if all feeds are folders that this process can read, on
its disk or in an object store. Spark looks at snapshot files, at feeds that are read once, and at
Kafka every time.
"""

import time
from collections.abc import Sequence
from contextlib import suppress
from datetime import datetime, timezone
from typing import TYPE_CHECKING

from bronze.feeds import feed_folder, list_feeds
from cdc_lakehouse.cli.work.rounds import Round
from cdc_lakehouse.terminal.console import say, warn
from gold.status.status_file import is_outdated
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.places.settings import is_reached
from lakehouse.run import gaps
from lakehouse.run.ledger import Entry
from lakehouse.storage.settled import (
    Inputs,
    Mark,
    PendingTable,
    digest_of_lake,
    inputs_of,
    read_mark,
    remove_mark,
    write_mark,
)
from lakehouse.words import render_count

if TYPE_CHECKING:
    from silver.state.table_state import TableState

_GLOBS = frozenset("*?[]{}\\")


def look_at_inputs(target: Target, tables: Sequence[Table]) -> Inputs | None:
    """What a run of all tables depends on; None where only Spark knows if there is work."""
    all_feeds = list_feeds(tables)
    folders = [feed_folder(target, feed) for feed in all_feeds if feed.path is not None]
    if not is_looked_at_here(target, folders) or len(folders) < len(all_feeds):
        return None
    if any(feed.kafka or feed.once or feed.format == "snapshot" for feed in all_feeds):
        return None
    try:
        return inputs_of(target, tables, folders)
    except OSError:
        return None


def is_looked_at_here(target: Target, folders: Sequence[str] = ()) -> bool:
    """Whether this process can read a target's lake and these folders, none of them a pattern."""
    if target.kind not in ("local", "cluster") or target.catalog:
        return False
    plain = all(_GLOBS.isdisjoint(folder) for folder in folders)
    return plain and all(is_reached(target, each) for each in (target.lake, *folders))


def answer_from_mark(target: Target, tables: Sequence[Table], inputs: Inputs, merges: bool) -> bool:
    """Prints that nothing is new, and what is pending; False, and no print, if there may be work.

    With `merges` the run is to merge pending changes. The warnings of the run that left the mark
    are repeated.
    """
    mark = read_mark(target)
    if mark is None or not _mark_holds(target, mark, inputs) or (merges and mark.waiting):
        return False
    if is_outdated(target):
        return False

    say(f"nothing new: {render_count(len(tables), 'table')}, all up to date")
    for each in mark.waiting:
        until = f"{datetime.fromtimestamp(each.due_at, timezone.utc):%F %T} UTC"
        changes = render_count(each.records, "change")
        say(f"{each.table}: {changes} to be merged, not before {until}")
    for table, text in mark.warnings:
        warn(f"{table}: {text}")
    return True


def forget_mark(target: Target) -> None:
    """Takes the mark away, as a run begins to work."""
    if is_looked_at_here(target):
        remove_mark(target)


def leave_mark(given: Round, seen: tuple[Inputs, Sequence[Entry], list[tuple[str, str]]]) -> None:
    """Leaves the mark after a run of all tables and layers, unless anything is left to be done.

    `seen` is what the run depended on, as it was before the run, its entries and its warnings.
    """
    inputs, entries, warnings = seen
    leaves_work = any(e.status == "failed" or e.counts.get("waiting") for e in entries)
    waiting = _list_pending(given)
    if waiting is None or leaves_work or _is_incomplete(given):
        return
    with suppress(OSError):
        now, lake = time.time(), digest_of_lake(given.lake.target)
        mark = Mark(inputs=inputs, lake=lake, marked_at=now, waiting=waiting, warnings=warnings)
        write_mark(given.lake.target, mark)


def _mark_holds(target: Target, mark: Mark, inputs: Inputs) -> bool:
    with suppress(OSError):
        return mark.holds(inputs, digest_of_lake(target), time.time())
    return False


def _is_incomplete(given: Round) -> bool:
    """Whether records are missing at the source, or a transaction is not complete."""
    if gaps.open_gaps(given.lake):
        return True
    states = given.memory.tables.values() if given.memory else ()
    return any(state.group is not None and state.group.waiting for state in states)


def _list_pending(given: Round) -> list[PendingTable] | None:
    """The tables with pending changes; None where nobody knows when these are due."""
    from silver.freshness import due_at

    pending = list[PendingTable]()
    for table in given.everything or ():
        state: TableState | None = given.memory.tables.get(table.table) if given.memory else None
        if state is None:
            return None
        if state.pending:
            due, since = due_at(table, state), (state.applied_at or 0) / 1_000_000
            if due is None:
                return None
            one = PendingTable(table=table.table, records=state.pending, since=since, due_at=due)
            pending.append(one)
    return pending
