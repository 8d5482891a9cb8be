"""`run --continuous`: every feed and every table at its own pace, until stopped.

A tick ingests a feed, applies the tables it brought something for, and publishes those. Each is
a piece of work of its own: a slow one holds back no other, and one that fails is tried again after
a pause that doubles, while the others go on. Nothing is written where nothing came. A feed is not
looked at again while its tables are quickly applied: what it brings would have to wait for them.
"""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Collection, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import FrameType
from typing import TYPE_CHECKING, NamedTuple, TypeAlias

from cdc_lakehouse.cli.work.rounds import has_news
from cdc_lakehouse.terminal.verbosity import is_json
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS, Layer
from lakehouse.durations import to_seconds
from lakehouse.run.memory import LULL_SECONDS, Memory

if TYPE_CHECKING:
    from lakehouse.run.ledger import Entry

Sums: TypeAlias = "dict[tuple[Layer, str], Entry]"
Do = Callable[[Layer, Sequence[Table]], "list[Entry]"]
Tell = Callable[["Entry"], None]

AT_ONCE = 6
GLANCE_SECONDS = 0.1
LOOK_AHEAD_SECONDS = 10.0
SLOW_SECONDS = 5.0
# A feed goes on bringing records while one of its files cannot be read, so it is never left long.
LONGEST_PAUSE: dict[Layer, float] = {"bronze": 15.0, "silver": 300.0, "gold": 300.0}


class Work(NamedTuple):
    """A layer's job over tables that it must do together."""

    layer: Layer
    tables: tuple[str, ...]


STDERR = 2
STOPPING = "stopping: what has begun is finished first; another signal breaks it off"
State: TypeAlias = dict[Work, float]


class Schedule(NamedTuple):
    """When each piece of work is due (or `later`, if nothing comes), and its failures in a row.

    `slow` work goes alone. `units` names of each table all tables of its consistency group;
    `waiting` work has pending changes; `held` are feeds whose tables are being applied, with the
    earliest time at which to look at them again.
    """

    due: State
    later: State
    failures: dict[Work, int]
    slow: set[Work]
    units: dict[str, tuple[str, ...]]
    waiting: set[Work]
    held: State

    def make_due(self, layer: Layer, table: str) -> None:
        """Makes a layer's work on the table due now, unless it is planned already."""
        self.due.setdefault(Work(layer, self.units[table]), time.monotonic())


def work_until_stopped(
    families: Sequence[Sequence[Table]],
    layers: Sequence[Layer],
    pause: float,
    do: Do,
    tell: Tell,
    stop: threading.Event,
) -> "list[Entry]":
    """Work until `stop` is set, and then to the end of the tick.

    Returns an entry per table and layer: counts and times of all its work, the status of the last.

    Args:
        families: the tables, those that share feeds together.
        layers: the layers to work on, in their order.
        pause: seconds between two looks at a feed.
        do: one layer's job over some tables.
        tell: called with every entry that has news.
        stop: ends it.
    """
    tables = list(itertools.chain.from_iterable(families))
    named = {table.table: table for table in tables}
    plan = Schedule({}, {}, {}, set(), _group_tables(tables), set(), {})
    _plan_first_work(plan, families, layers)
    busy: dict[Future[list[Entry]], list[Work]] = {}
    begun: dict[Work, float] = {}
    sums: Sums = {}

    def end(future: "Future[list[Entry]]") -> None:
        entries = future.result()
        sum_and_tell(sums, entries, tell)
        for work in busy.pop(future):
            del begun[work]
            own_entries = [entry for entry in entries if entry.table in work.tables]
            _go_on_with(plan, work, own_entries, layers, pause)
            _come_back(plan, work, own_entries, named)

    with ThreadPoolExecutor(AT_ONCE) as pool:
        while busy or _has_work_left(plan.due, stop):
            for works in _take_due_work(plan, begun, stop):
                begun.update(dict.fromkeys(works, time.monotonic()))
                some = [named[table] for work in works for table in work.tables]
                busy[pool.submit(do, works[0].layer, some)] = works
            for future in wait(busy, GLANCE_SECONDS, FIRST_COMPLETED)[0]:
                end(future)
            _look_ahead(plan, begun, layers)
            if not busy:
                time.sleep(GLANCE_SECONDS)
    return sorted(sums.values(), key=lambda entry: (LAYERS.index(entry.layer), entry.table))


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """Yields an event that SIGINT or SIGTERM sets; a second signal ends the process."""
    from cdc_lakehouse.terminal.console import log_line

    stop = threading.Event()
    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    previous = before[signal.SIGINT]

    def handle_signal(number: int, frame: FrameType | None) -> None:
        stop.set()
        said = log_line("info", STOPPING) if is_json() else STOPPING
        os.write(STDERR, f"{said}\n".encode())  # no print: it cannot be entered twice
        signal.signal(
            signal.SIGINT,
            previous if callable(previous) else signal.default_int_handler,
        )
        signal.signal(signal.SIGTERM, signal.SIG_DFL)

    for number in before:
        signal.signal(number, handle_signal)
    try:
        yield stop
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _group_tables(tables: Sequence[Table]) -> dict[str, tuple[str, ...]]:
    groups: dict[str, tuple[str, ...]] = {}
    for table in tables:
        group = table.consistency_group
        if group is not None:
            groups[group] = (*groups.get(group, ()), table.table)
    return {t.table: groups.get(t.consistency_group or "", (t.table,)) for t in tables}


