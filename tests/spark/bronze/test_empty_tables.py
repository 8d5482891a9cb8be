"""A table whose columns are declared exists in gold from the first run on, be it empty."""

from typing import Any

import pytest
from pyspark.errors import AnalysisException
from pyspark.sql import SparkSession

from bronze.loss.missing_input import missing_folders
from gold.job import open_catalog
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.helpers import lakes

COLUMNS = {"id": "int", "name": "varchar(10)", "at": "timestamp", "tags": "array<string>"}
SOURCES: dict[str, dict[str, Any]] = {
    "current": {"source": {"format": "ydb", "path": "none"}},
    "history": {"source": {"format": "ydb", "path": "none"}, "stored_as_scd_type": 2},
    "keyless": {"source": {"format": "debezium", "path": "none"}, "keys": []},
    "files": {"source": {"format": "snapshot", "path": "none", "mode": "full"}},
    "flagged": {"source": {"format": "ydb", "path": "none"}, "on_delete": "flag"},
    "hidden": {
        "source": {"format": "ydb", "path": "none"},
        "columns": COLUMNS | {"name": {"type": "string", "sensitive": True}, "internal": "int"},
        "except_column_list": ["internal"],
    },
}
ADDED = {
    "history_history": ["valid_from", "valid_to", "sequence_from", "sequence_to", "is_current"],
    "files_changes": ["operation", "effective_date"],
    "flagged": ["is_deleted"],
}
TYPES = ["int", "string", "timestamp", "array<string>"]


def table(name: str, **given: Any) -> Table:
    return Table.model_validate({"table": name, "keys": ["id"], "columns": COLUMNS} | given)


TABLES = [table(name, **given) for name, given in SOURCES.items()]


@pytest.fixture(scope="module")
def first_run(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A lake without a landing folder after its first run."""
    target = Target(root=str(tmp_path_factory.mktemp("empty")))
    lakes.run(Lake(spark, target), TABLES)
    return target


@pytest.mark.parametrize("name", [*SOURCES, "history_history", "files_changes"])
def test_it_has_no_row_and_its_declared_columns(
    spark: SparkSession, first_run: Target, name: str
) -> None:
    query = f"SELECT * FROM gold.`{name}`"
    open_catalog(Lake(spark, first_run), query)
    found = spark.sql(query)
    assert found.collect() == []
    assert found.columns == [*COLUMNS, *ADDED.get(name, [])]
    assert [field.dataType.simpleString() for field in found.schema][: len(TYPES)] == TYPES


def test_the_missing_folder_is_told_all_the_same(first_run: Target) -> None:
    assert sorted(missing_folders(first_run, TABLES)) == sorted(SOURCES)


@pytest.mark.slow
def test_the_first_records_come_into_it(lake: Lake) -> None:
    config = table("t", source={"format": "ydb", "path": "in"})
    lakes.run(lake, [config])
    assert lakes.rows(lake, "t") == []
    lakes.land(
        lake.target, "in", "1.jsonl", ['{"key":[1],"update":{"name":"a","more":2},"ts":[1,1]}']
    )
    lakes.run(lake, [config])
    (row,) = lakes.rows(lake, "t")
    assert (row["id"], row["name"], row["more"]) == (1, "a", 2)


def test_a_table_with_undeclared_keys_does_not_exist_before_its_records(lake: Lake) -> None:
    config = table("undeclared", source={"format": "ydb", "path": "in"}, columns={"name": "string"})
    lakes.run(lake, [config])
    with pytest.raises(AnalysisException, match="TABLE_OR_VIEW_NOT_FOUND"):
        lakes.rows(lake, "undeclared")
