"""Locks and the project's mark of a lake in a catalog: one session stands for a workspace."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.work.locking import lock_tables
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS, Target
from lakehouse.errors import ConfigurationError, LockLost
from lakehouse.run import lease
from lakehouse.storage.lake import Lake


def rows(path: str) -> dict[str, str]:
    return {"format": "rows", "path": path}


TABLES = [
    Table.model_validate({"table": name, "keys": ["id"], "source": rows(name)})
    for name in ("orders", "people")
]
PLACES = {layer: f"{layer}_leased" for layer in LAYERS}


def workspace(root: Path, **more: str) -> Target:
    places = {"landing": str(root / "landing"), "checkpoints": str(root / "checkpoints")}
    given = {"name": "prod", "kind": "databricks", "catalog": "spark_catalog", "schemas": PLACES}
    return Target.model_validate(given | places | more)


@pytest.fixture
def leased(spark: SparkSession, tmp_path: Path) -> Iterator[Lake]:
    for schema in PLACES.values():
        spark.sql(f"CREATE SCHEMA {schema} LOCATION '{tmp_path / schema}'")
    yield Lake(spark, workspace(tmp_path))
    for schema in PLACES.values():
        spark.sql(f"DROP SCHEMA {schema} CASCADE")


@pytest.fixture(autouse=True)
def _in_a_hurry(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lease, "RENEW_SECONDS", 0.5)
    monkeypatch.setattr(lease, "GLANCE_SECONDS", 0.2)


@pytest.mark.slow
def test_a_run_beside_one_that_goes_on_is_refused_table_by_table(leased: Lake) -> None:
    with lock_tables(leased.target, TABLES[:1], LAYERS, "cdc_continuous") as (free, refused):
        assert (free, refused) == (TABLES[:1], [])
        with lock_tables(leased.target, TABLES, LAYERS, "cdc") as (free, refused):
            assert [table.table for table in free] == ["people"]
            (failure,) = refused
            assert "another run is writing this table (run cdc_continuous on " in str(failure)
    with lock_tables(leased.target, TABLES, LAYERS, "cdc") as (free, refused):
        assert (free, refused) == (TABLES, [])


@pytest.mark.slow
def test_a_run_waits_until_the_time_of_a_killed_one_has_passed(
    leased: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(lease, "LEASE_SECONDS", 4)
    killed = lease._Lease(leased, "killed", ["silver.orders"])
    lease._LOCKS.ensure(leased)
    assert killed.take() == {}
    with lease.hold_names(leased, ["silver.orders"], "next") as refused:
        assert refused == {}


def test_a_run_whose_tables_another_one_has_taken_stops(leased: Lake) -> None:
    another = lease._Lease(leased, "another", ["silver.orders"])
    taken = f"UPDATE {leased.name('silver', lease.TABLE)} SET holder = 'another'"
    mine = lease.hold_names(leased, ["silver.orders"], "mine")
    with pytest.raises(LockLost, match="another run writes its tables"), mine:
        another._write(taken)
        time.sleep(60)


def test_a_second_project_in_the_same_schemas_is_refused_before_it_writes(
    leased: Lake, tmp_path: Path
) -> None:
    first, second = (workspace(tmp_path, project=name) for name in ("shop", "billing"))
    for target in (leased.target, first, first):
        with lock_tables(target, TABLES, LAYERS, "run") as (free, _):
            assert free == TABLES
    expected = r"found: +{}\n.* shop, whose tables are in catalog spark_catalog[\s\S]*: shop"
    for target, name in ((second, "billing"), (leased.target, "no name")):
        refused = pytest.raises(ConfigurationError, match=expected.format(name))
        with refused, lock_tables(target, TABLES, LAYERS, "run"):
            pass