def _plan_first_work(
    plan: Schedule, families: Sequence[Sequence[Table]], layers: Sequence[Layer]
) -> None:
    """Plans every feed, and every table, as an earlier run may have left pending changes."""
    now = time.monotonic()
    if "bronze" in layers:
        for family in families:
            plan.due[Work("bronze", tuple(table.table for table in family))] = now
    for layer in LAYERS[1:]:
        if layer in layers:
            for table in plan.units:
                plan.make_due(layer, table)


def _has_work_left(due: State, stop: threading.Event) -> bool:
    """Whether the loop has to go on: after a stop, to the end of the tick."""
    now = time.monotonic()
    return not stop.is_set() or any(
        work.layer != "bronze" and at <= now for work, at in due.items()
    )


def _take_due_work(
    plan: Schedule, begun: Collection[Work], stop: threading.Event
) -> list[list[Work]]:
    """Takes work that is due and not being done off the plan, and groups it by calls.

    Tables share a call, which is cheaper, but for those that are slow or to be merged; each feed
    has its own.
    """
    now = time.monotonic()
    for work in _list_due(plan.later, now):
        plan.due.setdefault(work, plan.later.pop(work))
        plan.slow.add(work)
    calls: dict[object, list[Work]] = {}
    for work in _list_due(plan.due, now):
        if _may_begin(work, begun, stop):
            del plan.due[work]
            alone = work.layer == "bronze" or work in plan.slow
            calls.setdefault(work if alone else work.layer, []).append(work)
    return sorted(calls.values(), key=lambda works: LAYERS.index(works[0].layer))


def _list_due(state: State, now: float) -> list[Work]:
    """The work that is due now, the longest due first."""
    return [work for at, work in sorted((at, work) for work, at in state.items()) if at <= now]


def _may_begin(work: Work, begun: Collection[Work], stop: threading.Event) -> bool:
    """No work begins twice, no feed begins after a stop, and gold goes one call at a time."""
    if work.layer == "bronze" and stop.is_set():
        return False
    publishing = work.layer == "gold" and any(other.layer == "gold" for other in begun)
    return work not in begun and not publishing


def _go_on_with(
    plan: Schedule,
    work: Work,
    entries: "Sequence[Entry]",
    layers: Sequence[Layer],
    pause: float,
) -> None:
    """Plans what follows a piece of work that ended."""
    failed = any(entry.status == "failed" for entry in entries)
    changed = [entry for entry in entries if any(entry.counts.values())]
    plan.failures[work] = plan.failures.get(work, 0) + 1 if failed else 0
    plan.held.pop(work, None)
    if failed:
        delay = back_off(plan.failures[work], pause, LONGEST_PAUSE[work.layer])
        plan.due[work] = time.monotonic() + delay
    else:
        _look_again(plan, work, layers, pause, bool(changed))
    _let_go(plan, work)
    slow = any(entry.duration_ms > SLOW_SECONDS * 1000 for entry in changed)
    (plan.slow.add if slow else plan.slow.discard)(work)
    # Of a feed that failed nobody knows what it brought.
    news = entries if failed and work.layer == "bronze" else changed
    _hand_on(plan, work.layer, layers, news)


