"""`source.delta`: another Delta table, of a lake or not, feeds a table; and `export`."""

import csv
import json
from pathlib import Path
from typing import Any

import polars as pl
import pytest
from deltalake import DeltaTable
from pyspark.sql import SparkSession

from bronze import job as bronze
from bronze.loss.watch import watch_for_loss
from cdc_lakehouse.cli.ask.export import write_view
from lakehouse.config.table import Table
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from tests.conftest import target_at
from tests.helpers.ages import age
from tests.helpers.lakes import land, quiet, run, settle
from tests.helpers.lakes import rows as shown

Row = dict[str, Any]
COLUMNS = {"id": "bigint", "name": "string", "price": "decimal(10,2)", "seen": "timestamp"}
FEED = "TBLPROPERTIES (delta.enableChangeDataFeed = true)"


def reading(folder: str, **more: Any) -> Table:
    source = {"format": "rows", "delta": folder}
    given = {"table": "copy", "source": source, "keys": ["id"], "columns": COLUMNS}
    return Table.model_validate(given | more)


@pytest.fixture
def theirs(spark: SparkSession, tmp_path: Path) -> str:
    """The SQL name of a Delta table with a change feed."""
    name = f"delta.`{tmp_path}/theirs`"
    columns = ", ".join(f"{name} {kind}" for name, kind in COLUMNS.items())
    spark.sql(f"CREATE TABLE {name} ({columns}) USING delta {FEED}")
    time = "TIMESTAMP '2026-01-02 03:04:05.000006'"
    spark.sql(f"INSERT INTO {name} VALUES (1, 'a', 1.5, {time}), (2, 'b', 2, NULL)")
    return name


def same(lake: Lake, theirs: str) -> None:
    """Gold has the rows of the table."""
    asked = "SELECT id, name, price, seen FROM {}"
    ours = {(r["id"], r["name"], r["price"], r["seen"]) for r in shown(lake, "copy")}
    assert ours == {tuple(row) for row in lake.spark.sql(asked.format(theirs)).collect()}


def folder_of(theirs: str) -> str:
    return theirs.removeprefix("delta.`").removesuffix("`")


@pytest.mark.slow
def test_a_change_feed_is_followed_with_its_deletes(lake: Lake, theirs: str) -> None:
    table = reading(folder_of(theirs), stored_as_scd_type=2)
    lake.spark.sql(f"UPDATE {theirs} SET price = 3 WHERE id = 1")
    run(lake, [table])
    same(lake, theirs)
    lake.spark.sql(f"DELETE FROM {theirs} WHERE id = 2")
    lake.spark.sql(f"INSERT INTO {theirs} VALUES (3, 'c', 4, NULL)")
    run(lake, [table])
    same(lake, theirs)
    versions = [(r["id"], str(r["price"])) for r in shown(lake, "copy_history")]
    assert sorted(versions) == [(1, "1.50"), (1, "3.00"), (2, "2.00"), (3, "4.00")]
    before = bronze_rows(lake)
    run(lake, [table])
    assert bronze_rows(lake) == before


