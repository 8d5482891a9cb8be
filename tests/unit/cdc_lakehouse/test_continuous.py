import signal
import threading
import time
from collections.abc import Callable, Sequence
from datetime import datetime, timezone

import pytest

from cdc_lakehouse.cli.work import continuous
from cdc_lakehouse.cli.work.continuous import Schedule, back_off, work_until_stopped
from lakehouse.config.table import Table
from lakehouse.config.target import Layer
from lakehouse.interrupts import go_on
from lakehouse.run.ledger import Entry

NOW = datetime(2026, 1, 1, tzinfo=timezone.utc)
Answer = Callable[[Layer, str], dict[str, int]]


def table(name: str) -> Table:
    source = {"format": "debezium", "path": name}
    return Table.model_validate({"table": name, "keys": ["id"], "source": source})


def entry(layer: Layer, name: str, counts: dict[str, int], message: str | None = None) -> Entry:
    status = "failed" if message else "ok"
    given = {"run_id": "r", "layer": layer, "table": name, "started_at": NOW, "ended_at": NOW}
    return Entry.model_validate(given | {"counts": counts, "status": status, "message": message})


class TwoTables:
    """Layers whose work is what the test says, with a note of all that was done."""

    def __init__(self, *names: str) -> None:
        self.tables = [table(name) for name in names]
        self.done: list[tuple[str, str]] = []
        self.waiting = dict.fromkeys(names, 0)
        self.slow: dict[str, float] = {}
        self.failing, self.always = set[str](), set[str]()
        self.stop = threading.Event()
        self.told: list[Entry] = []

    def do(self, layer: Layer, tables: Sequence[Table]) -> list[Entry]:
        return [self._do(layer, table.table) for table in tables]

    def _do(self, layer: Layer, name: str) -> Entry:
        self.done.append((layer, name))
        if layer == "bronze":
            came, self.waiting[name] = self.waiting[name], int(name in self.always)
            return entry(layer, name, {"records": came})
        if layer == "silver":
            time.sleep(self.slow.get(name, 0))
            if name in self.failing:
                return entry(layer, name, {}, "no")
            return entry(layer, name, {"inserted": self.done.count(("bronze", name))})
        return entry(layer, name, {})

    def run(self, seconds: float) -> list[Entry]:
        threading.Timer(seconds, self.stop.set).start()
        families = [[table] for table in self.tables]
        layers: list[Layer] = ["bronze", "silver", "gold"]
        return work_until_stopped(families, layers, 0.05, self.do, self.told.append, self.stop)

    def busy_with(self, name: str) -> None:
        """Something came for the table before anything else did."""
        threading.Timer(0.2, lambda: self.waiting.update({name: 1})).start()

    def times(self, layer: Layer, name: str) -> int:
        return self.done.count((layer, name))


def test_idle_feeds_are_looked_at_and_nothing_else_is_done() -> None:
    lake = TwoTables("a", "b")
    lake.run(1)
    assert lake.times("bronze", "a") > 3
    assert (lake.times("silver", "a"), lake.times("silver", "b")) == (1, 1)


def test_what_comes_goes_through_all_layers_of_its_own_table_only() -> None:
    lake = TwoTables("a", "b")
    threading.Timer(0.5, lambda: lake.waiting.update(a=3)).start()
    lake.run(1.2)
    assert (lake.times("silver", "a"), lake.times("silver", "b")) == (2, 1)
    after = lake.done[lake.done.index(("silver", "a")) :]
    assert ("gold", "a") in after


def test_slow_tables_are_published_in_one_call_and_applied_in_their_own() -> None:
    for layer, calls in (("gold", [2]), ("silver", [1, 1])):
        only: list[Layer] = [layer]
        schedule = Schedule([[table("a")], [table("b")]], only, 1.0)
        schedule.slow.update(schedule.due)
        begun = schedule.take_due_work(threading.Event())
        assert [len(works) for works in begun] == calls


def test_a_slow_table_holds_back_no_other() -> None:
    lake = TwoTables("slow", "quick")
    lake.slow["slow"] = 1.5
    lake.busy_with("slow")
    threading.Timer(0.4, lambda: lake.waiting.update(quick=1)).start()
    begun = time.monotonic()
    lake.run(1.0)
    assert lake.times("silver", "quick") == 2
    assert time.monotonic() - begun >= 1.5