def _hand_on(
    plan: Schedule, layer: Layer, layers: Sequence[Layer], news: "Sequence[Entry]"
) -> None:
    """Makes the next layer's work on the tables of these entries due."""
    following = LAYERS[LAYERS.index(layer) + 1 :][:1]
    if following and following[0] in layers:
        for entry in news:
            plan.make_due(following[0], entry.table)


def _look_again(
    plan: Schedule, work: Work, layers: Sequence[Layer], pause: float, changed: bool
) -> None:
    """Plans the first layer's work after a pause; a feed that brought something is held."""
    if work.layer != layers[0] or work.layer == "gold":
        return
    now = time.monotonic()
    plan.due[work] = now + pause
    if changed and work.layer == "bronze" and "silver" in layers:
        plan.held[work], plan.due[work] = now + pause, now + max(pause, SLOW_SECONDS)


def _let_go(plan: Schedule, work: Work) -> None:
    """Releases the feeds whose tables were applied."""
    if work.layer != "silver":
        return
    for feed in [feed for feed in plan.held if not set(work.tables).isdisjoint(feed.tables)]:
        plan.due[feed] = plan.held.pop(feed)


def _come_back(
    plan: Schedule, work: Work, entries: "Sequence[Entry]", named: dict[str, Table]
) -> None:
    """Plans another look at pending changes after half the table's `max_staleness`.

    Without a `max_staleness` it is after `LULL_SECONDS` or more, one table after the other.
    """
    spread = 1 + list(plan.units).index(work.tables[0]) / (2 * len(plan.units))
    for entry in entries:
        pending = entry.counts.get("pending", 0)
        if entry.layer == "silver" and (pending or "records" in entry.counts):
            (plan.waiting.add if pending > 0 else plan.waiting.discard)(work)
        if work in plan.waiting:
            promise = to_seconds(named[entry.table].max_staleness or 0)
            plan.later.setdefault(work, time.monotonic() + (promise / 2 or LULL_SECONDS * spread))


def back_off(failures: int, pause: float, longest: float) -> float:
    """Seconds until a piece of work that failed so often in a row is tried again."""
    return min(max(pause, 1.0) * 2.0 ** min(failures, 10), longest)


def _look_ahead(plan: Schedule, begun: dict[Work, float], layers: Sequence[Layer]) -> None:
    """Plans silver for the tables of a feed that takes long, for what it has brought so far."""
    now = time.monotonic()
    for work, since in begun.items():
        if work.layer == "bronze" and "silver" in layers and now - since > LOOK_AHEAD_SECONDS:
            begun[work] = now
            for table in work.tables:
                plan.make_due("silver", table)


def apply_pending(
    tables: Sequence[Table],
    entries: "Sequence[Entry]",
    do: Do,
    tell: Tell,
    memory: Memory | None,
) -> "list[Entry]":
    """At the end of a run: applies pending changes of tables without `max_staleness`."""
    waits = {entry.table for entry in entries if entry.counts.get("pending", 0) > 0}
    left = [t for t in tables if t.table in waits and not to_seconds(t.max_staleness or 0)]
    if memory is None or not left:
        return list(entries)
    memory.among, memory.merge_all = None, True
    sums: Sums = {(entry.layer, entry.table): entry for entry in entries}
    sum_and_tell(sums, do("silver", left), tell)
    return list(sums.values())


def sum_and_tell(sums: "Sums", entries: "Sequence[Entry]", tell: Tell) -> None:
    """Adds entries to the sums, and passes those with news to `tell`."""
    for entry in entries:
        _add_entry(sums, entry)
        if has_news(entry):
            tell(entry)


def _add_entry(sums: "Sums", entry: "Entry") -> None:
    """Counts and times summed, the rest as it is now."""
    before = sums.get((entry.layer, entry.table))
    if before is not None:
        names = {**before.counts, **entry.counts}
        counts = {n: before.counts.get(n, 0) + entry.counts.get(n, 0) for n in names}
        duration = before.duration_ms + entry.duration_ms
        entry = entry.model_copy(update={"counts": counts, "duration_ms": duration})
    sums[entry.layer, entry.table] = entry
