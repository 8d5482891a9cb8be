"""A new full snapshot of a large table whose rows are as they were: its history stays as it is."""

import time
from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import functions as F

from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from tests.helpers import lakes

pytestmark = pytest.mark.slow

KEYS = 500_000
"""Each of them has two versions."""
TABLE = Table.model_validate(
    {
        "table": "t",
        "source": {"format": "debezium", "path": "t"},
        "keys": ["id"],
        "columns": {"id": "int", "name": "string"},
        "stored_as_scd_type": 2,
    }
)


def lines(op: str, lsn: int, text: str) -> Iterator[str]:
    """An event for each key; those of a snapshot have one position."""
    for id in range(KEYS):
        at = lsn if op == "r" else lsn + id
        last = "last" if id == KEYS - 1 else "true"
        source = (
            f'{{"connector":"postgresql","name":"s","lsn":{at},"ts_ms":{1_700_000_000_000 + lsn}'
            f',"snapshot":"{last if op == "r" else "false"}"}}'
        )
        yield f'{{"op":"{op}","after":{{"id":{id},"name":"{text}{id}"}},"source":{source}}}\n'


def land(target: Target, number: int, op: str, text: str) -> None:
    place = Path(target.landing, "t")
    place.mkdir(parents=True, exist_ok=True)
    with (place / f"{number}.jsonl").open("w") as file:
        file.writelines(lines(op, number * 10_000_000, text))


def versions(lake: Lake) -> list[int]:
    """How many versions there are, how many are open, and a sum of all that they show."""
    query = "SELECT * FROM gold.t_history"
    gold.open_catalog(lake, query)
    shown = F.xxhash64("id", "name", "valid_from", "valid_to", "is_current").cast("decimal(38,0)")
    found = lake.spark.sql(query).agg(F.count("*"), F.count_if("is_current"), F.sum(shown)).first()
    return list(found or ())


def test_a_million_versions_are_left_alone_by_a_snapshot_that_shows_the_same(lake: Lake) -> None:
    for number, (op, text) in enumerate([("r", "a"), ("u", "b")], 1):
        land(lake.target, number, op, text)
        lakes.run(lake, [TABLE])
    before = versions(lake)
    assert before[:2] == [2 * KEYS, KEYS]

    land(lake.target, 3, "r", "b")
    began = time.monotonic()
    lakes.run(lake, [TABLE])
    print(f"a new snapshot of {KEYS:,} rows: {time.monotonic() - began:.1f} s")

    assert versions(lake) == before
    kept = lake.spark.table(lake.name("silver", "t_history")).groupBy("_shown").count()
    assert dict(kept.collect()) == {True: 2 * KEYS, False: KEYS}  # reads end late changes before
