"""The guide *AUTO CDC in your own job*: its blocks run as they stand."""

import re
import runpy
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

GUIDE = Path("docs/guides/auto-cdc-in-your-own-job.md")


@pytest.mark.slow
def test_the_blocks_of_the_guide_run(spark: SparkSession, tmp_path: Path) -> None:
    names: dict[str, object] = {"spark": spark, "folder": str(tmp_path)}
    blocks = re.findall(r"```python\n(.*?)```", GUIDE.read_text(), re.DOTALL)
    (tmp_path / "guide.py").write_text("\n".join(blocks))
    runpy.run_path(str(tmp_path / "guide.py"), names)

    def rows(table: str) -> list[tuple[object, ...]]:
        found = spark.read.format("delta").load(str(tmp_path / table))
        return sorted(map(tuple, found.collect()), key=repr)

    assert len(blocks) == 6
    assert rows("customers") == rows("streamed") == [(1, "Ann", "Bergen")]
    assert rows("customers_history") == [
        (1, "Ann", "Bergen", 2, None),
        (1, "Ann", "Oslo", 1, 2),
        (2, "Bob", "Rome", 1, 3),
    ]
    assert rows("people") == [(1, "Ann", 1, 2), (1, "Anna", 2, None), (2, "Bob", 1, 2)]
    assert rows("orders") == [(1, 5)]
