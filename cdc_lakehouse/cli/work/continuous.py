"""`run --continuous`: every feed and every table at its own pace, until stopped.

A tick ingests a feed, applies the tables for which it brought records, and publishes those. Each
step is scheduled on its own: a slow one holds back no other, and one that fails is tried again
after a pause that doubles, while the others go on. Nothing is written where nothing came. A feed is
not looked at again while its tables are being applied, as its new records would have to wait.
"""

import itertools
import os
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import FIRST_COMPLETED, Future, ThreadPoolExecutor, wait
from contextlib import contextmanager
from types import FrameType
from typing import NamedTuple, TypeAlias

from cdc_lakehouse.cli.work.rounds import has_news
from cdc_lakehouse.terminal.console import log_line
from cdc_lakehouse.terminal.verbosity import is_json
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS, Layer
from lakehouse.durations import to_seconds
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import LULL_SECONDS, Memory

Sums: TypeAlias = dict[tuple[Layer, str], Entry]
Do = Callable[[Layer, Sequence[Table]], list[Entry]]
Tell = Callable[[Entry], None]

AT_ONCE = 6
GLANCE_SECONDS = 0.1
LOOK_AHEAD_SECONDS = 10.0
SLOW_SECONDS = 5.0
# A feed goes on bringing records while one of its files cannot be read, so its pause stays short.
LONGEST_PAUSE: dict[Layer, float] = {"bronze": 15.0, "silver": 300.0, "gold": 300.0}
NEXT_LAYER = dict(itertools.pairwise(LAYERS))
STDERR = 2
STOPPING = "stopping: what has begun is finished first; another signal breaks it off"
GRACE_SECONDS, LAST_SECONDS = 10.0, 4.0
"""After SIGTERM: when work that is not finished is broken off, and then the process ended."""


class Work(NamedTuple):
    """A layer's job over tables that it must do together."""

    layer: Layer
    tables: tuple[str, ...]


Times: TypeAlias = dict[Work, float]


