"""The snapshot article's example: 10,000 rows, day 1 and day 2, replayed, and a delta after it."""

import itertools
from collections import Counter
from pathlib import Path

import pytest

from benchmarks import extracts
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from tests.helpers import extract_lake

pytestmark = pytest.mark.slow

KEYS = extracts.KEYS
COLUMNS = dict.fromkeys(KEYS, "string") | dict.fromkeys(extracts.VALUES, "int")
DAY_1, DAY_2 = "2019-06-18", "2019-06-19"
SECOND = {"I": 2000, "D": 2000, "U": 4000, "N": 4000}


def table(mode: str, **options: object) -> Table:
    return extract_lake.table(mode, "csv", keys=KEYS, columns=COLUMNS, **options)


def letters(lake: Lake, config: Table) -> dict[str, dict[str, int]]:
    found: dict[str, dict[str, int]] = {}
    for row in extract_lake.rows(lake, config, "t_changes"):
        day = found.setdefault(str(row["effective_date"]), Counter())
        day[row["operation"]] += 1
    return found


@pytest.mark.parametrize("scd", [1, 2])
def test_day_1_and_day_2_and_a_replay(lake: Lake, tmp_path: Path, scd: int) -> None:
    day1, day2 = (place / "extract.csv" for place in extracts.write(tmp_path / "data"))
    config = table("full", stored_as_scd_type=scd)
    extract_lake.ingest(lake, config, 1, extract_lake.copy(lake.target, DAY_1, day1))
    first = extract_lake.apply(lake, config)
    assert first == {"records": 10_000, "I": 10_000}
    extract_lake.ingest(lake, config, 2, extract_lake.copy(lake.target, DAY_2, day2))
    assert extract_lake.apply(lake, config) == {"records": 10_000, **SECOND}
    assert letters(lake, config) == {DAY_1: {"I": 10_000}, DAY_2: SECOND}
    shown = {tuple(row.values()) for row in extract_lake.rows(lake, config, "t")}
    _, second = itertools.islice(extracts.days(10_000, 1), 2)
    assert shown == set(second.rows())

    kept = lake.name("silver", "t_history" if scd == 2 else "t")
    versions = lake.spark.sql(f"DESCRIBE HISTORY {kept}").count()
    again = extract_lake.copy(lake.target, DAY_2, day2, "again.csv")
    extract_lake.ingest(lake, config, 3, again)
    replay = extract_lake.apply(lake, config)
    assert replay == {"records": 10_000, "duplicate": 10_000}
    assert lake.spark.sql(f"DESCRIBE HISTORY {kept}").count() == versions
    assert letters(lake, config)[DAY_2] == SECOND


def test_a_delta_extract_gives_x_for_what_it_does_not_carry(lake: Lake, tmp_path: Path) -> None:
    day1, day2 = (place / "extract.csv" for place in extracts.write(tmp_path / "data", rows=1000))
    config = table("delta")
    files = extract_lake.copy(lake.target, DAY_1, day1), extract_lake.copy(lake.target, DAY_2, day2)
    extract_lake.ingest(lake, config, 1, *files)
    both = extract_lake.apply(lake, config)
    assert both == {"records": 2000, "I": 1200, "U": 400, "N": 400, "X": 200}
    second = {"I": 200, "U": 400, "N": 400, "X": 200}
    assert letters(lake, config) == {DAY_1: {"I": 1000}, DAY_2: second}
    assert len(extract_lake.rows(lake, config, "t")) == 1200