@pytest.mark.parametrize("history", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_row_that_comes_and_goes_in_one_commit_is_there_and_a_moved_key_is_not(
    lake: Lake, theirs: str, history: int
) -> None:
    table = reading(folder_of(theirs), stored_as_scd_type=history)
    run(lake, [table])
    lake.spark.sql(f"INSERT OVERWRITE {theirs} SELECT id, name, price + 1, seen FROM {theirs}")
    lake.spark.sql(f"UPDATE {theirs} SET id = 9 WHERE id = 1")
    run(lake, [table])
    same(lake, theirs)


def bronze_rows(lake: Lake) -> int:
    return lake.spark.table(lake.name("bronze", "copy")).count()


@pytest.mark.slow
def test_lost_versions_are_told_and_the_rows_read_anew(lake: Lake, theirs: str) -> None:
    table, folder = reading(folder_of(theirs)), Path(folder_of(theirs))
    run(lake, [table])
    lake.spark.sql(f"DELETE FROM {theirs} WHERE id = 2")
    lake.spark.sql(f"UPDATE {theirs} SET price = 9")
    for file in (folder / "_change_data").glob("*"):
        file.unlink()
    for _ in range(2):
        memory = Memory()
        taken = bronze.ingest(lake, [table], "run", quiet, memory)
        [entry] = watch_for_loss(lake, [table], taken, memory, quiet)
        told, memory = entry, Memory()
        if entry.status == "failed":
            assert "versions 2 to 3" in str(told.message)
            assert "read anew" in str(told.message)
            run(lake, [table])
            same(lake, theirs)
    assert told.status == "ok"


@pytest.mark.slow
def test_the_appends_of_a_table_without_a_feed_are_read(lake: Lake, tmp_path: Path) -> None:
    folder = tmp_path / "plain"
    pl.DataFrame({"id": [1, 2], "name": ["a", "b"]}).write_delta(str(folder))
    table = reading(str(folder), columns={"id": "bigint", "name": "string"})
    run(lake, [table])
    pl.DataFrame({"id": [2, 3], "name": ["z", "c"]}).write_delta(str(folder), mode="append")
    DeltaTable(folder).optimize.compact()
    pl.DataFrame({"id": [4], "name": ["d"]}).write_delta(str(folder), mode="append")
    run(lake, [table])
    held = {row["id"]: row["name"] for row in shown(lake, "copy")}
    assert held == {1: "a", 2: "z", 3: "c", 4: "d"}
    assert bronze_rows(lake) == 5


@pytest.mark.slow
def test_an_append_after_quiet_weeks_is_read_without_the_version_before(
    lake: Lake, tmp_path: Path
) -> None:
    folder = tmp_path / "plain"
    pl.DataFrame({"id": [1, 2], "name": ["a", "b"]}).write_delta(str(folder))
    table = reading(str(folder), columns={"id": "bigint", "name": "string"})
    run(lake, [table])
    age(lake.spark, folder, 9)
    pl.DataFrame({"id": [2, 3], "name": ["z", "c"]}).write_delta(str(folder), mode="append")
    run(lake, [table])
    held = {row["id"]: row["name"] for row in shown(lake, "copy")}
    assert held == {1: "a", 2: "z", 3: "c"}
    assert bronze_rows(lake) == 4


@pytest.mark.slow
@pytest.mark.parametrize("feed", [True, False])
def test_versions_that_are_read_too_late_are_told_once_and_all_rows_are_read(
    lake: Lake, theirs: str, feed: bool
) -> None:
    table = reading(folder_of(theirs))
    if not feed:
        lake.spark.sql(f"ALTER TABLE {theirs} UNSET TBLPROPERTIES (delta.enableChangeDataFeed)")
    run(lake, [table])
    for at in range(3, 6):
        lake.spark.sql(f"INSERT INTO {theirs} VALUES ({at}, 'c', 4, NULL)")
    age(lake.spark, folder_of(theirs), 9)
    lake.spark.sql(f"INSERT INTO {theirs} VALUES (6, 'c', 4, NULL)")
    statuses = []
    for _ in range(2):
        memory = Memory()
        taken = bronze.ingest(lake, [table], "run", quiet, memory)
        [entry] = watch_for_loss(lake, [table], taken, memory, quiet)
        statuses.append(entry.status)
        settle(lake, [table])
        same(lake, theirs)
    assert statuses == ["failed", "ok"]


@pytest.mark.slow
def test_one_lake_feeds_another(lake: Lake, tmp_path: Path) -> None:
    first, second = lake.target, target_at(tmp_path / "second")
    source = {"format": "rows", "path": "orders"}
    orders = Table.model_validate(
        {
            "table": "orders", "source": source, "keys": ["id"], "sequence_by": "at",
            "apply_as_deletes": "gone", "except_column_list": ["gone"],
            "publish": "table", "change_data_feed": True,
        }
    )  # fmt: skip
    place = f"{first.lake}/gold/orders"
    copy = Table.model_validate(
        {"table": "copy", "source": {"format": "rows", "delta": place}, "keys": ["id"]}
    )
    for at in range(1, 4):
        rows = [{"id": at, "at": at}, {"id": at - 1, "at": at, "gone": at % 2 == 0}]
        land(first, "orders", f"{at}.jsonl", [json.dumps(row) for row in rows])
        run(Lake(lake.spark, first), [orders])
        run(Lake(lake.spark, second), [copy])
        theirs = {row["id"]: row["at"] for row in shown(Lake(lake.spark, first), "orders")}
        assert {row["id"]: row["at"] for row in shown(Lake(lake.spark, second), "copy")} == theirs


@pytest.mark.slow
def test_gold_is_exported(lake: Lake, tmp_path: Path) -> None:
    source = {"format": "rows", "path": "t"}
    table = Table.model_validate(
        {"table": "t", "source": source, "keys": ["id"], "sequence_by": "id"}
    )
    land(lake.target, "t", "1.jsonl", ['{"id": 1, "of": {"a": 1}, "b c": "x"}', '{"id": 2}'])
    run(lake, [table])
    for kind in ("delta", "parquet", "csv"):
        assert write_view(lake, "t", (str(tmp_path / kind), kind)) == 2
    assert pl.read_delta(str(tmp_path / "delta"))["b_c"].to_list() == ["x", None]
    assert len(pl.read_parquet(str(tmp_path / "parquet/*.parquet"))) == 2
    files = (tmp_path / "csv").glob("*.csv")
    rows = [row for file in files for row in csv.DictReader(file.read_text().splitlines())]
    assert {row["id"]: row["b c"] for row in rows} == {"1": "x", "2": ""}