class Schedule:
    """When each piece of work is due; times are those of `time.monotonic`.

    Attributes:
        tables: the tables by name.
        units: by table, the names of all tables of its consistency group.
        due: when planned work is to begin.
        later: when tables with pending changes are worked on again, unless records come before.
        held: feeds whose tables are being applied: when they are looked at again at the earliest.
        begun: work that is being done: since when, or when `look_ahead` last saw to it.
        failures: how often work has failed in a row.
        slow: work that is done in a call of its own.
        pending: work whose tables have pending changes.
    """

    def __init__(
        self, families: Sequence[Sequence[Table]], layers: Sequence[Layer], pause: float
    ) -> None:
        """Plan every feed, and every table, as an earlier run may have left pending changes."""
        self.tables = {table.table: table for family in families for table in family}
        self.layers, self.pause = layers, pause
        groups: dict[object, tuple[str, ...]] = {}
        group_of = {name: t.consistency_group or (name,) for name, t in self.tables.items()}
        for name, group in group_of.items():
            groups[group] = (*groups.get(group, ()), name)
        self.units = {name: groups[group] for name, group in group_of.items()}
        self.due, self.later, self.held, self.begun = Times(), Times(), Times(), Times()
        self.failures: dict[Work, int] = {}
        self.slow, self.pending = set[Work](), set[Work]()
        if "bronze" in layers:
            feeds = [Work("bronze", tuple(table.table for table in family)) for family in families]
            self.due.update(dict.fromkeys(feeds, time.monotonic()))
        for layer in LAYERS[1:]:
            self._make_due(layer, self.units)

    def _make_due(self, layer: Layer | None, tables: Iterable[str]) -> None:
        """Makes the layer's work on the tables due now, unless planned; not of layers left out."""
        if layer is not None and layer in self.layers:
            for table in tables:
                self.due.setdefault(Work(layer, self.units[table]), time.monotonic())

    def has_work_left(self, stop: threading.Event) -> bool:
        """Whether the loop has to go on: after a stop, to the end of the tick."""
        now = time.monotonic()
        return not stop.is_set() or any(
            work.layer != "bronze" and at <= now for work, at in self.due.items()
        )

    def take_due_work(self, stop: threading.Event) -> list[list[Work]]:
        """Begins the work that is due and not being done, and groups it by calls.

        Tables share a call, which is cheaper, except slow ones and those to be merged in silver;
        each feed has its own.
        """
        now = time.monotonic()
        for work in _list_due(self.later, now):
            self.due.setdefault(work, self.later.pop(work))
            self.slow.add(work)
        calls: dict[object, list[Work]] = {}
        for work in _list_due(self.due, now):
            if self._may_begin(work, stop):
                del self.due[work]
                alone = work.layer == "bronze" or (work.layer == "silver" and work in self.slow)
                calls.setdefault(work if alone else work.layer, []).append(work)
        self.begun.update({work: now for works in calls.values() for work in works})
        return sorted(calls.values(), key=lambda works: LAYERS.index(works[0].layer))

    def _may_begin(self, work: Work, stop: threading.Event) -> bool:
        """Whether work may begin: none twice, no feed after a stop, gold one call at a time."""
        if work.layer == "bronze" and stop.is_set():
            return False
        publishing = work.layer == "gold" and any(other.layer == "gold" for other in self.begun)
        return work not in self.begun and not publishing

    def end_work(self, work: Work, entries: Sequence[Entry]) -> None:
        """Plans what follows a piece of work, of which these are the entries."""
        failed = any(entry.status == "failed" for entry in entries)
        changed = [entry for entry in entries if any(entry.counts.values())]
        del self.begun[work]
        self.failures[work] = self.failures.get(work, 0) + 1 if failed else 0
        self._plan_next_look(work, bool(changed))
        slow = any(entry.duration_ms > SLOW_SECONDS * 1000 for entry in changed)
        (self.slow.add if slow else self.slow.discard)(work)
        # Nobody knows which records a feed brought before it failed.
        news = entries if failed and work.layer == "bronze" else changed
        self._make_due(NEXT_LAYER.get(work.layer), [entry.table for entry in news])
        self._plan_merge(work, entries)

    def _plan_next_look(self, work: Work, changed: bool) -> None:
        """Plans work again that failed or is the first layer's; after silver also held feeds."""
        layer, now = work.layer, time.monotonic()
        self.held.pop(work, None)
        if self.failures[work]:
            delay = back_off(self.failures[work], self.pause, LONGEST_PAUSE[layer])
            self.due[work] = now + delay
        elif layer == self.layers[0] and layer != "gold":
            self.due[work] = now + self.pause
            if changed and layer == "bronze" and "silver" in self.layers:
                self.held[work] = self.due[work]
                self.due[work] = now + max(self.pause, SLOW_SECONDS)
        if layer == "silver":
            for feed in [f for f in self.held if not set(work.tables).isdisjoint(f.tables)]:
                self.due[feed] = self.held.pop(feed)

    def _plan_merge(self, work: Work, entries: Sequence[Entry]) -> None:
        """Plans another look at pending changes after half the table's `max_staleness`.

        Without a `max_staleness` it is after `LULL_SECONDS` or more, one table after the other.
        """
        spread = 1 + list(self.units).index(work.tables[0]) / (2 * len(self.units))
        for entry in entries:
            pending = entry.counts.get("pending", 0)
            if entry.layer == "silver" and (pending or "records" in entry.counts):
                (self.pending.add if pending > 0 else self.pending.discard)(work)
            if work in self.pending:
                promise = to_seconds(self.tables[entry.table].max_staleness or 0)
                delay = promise / 2 or LULL_SECONDS * spread
                self.later.setdefault(work, time.monotonic() + delay)

    def look_ahead(self) -> None:
        """Plans silver for the tables of a feed that takes long, for what it has brought so far."""
        now = time.monotonic()
        for work, since in self.begun.items():
            if work.layer == "bronze" and now - since > LOOK_AHEAD_SECONDS:
                self.begun[work] = now
                self._make_due("silver", work.tables)


