"""A continuous run of many ticks: no table falls into ever more files, and no row is lost."""

import json
import os
from pathlib import Path

import pytest

from cdc_lakehouse.cli.work.rounds import Round, list_failures
from cdc_lakehouse.cli.work.run import one_round
from gold.views.catalog import open_catalog
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS, Target
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake

TICKS = int(os.environ.get("LAKEHOUSE_TICKS", "120"))
"""Two thousand take 40 minutes without a history, and two hours with one."""
MERGES = 60
MOST = 110
KEYS = 50


def drop(target: Target, tick: int) -> None:
    """Five changes, each of another key."""
    folder = Path(target.landing, "t")
    folder.mkdir(parents=True, exist_ok=True)
    rows = [{"id": (tick * 5 + at) % KEYS, "v": tick, "text": f"tick {tick}"} for at in range(5)]
    (folder / f"{tick:06d}.jsonl").write_text("".join(f"{json.dumps(row)}\n" for row in rows))


def count_files(lake: Lake) -> dict[str, int]:
    """The current files of every Delta table of the lake."""
    logs = Path(str(lake.target.root), "lake").rglob("_delta_log")
    folders = [log.parent for log in logs]
    return {
        f"{folder.parent.name}.{folder.name}": lake.spark.sql(
            f"DESCRIBE DETAIL delta.`{folder}`"
        ).collect()[0]["numFiles"]
        for folder in folders
    }


@pytest.mark.slow
@pytest.mark.parametrize("scd_type", [1, 2])
def test_files_stay_few_in_a_run_of_many_ticks(lake: Lake, scd_type: int) -> None:
    """Some rounds merge; in the others a history merges as well, and current rows wait."""
    given = {"table": "t", "source": {"format": "rows", "path": "t"}, "keys": ["id"]}
    given |= {"sequence_by": "v", "columns": {"id": "bigint", "v": "bigint"}}
    tables = [Table.model_validate(given | {"stored_as_scd_type": scd_type})]
    work = Round(lake, memory=Memory(1))
    for tick in range(TICKS):
        drop(lake.target, tick)
        here = work._replace(merge=tick % (TICKS // MERGES) == 0)
        assert list_failures(one_round(here, tables, list(LAYERS))) == []
        if tick % 100 == 0:
            print(tick, count_files(lake), flush=True)
    files = count_files(lake)
    print(TICKS, files)
    assert max(files.values()) < MOST, files
    query = "SELECT id, v, text FROM gold.t ORDER BY id"
    open_catalog(lake, query)
    newest = {(tick * 5 + at) % KEYS: tick for tick in range(TICKS) for at in range(5)}
    rows = [(row["id"], row["v"], row["text"]) for row in lake.spark.sql(query).collect()]
    assert rows == [(id, v, f"tick {v}") for id, v in sorted(newest.items())]