def test_a_feed_is_looked_at_again_once_its_tables_are_applied() -> None:
    lake = TwoTables("t1", "t2")
    lake.always, lake.slow["t1"] = {"t1"}, 0.3
    lake.run(1.5)
    looks, applies = lake.done.count(("bronze", "t1")), lake.done.count(("silver", "t1"))
    assert applies > 2
    assert abs(looks - applies) <= 1
    assert lake.done.count(("bronze", "t2")) > 2 * looks


def test_a_feed_whose_tables_take_long_is_looked_at_all_the_same(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(continuous, "SLOW_SECONDS", 0.1)
    lake = TwoTables("t1")
    lake.always, lake.slow["t1"] = {"t1"}, 1.0
    lake.run(0.9)
    assert lake.done.count(("bronze", "t1")) > 3


def test_a_table_that_fails_is_tried_again_with_back_off_while_others_go_on() -> None:
    lake = TwoTables("bad", "good")
    lake.failing.add("bad")

    def comes() -> None:
        lake.waiting.update(bad=1, good=1)
        if not lake.stop.is_set():
            threading.Timer(0.1, comes).start()

    comes()
    sums = lake.run(3)
    assert lake.times("silver", "bad") == 2
    assert lake.times("silver", "good") > 5
    assert {e.table: e.status for e in sums if e.layer == "silver"} == {
        "bad": "failed",
        "good": "ok",
    }


def test_what_waits_to_be_applied_is_looked_at_after_half_the_promise() -> None:
    lake = TwoTables("a")
    lake.tables = [lake.tables[0].model_copy(update={"max_staleness": 2})]
    waits = iter([{"records": 1, "pending": 1}, {"records": 0, "pending": -1}])

    def do(layer: Layer, tables: Sequence[Table]) -> list[Entry]:
        lake.done.append((layer, "a"))
        return [entry(layer, "a", next(waits, {}) if layer == "silver" else {})]

    threading.Timer(1.6, lake.stop.set).start()
    layers: list[Layer] = ["bronze", "silver", "gold"]
    work_until_stopped([lake.tables], layers, 0.05, do, lake.told.append, lake.stop)
    assert lake.times("silver", "a") == 2
    assert [e.counts["pending"] for e in lake.told] == [1, -1]


def test_told_to_stop_it_finishes_what_has_come(monkeypatch: pytest.MonkeyPatch) -> None:
    lake = TwoTables("a")
    monkeypatch.setattr(lake, "waiting", {"a": 5})
    lake.stop.set()
    lake.run(0)
    assert lake.times("bronze", "a") == 0
    assert lake.times("silver", "a") == 1


def test_counts_are_summed_per_table_and_layer() -> None:
    lake = TwoTables("a")
    threading.Timer(0.4, lambda: lake.waiting.update(a=2)).start()
    threading.Timer(0.8, lambda: lake.waiting.update(a=3)).start()
    sums = lake.run(1.4)
    assert [e.counts for e in sums if e.layer == "bronze"] == [{"records": 5}]


def test_a_pause_doubles_up_to_the_longest() -> None:
    assert [back_off(n, 2, 20) for n in (1, 2, 3, 50)] == [4, 8, 16, 20]


def test_a_signal_sets_the_event_and_a_second_one_is_deadly() -> None:
    before = signal.signal(signal.SIGINT, signal.SIG_IGN)
    with continuous.stop_on_signal() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            signal.raise_signal(signal.SIGINT)
    assert signal.signal(signal.SIGINT, before) is signal.SIG_IGN


def test_the_first_signal_says_that_the_work_is_finished_first(
    capfd: pytest.CaptureFixture[str],
) -> None:
    with continuous.stop_on_signal() as stop:
        signal.raise_signal(signal.SIGINT)
        assert stop.is_set()
    assert (
        "what has begun is finished first; another signal breaks it off" in capfd.readouterr().err
    )


def test_sigterm_breaks_off_what_takes_too_long(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(continuous, "GRACE_SECONDS", 0.2)
    began = time.monotonic()
    with continuous.stop_on_signal() as stop:
        signal.raise_signal(signal.SIGTERM)
        assert stop.is_set()
        with pytest.raises(KeyboardInterrupt):
            time.sleep(30)
    assert time.monotonic() - began < 10
    go_on()
    with continuous.stop_on_signal():
        signal.raise_signal(signal.SIGTERM)
    time.sleep(0.4)
