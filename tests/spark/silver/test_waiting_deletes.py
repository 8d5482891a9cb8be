"""What a full snapshot file lacks is not deleted while a line of its date cannot be read."""

import json

import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from gold.status.figures import describe_waiting
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run.ledger import read_states
from lakehouse.storage.lake import Lake
from silver.audit.verify import verify
from silver.maintenance.replay import replay_table
from silver.run import SilverTable
from tests.helpers import extract_lake


def line(id: int) -> str:
    return json.dumps({"id": id, "a": "x"})


def config() -> Table:
    return extract_lake.table(columns={"id": "int", "a": "string"})


def waiting_deletes(lake: Lake) -> list[str]:
    return describe_waiting(json.loads(read_states(lake)["t"]).get("days", []))


class DatedLake:
    """A lake of one snapshot table, to which files come one by one."""

    def __init__(self, spark: SparkSession, target: Target) -> None:
        self.spark, self.target, self.number = spark, target, 0

    def come(self, day: int, name: str, lines: list[str]) -> set[int]:
        """A file of a date comes and is applied; the keys that gold shows then."""
        self.number += 1
        file = extract_lake.land(self.target, f"2024-01-0{day}", name, lines)
        extract_lake.ingest(Lake(self.spark, self.target), config(), self.number, file)
        extract_lake.apply(Lake(self.spark, self.target), config())
        return self.shown()

    def shown(self) -> set[int]:
        return {
            row["id"] for row in extract_lake.rows(Lake(self.spark, self.target), config(), "t")
        }

    def waits(self) -> list[str]:
        return waiting_deletes(Lake(self.spark, self.target))

    def letters(self) -> int:
        rows = self.spark.table(f"delta.`{self.target.lake}/silver/t_dead_letters`")
        return rows.where("resolved_at IS NULL").count()


@pytest.fixture
def lake(spark: SparkSession, target: Target) -> DatedLake:
    """A lake in which the deletes of the second date wait."""
    made = DatedLake(spark, target)
    assert made.come(1, "a", [line(id) for id in (1, 2, 3)]) == {1, 2, 3}
    assert made.come(2, "a", [line(1), "{broken"]) == {1, 2, 3}
    (told,) = made.waits()
    assert told.startswith("the deletes of 2024-01-02 wait, as 1 lines of its files cannot be read")
    return made


@pytest.mark.slow
@pytest.mark.parametrize("name", ["b", "a.csv"])
def test_they_happen_when_the_file_comes_again_repaired(lake: DatedLake, name: str) -> None:
    assert lake.come(2, name, [line(1), line(2)]) == {1, 2}
    assert (lake.waits(), lake.letters()) == ([], 0)
    laws = verify(Lake(lake.spark, lake.target), config(), {})
    assert {law.law: law.first for law in laws if not law.holds} == {}


@pytest.mark.slow
def test_a_header_that_comes_again_is_a_dead_letter_and_no_row(
    spark: SparkSession, target: Target
) -> None:
    of = extract_lake.table(file_format="csv", columns={"id": "int", "a": "string"})
    days = [b"id;a\n1;x\n2;x\n", b'\xef\xbb\xbfID;"A"\n1;x\n\xef\xbb\xbfID;"A"\n3;x\n']
    for day, text in enumerate(days, 1):
        file = extract_lake.land(target, f"2024-01-0{day}", "a.csv", [])
        file.write_bytes(text)
        extract_lake.ingest(Lake(spark, target), of, day, file)

    counts = extract_lake.apply(Lake(spark, target), of)

    assert counts == {"records": 5, "I": 3, "N": 1, "D": 1, "dead_letter:not_csv": 1}
    assert waiting_deletes(Lake(spark, target)) == []
    assert {row["id"] for row in extract_lake.rows(Lake(spark, target), of, "t")} == {1, 3}


@pytest.mark.slow
def test_a_part_that_comes_later_is_no_repaired_file(lake: DatedLake) -> None:
    assert lake.come(2, "b", [line(3)]) == {1, 2, 3}
    assert len(lake.waits()) == lake.letters() == 1


@pytest.mark.slow
def test_the_next_date_decides_by_itself(lake: DatedLake) -> None:
    assert lake.come(3, "a", [line(2)]) == {2}
    assert len(lake.waits()) == 1


@pytest.mark.slow
def test_a_file_without_a_readable_line_deletes_nothing_either(lake: DatedLake) -> None:
    assert lake.come(3, "a", ["{broken"]) == {1, 2, 3}
    assert len(lake.waits()) == 2
    assert lake.come(3, "a2", [line(3)]) == {3}
    assert len(lake.waits()) == 1


@pytest.mark.slow
def test_they_happen_when_a_replay_reads_the_line(spark: SparkSession, target: Target) -> None:
    """A null in the key, which the configuration allows by now."""
    tenant = {"type": "string", "nullable": True}
    before, now = (
        extract_lake.table(keys=["id", "tenant"], columns={"id": "int", "tenant": of})
        for of in ("string", tenant)
    )
    days = {1: [(1, "t"), (2, "t")], 2: [(1, "t"), (3, None)]}
    for day, keys in days.items():
        lines = [json.dumps({"id": id, "tenant": of}) for id, of in keys]
        file = extract_lake.land(target, f"2024-01-0{day}", "a", lines)
        extract_lake.ingest(Lake(spark, target), before, day, file)
        extract_lake.apply(Lake(spark, target), before)
    assert keys_of(spark, target, before) == {(1, "t"), (2, "t")}
    assert len(waiting_deletes(Lake(spark, target))) == 1

    done = replay_table(SilverTable(Lake(spark, target), now), F.lit(True), "again")

    assert (done.tried, done.resolved) == (1, 1)
    assert keys_of(spark, target, now) == {(1, "t"), (3, None)}
    assert waiting_deletes(Lake(spark, target)) == []
    laws = verify(Lake(spark, target), now, {})
    assert {law.law: law.first for law in laws if not law.holds} == {}


def keys_of(spark: SparkSession, target: Target, of: Table) -> set[tuple[int, str | None]]:
    return {(row["id"], row["tenant"]) for row in extract_lake.rows(Lake(spark, target), of, "t")}
