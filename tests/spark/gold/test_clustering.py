"""A clustered table through its life: created, merged into, maintained, read by a filter."""

import json
from pathlib import Path
from typing import Any

import pytest

from cdc_lakehouse.cli.work.maintain import tend_tables
from gold import job as gold
from gold.views.catalog import open_catalog
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.lake import Lake, LakeTable
from lakehouse.storage.upkeep import STATISTICS, Layout, Step, carry_out, read_facts
from silver.storage import layout
from tests.helpers.arrivals import applied, arrive
from tests.helpers.lakes import quiet, rows

GIVEN = {
    "table": "orders",
    "source": {"format": "ydb", "path": "shop", "topic": "shop"},
    "keys": ["id"],
    "columns": {
        "id": {"type": "bigint", "nullable": False},
        "day": "date",
        "at": "timestamp",
        "note": "string",
    },
    "cluster_by": ["day"],
}
ORDERS = Table.model_validate(GIVEN)
DAYS, A_DAY = 28, 20


def order(id: int, at: int, note: str = "n") -> dict[str, Any]:
    day = f"2024-02-{id // A_DAY + 1:02}"
    update = {"day": day, "at": f"{day}T00:00:00Z", "note": note}
    value = {"update": update, "key": [id], "ts": [1_700_000_000_000 + at, at]}
    return {"topic": "shop", "partition": 0, "offset": at, "value": value}


def last_merge(target: Target) -> str:
    """The condition of the newest MERGE, as the table's log notes it."""
    found = []
    for file in sorted(Path(target.lake, "silver", "orders", "_delta_log").glob("*.json")):
        told = [json.loads(line) for line in file.read_text().splitlines()]
        infos = [action["commitInfo"] for action in told if "commitInfo" in action]
        found += [i["operationParameters"] for i in infos if i["operation"] == "MERGE"]
    return str(found[-1]["predicate"])


def files_of(lake: Lake, query: str) -> int:
    open_catalog(lake, query)
    return len(lake.spark.sql(query).inputFiles())


@pytest.mark.slow
def test_a_filter_on_a_cluster_column_reads_few_files_and_a_merge_those_near_its_keys(
    lake: Lake,
) -> None:
    name = lake.name("silver", "orders")
    arrive(lake, ORDERS, [order(n, n) for n in range(DAYS * A_DAY)], 1)
    applied(lake, ORDERS)
    settings = read_facts(lake.spark, name).layout
    assert settings == Layout(["day"], None, "_source_time,_batch,`id`,`day`,`at`")
    one_file_a_day = {"spark.databricks.delta.optimize.maxFileSize": "1000"}
    carry_out(lake.spark, Step("cluster", f"OPTIMIZE {name} FULL", "", one_file_a_day))
    assert read_facts(lake.spark, name).unordered == 0
    gold.publish(lake, [ORDERS], "run", quiet)
    every = files_of(lake, "SELECT * FROM gold.orders")
    few = files_of(lake, "SELECT * FROM gold.orders WHERE day = DATE'2024-02-07'")
    of_time = "SELECT * FROM gold.orders WHERE at < '2024-02-03'"
    assert every >= 10 and few <= every // 4
    assert files_of(lake, of_time) <= every // 4
    arrive(lake, ORDERS, [order(n, 1000 + n, "new") for n in range(40, 45)], 2)
    applied(lake, ORDERS)
    assert "id#" in last_merge(lake.target) and ">= 40" in last_merge(lake.target)
    assert "<= 44" in last_merge(lake.target)
    shown = {row["id"] for row in rows(lake, "orders") if row["note"] == "new"}
    assert shown == {*range(40, 45)}


@pytest.mark.slow
def test_a_change_of_cluster_by_needs_no_rebuild_and_old_tables_get_statistics(lake: Lake) -> None:
    plain = Table.model_validate(GIVEN | {"cluster_by": []})
    arrive(lake, plain, [order(n, n) for n in range(5)], 1)
    applied(lake, plain)
    name, told = lake.name("silver", "orders"), list[str]()
    as_before = f"ALTER TABLE {name} SET TBLPROPERTIES ('{STATISTICS}' = '_source_time,_batch')"
    lake.spark.sql(as_before)
    (entry,) = tend_tables(lake, [ORDERS], False, told.append, shared=False)
    assert entry.counts == {"table_settings": 2}
    assert "  settle: cluster_by is day" in told
    assert read_facts(lake.spark, name).layout.cluster_by == ["day"]
    log = read_table_log(lake.target, "silver", "orders")
    assert log is not None and log.clustered == ["day"]
    recomputed = lake.spark.table(name)
    kept = LakeTable(lake, "silver", "orders")
    layout.load_rows(kept, recomputed, anew=True, clustered_for=ORDERS)
    assert read_facts(lake.spark, name).layout.cluster_by == ["day"]
    (entry,) = tend_tables(lake, [plain], False, told.append, shared=False)
    assert entry.counts == {"table_settings": 1} and "  settle: was by day" in told
    assert read_facts(lake.spark, name).layout == Layout(
        [], None, "_source_time,_batch,`id`,`day`,`at`"
    )
    assert lake.spark.table(name).count() == 5
