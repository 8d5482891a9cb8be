"""Which session a run works in on what is new."""

from typing import Any, cast

from cdc_lakehouse.cli.work.rounds import Round, to_keep
from lakehouse.config.target import Target
from lakehouse.run.ledger import Entry, make_entry
from lakehouse.run.memory import FEW, Memory
from lakehouse.storage.lake import Lake
from tests.unit.cdc_lakehouse.test_continuous import NOW

SPARK, BRIEF = cast("Any", "spark"), cast("Any", "brief")


def came(records: int) -> Entry:
    return make_entry("r", "bronze", "t", NOW).with_counts({"records": records})


def memory() -> Memory:
    found = Memory(among=1)
    found.brief, found.shown = BRIEF, {"t"}
    return found


def test_little_is_worked_on_in_the_session_for_it_once() -> None:
    run = memory()
    run.count([came(FEW - 1), came(1)])
    assert [run.session_for(SPARK, "t") for _ in range(2)] == [BRIEF, SPARK]


def test_much_is_not() -> None:
    run = memory()
    run.count([came(FEW)])
    run.count([came(1)])
    assert run.session_for(SPARK, "t") == SPARK


def test_nor_what_an_earlier_run_may_have_left_more_of() -> None:
    run = memory()
    run.count([came(1)])
    run.shown.clear()
    assert run.session_for(SPARK, "t") == SPARK


def test_a_run_without_such_a_session_has_one_for_all() -> None:
    run = memory()
    run.brief = None
    run.count([came(1)])
    assert run.session_for(SPARK, "t") == SPARK


def test_the_first_work_after_a_failure_is_kept_and_no_other_idle_work() -> None:
    run = Memory()
    run.failing = {("bronze", "t"), ("gold", "t")}
    given, failed = Round(Lake(SPARK, Target(root="/r"))), make_entry("r", "bronze", "t", NOW, "no")

    def kept(entry: Entry) -> list[Entry]:
        return to_keep(given, [entry], run)

    idle = came(0)
    assert kept(idle) == [idle]
    assert kept(idle) == []
    assert kept(failed) == [failed] == kept(failed)
    assert kept(idle) == [idle]
    assert run.failing == {("gold", "t")}


def test_every_fiftieth_round_that_wrote_to_a_table_joins_its_small_files() -> None:
    memory = Memory(2)
    due = [memory.note_rounds("silver", ["a", "b"] if n % 2 else ["a"]) for n in range(1, 101)]
    assert {n: names for n, names in enumerate(due, 1) if names} == {
        50: ["a"],
        99: ["b"],
        100: ["a"],
    }
    assert memory.note_rounds("bronze", ["a"]) == []
