import os
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from cdc_lakehouse.cli.work.maintain import tend_tables
from lakehouse.config.table import Table
from lakehouse.config.target import CleanLanding
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake, LakeTable
from lakehouse.storage.upkeep import read_facts
from silver.contract import CURRENT_COLUMNS
from silver.storage import layout
from tests.helpers import lakes

pytestmark = pytest.mark.slow

TABLE = Table.model_validate(
    {"table": "t", "source": {"format": "ydb", "path": "t"}, "keys": ["id"]}
)
MANY = 52


def planted(lake: Lake) -> str:
    """A table of many small files, each with a deletion vector; returns its SQL name."""
    table = LakeTable(lake, "silver", "t")
    layout.ensure_table(table, [], CURRENT_COLUMNS, statistics_for=TABLE)
    name = table.name
    numbered = lake.spark.range(MANY * 4).repartitionByRange(MANY, "id")
    empty = {c.name: F.lit(None).cast(c.type) for c in CURRENT_COLUMNS}
    number = {"_digest": F.col("id"), "_deleted": F.lit(False)}
    numbered.select(*[c.alias(n) for n, c in (empty | number).items()]).writeTo(name).append()
    lake.spark.sql(f"DELETE FROM {name} WHERE _digest % 4 = 0")
    return name


def test_more_than_fifty_deletion_vectors_are_compacted_and_a_dry_run_only_says_so(
    lake: Lake,
) -> None:
    name = planted(lake)
    assert read_facts(lake.spark, name).vectors == MANY
    told: list[str] = []
    tend_tables(lake, [TABLE], True, told.append, shared=False)
    assert read_facts(lake.spark, name).vectors == MANY
    assert f"  would compact: {MANY} deletion vectors, more than 50" in told
    (entry,) = tend_tables(lake, [TABLE], False, told.append, shared=False)
    after = read_facts(lake.spark, name)
    assert (after.vectors, after.files, lake.spark.table(name).count()) == (0, 1, MANY * 3)
    assert entry.counts == {"tables_compacted": 1}
    told.clear()
    (entry,) = tend_tables(lake, [TABLE], False, told.append, shared=False)
    assert (told, entry.counts) == ([], {})
    assert ledger.read_entries(lake).where("table = 't'").count() == 1
    old = lake.spark.sql(f"SELECT count(*) FROM {name} VERSION AS OF 1").collect()[0][0]
    assert old == MANY * 4
    assert lake.exists("silver", "t")


def test_landing_files_of_bronze_go_after_a_time_and_their_rows_stay(lake: Lake) -> None:
    lakes.land(lake.target, "t", "a.jsonl", ['{"key":[1],"update":{"a":"b"},"ts":[1,1]}'])
    file = Path(lake.target.landing, "t", "a.jsonl")
    os.utime(file, (0, 0))
    lakes.run(lake, [TABLE])
    cleaning = lake.target.model_copy(update={"clean_landing": CleanLanding(after="30 days")})
    told: list[str] = []
    tend_tables(Lake(lake.spark, cleaning), [TABLE], True, told.append)
    assert file.is_file()
    assert "landing: 1 file of bronze, older than 30 days, would be deleted" in told
    entries = tend_tables(Lake(lake.spark, cleaning), [TABLE], False, told.append)
    (bronze,) = [entry for entry in entries if entry.layer == "bronze"]
    assert (bronze.status, bronze.counts["landing_files_cleaned"]) == ("ok", 1)
    assert not file.exists()
    lakes.run(lake, [TABLE])
    assert lake.spark.table(lake.name("bronze", "t")).count() == 1
