"""A lake that is a week, nine days and forty days old, in which everything is done once."""

import json
from datetime import datetime, timedelta, timezone
from pathlib import Path

import pytest

from cdc_lakehouse.cli.ask.export import write_view
from cdc_lakehouse.cli.ask.queries import print_answer
from cdc_lakehouse.cli.check.dead_letters import replay_letters
from cdc_lakehouse.cli.work.erase import Erasure, erase_key
from cdc_lakehouse.cli.work.maintain import pin_groups, tend_tables
from cdc_lakehouse.cli.work.rebuild import rebuild_table
from cdc_lakehouse.cli.work.rounds import Round, try_layer
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS
from lakehouse.run.ledger import Entry
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from silver.audit.verify import verify
from silver.changelog.dead_letter_list import Wanted
from tests.helpers import shop
from tests.helpers.ages import age
from tests.helpers.lakes import land, quiet, rows

pytestmark = pytest.mark.slow
FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"
PEOPLE = {
    "table": "people",
    "source": {"format": "rows", "path": "people"},
    "keys": ["id"],
    "sequence_by": "at",
    "columns": {"id": "int", "name": "string", "at": "timestamp"},
    "stored_as_scd_type": 2,
    "publish": "table",
}


class AgedLake:
    """A lake of a group, a published history, and two tables that other Delta tables feed.

    Attributes:
        lost: the tables that may fail, as versions of their source cannot be read any more.
    """

    lost: frozenset[str] = frozenset()

    def __init__(self, lake: Lake, folder: Path) -> None:
        self.lake, self.source = lake, shop.Source()
        self.places = {"followed": folder / "followed", "appended": folder / "appended"}
        copies = [
            {"table": name, "source": {"format": "rows", "delta": str(place)}, "keys": ["id"]}
            for name, place in self.places.items()
        ]
        self.tables = [*shop.shop(), *map(Table.model_validate, [PEOPLE, *copies])]
        self.people = next(table for table in self.tables if table.table == "people")
        self.memory: Memory | None = None
        self.ids = 0
        for name, place in self.places.items():
            feed = FEED if name == "followed" else ""
            lake.spark.sql(f"CREATE TABLE delta.`{place}` (id bigint) USING delta {feed}")

    def arrive(self) -> None:
        """One new record of everything."""
        self.ids += 1
        shop.land(self.lake.target, str(self.ids), self.source.order(self.ids, 2))
        at = f"2024-01-{self.ids:02}T00:00:00Z"
        person = {"id": self.ids, "name": f"Person {self.ids}", "at": at}
        land(self.lake.target, "people", f"{self.ids}.jsonl", [json.dumps(person)])
        for place in self.places.values():
            self.lake.spark.sql(f"INSERT INTO delta.`{place}` VALUES ({self.ids})")

    def work(self, *layers: str) -> list[Entry]:
        """One round; fails where a table fails that did not lose versions of its source."""
        given = Round(self.lake, "run", self.tables, self.memory)
        entries: list[Entry] = []
        for layer in LAYERS:
            if layer in (layers or LAYERS):
                entries += try_layer(given, self.tables, layer, quiet)
        self.check(entries)
        return entries

    def check(self, entries: list[Entry]) -> None:
        failed = {e.table: e.message for e in entries if e.status == "failed"}
        assert failed.keys() <= self.lost, failed

    def check_gold(self) -> None:
        """Gold shows all of everything."""
        ids = {*range(1, self.ids + 1)}
        assert shop.shown(self.lake) == dict.fromkeys(ids, 2)
        for name in ("people", *self.places):
            assert {row["id"] for row in rows(self.lake, name)} == ids, name

    def grow_old(self, days: int) -> None:
        """The lake and the tables that feed it were quiet for days."""
        for place in (self.lake.target.lake, *self.places.values()):
            age(self.lake.spark, place, days)


@pytest.fixture
def aged(lake: Lake, tmp_path: Path) -> AgedLake:
    made = AgedLake(lake, tmp_path)
    for _ in range(2):
        made.arrive()
        made.work()
    made.check_gold()
    return made


@pytest.mark.parametrize("days", [7, 9, 40])
def test_a_quiet_lake_goes_on(aged: AgedLake, days: int) -> None:
    aged.grow_old(days)
    aged.check_gold()
    aged.work()
    aged.arrive()
    aged.work("bronze", "silver")
    assert shop.shown(aged.lake) == {1: 2, 2: 2}
    aged.work("gold")
    aged.check_gold()
    for table in aged.tables:
        laws = verify(aged.lake, table, {})
        assert [law for law in laws if law.broken] == []


@pytest.mark.parametrize("days", [9, 40])
def test_a_quiet_lake_is_maintained_again_and_again(aged: AgedLake, days: int) -> None:
    for _ in range(2):
        aged.grow_old(days)
        aged.check(tend_tables(aged.lake, aged.tables, False, quiet))
        aged.check(pin_groups(aged.lake, aged.tables))
        aged.check_gold()


@pytest.mark.parametrize("days", [9, 40])
def test_a_quiet_lake_is_rebuilt_and_its_letters_replayed(aged: AgedLake, days: int) -> None:
    for name in ("orders", "people", "followed"):
        aged.grow_old(days)
        (table,) = [table for table in aged.tables if table.table == name]
        rebuild_table(aged.lake, table, quiet, aged.tables)
        aged.check_gold()
    aged.grow_old(days)
    aged.check(replay_letters(aged.lake, (aged.tables, aged.tables), Wanted((), None), "run"))
    aged.check_gold()


@pytest.mark.parametrize("days", [9, 40])
def test_a_quiet_lake_is_asked_exported_and_erased_from(
    aged: AgedLake, days: int, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    lake = aged.lake
    aged.grow_old(days)
    moment = (datetime.now(timezone.utc) - timedelta(days=days)).strftime("%F %T")
    capsys.readouterr()
    print_answer(lake, "SELECT count(*) AS n FROM gold.orders", "csv", moment)
    print_answer(lake, "SELECT id FROM gold.people_as_of(TIMESTAMP '2024-01-01')", "csv")
    assert capsys.readouterr().out.split() == ["n", "2", "id", "1"]
    assert write_view(lake, "orders", (str(tmp_path / "out"), "delta")) == 2
    assert erase_key(lake, Erasure(aged.people, {"id": "1"}, True, quiet), aged.tables)
    assert {row["id"] for row in rows(lake, "people")} == {2}
    aged.grow_old(days)
    aged.arrive()
    aged.work()
    assert {row["id"] for row in rows(lake, "people")} == {2, 3}


def test_a_continuous_run_that_was_paused_for_weeks_goes_on(aged: AgedLake) -> None:
    aged.memory = Memory(len(aged.tables))
    aged.work()
    aged.grow_old(9)
    aged.arrive()
    aged.work()
    aged.check_gold()


def test_versions_that_came_during_weeks_without_a_run_are_read_as_rows(aged: AgedLake) -> None:
    aged.arrive()
    aged.grow_old(9)
    aged.arrive()
    aged.lost = frozenset(aged.places)
    aged.work()
    aged.check_gold()
    aged.lost = frozenset()
    aged.work()
    aged.check_gold()