def work_until_stopped(
    families: Sequence[Sequence[Table]],
    layers: Sequence[Layer],
    pause: float,
    do: Do,
    tell: Tell,
    stop: threading.Event,
) -> list[Entry]:
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
    schedule = Schedule(families, layers, pause)
    sums: Sums = {}
    busy: dict[Future[list[Entry]], list[Work]] = {}
    with ThreadPoolExecutor(AT_ONCE) as pool:
        while busy or schedule.has_work_left(stop):
            for works in schedule.take_due_work(stop):
                some = [schedule.tables[table] for work in works for table in work.tables]
                busy[pool.submit(do, works[0].layer, some)] = works
            for future in wait(busy, GLANCE_SECONDS, FIRST_COMPLETED)[0]:
                entries = future.result()
                sum_and_tell(sums, entries, tell)
                for work in busy.pop(future):
                    schedule.end_work(work, [e for e in entries if e.table in work.tables])
            schedule.look_ahead()
            if not busy:
                time.sleep(GLANCE_SECONDS)
    return sorted(sums.values(), key=lambda entry: (LAYERS.index(entry.layer), entry.table))


def _list_due(times: Times, now: float) -> list[Work]:
    """The work that is due now, the longest due first."""
    return [work for at, work in sorted((at, work) for work, at in times.items()) if at <= now]


def back_off(failures: int, pause: float, longest: float) -> float:
    """Seconds until a piece of work that failed so often in a row is tried again."""
    return min(max(pause, 1.0) * 2.0 ** min(failures, 10), longest)


@contextmanager
def stop_on_signal() -> Iterator[threading.Event]:
    """Yields an event that SIGINT or SIGTERM sets; a second signal ends the process.

    A supervisor sends SIGTERM once, and kills what does not end: so that signal breaks work off
    that takes longer than `GRACE_SECONDS`, as Ctrl-C does, and at last ends the process.
    """
    stop, ended = threading.Event(), threading.Event()

    def break_off() -> None:
        for seconds, number in ((GRACE_SECONDS, signal.SIGINT), (LAST_SECONDS, signal.SIGTERM)):
            if ended.wait(seconds):
                return
            os.kill(os.getpid(), number)

    before = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}
    previous = before[signal.SIGINT]

    def handle_signal(number: int, frame: FrameType | None) -> None:
        stop.set()
        said = log_line("info", STOPPING) if is_json() else STOPPING
        os.write(STDERR, f"{said}\n".encode())  # no print: it cannot be entered twice
        signal.signal(signal.SIGINT, previous if callable(previous) else signal.default_int_handler)
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        if number == signal.SIGTERM:
            threading.Thread(target=break_off, daemon=True).start()

    for number in before:
        signal.signal(number, handle_signal)
    try:
        yield stop
    finally:
        ended.set()
        for number, handler in before.items():
            signal.signal(number, handler)


def apply_pending(
    tables: Sequence[Table], entries: Sequence[Entry], do: Do, tell: Tell, memory: Memory | None
) -> list[Entry]:
    """At the end of a run: applies pending changes of tables without `max_staleness`."""
    waits = {entry.table for entry in entries if entry.counts.get("pending", 0) > 0}
    left = [t for t in tables if t.table in waits and not to_seconds(t.max_staleness or 0)]
    if memory is None or not left:
        return list(entries)
    memory.among, memory.merge_all = None, True
    sums: Sums = {(entry.layer, entry.table): entry for entry in entries}
    sum_and_tell(sums, do("silver", left), tell)
    return list(sums.values())


def sum_and_tell(sums: Sums, entries: Sequence[Entry], tell: Tell) -> None:
    """Adds counts and times of entries to the sums; passes entries with news to `tell`."""
    for entry in entries:
        merged, before = entry, sums.get((entry.layer, entry.table))
        if before is not None:
            counts = {
                name: before.counts.get(name, 0) + entry.counts.get(name, 0)
                for name in {**before.counts, **entry.counts}
            }
            duration = before.duration_ms + entry.duration_ms
            merged = entry.model_copy(update={"counts": counts, "duration_ms": duration})
        sums[entry.layer, entry.table] = merged
        if has_news(entry):
            tell(entry)
