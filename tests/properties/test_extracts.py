"""Extracts: a row is unchanged where its values are; days in any order give the oracle's tables."""

import json
from collections.abc import Iterator
from datetime import date, timedelta
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from lakehouse.spark.local_rows import local_rows
from lakehouse.storage.lake import Lake
from silver.contract import GATED_COLUMNS
from silver.snapshot_source.comparison import SnapshotFiles, compare_rows
from tests.conftest import target_at
from tests.helpers import extract_lake, oracle
from tests.helpers.oracle import Event
from tests.properties.budget import budget

pytestmark = pytest.mark.slow

BUDGET = budget(1)
COLUMNS = {"id": "int", "a": "string", "b": {"type": "string", "operational": True}}
FIRST = date(2024, 1, 1)
Row = dict[str, Any]
Days = dict[int, dict[int, Row]]

texts = st.one_of(
    st.none(),
    st.text(alphabet="ab1:,{}[]\"'\\ \u00e9\n", max_size=4),
    st.sampled_from(["", "a", "1:b"]),
)
pairs_of_rows = st.lists(st.tuples(texts, texts, texts, texts), min_size=30, max_size=60)


@BUDGET
@given(pairs=pairs_of_rows)
def test_a_row_is_unchanged_exactly_where_its_values_are_the_same(
    spark: SparkSession, pairs: list[tuple[str | None, ...]]
) -> None:
    columns = ", ".join(f"{column.name} {column.type}" for column in GATED_COLUMNS)
    was = [{"id": at, "a": pair[0], "c": pair[1]} for at, pair in enumerate(pairs)]
    came = [
        {"id": at, "a": pair[2], "c": pair[3], "_arrival": f"{at:08X}"}
        for at, pair in enumerate(pairs)
    ]
    values = "id int, a string, c string"
    found = compare_rows(
        local_rows(spark, came, f"{values}, {columns}"),
        local_rows(spark, was, values),
        extract_lake.table(),
        SnapshotFiles(FIRST, "feed", 1, full=True),
    )
    letters = {row["id"]: row["_letter"] for row in found.collect()}
    want = {at: "N" if pair[:2] == pair[2:] else "U" for at, pair in enumerate(pairs)}
    assert letters == want


@pytest.mark.parametrize(("mode", "scd"), [("full", 2), ("delta", 1)])
@BUDGET
@given(seed=st.integers(0, 2**32))
def test_any_order_and_cut_of_days_gives_the_oracles_tables(
    spark: SparkSession, tmp_path_factory: pytest.TempPathFactory, mode: str, scd: int, seed: int
) -> None:
    random, target = Random(seed), target_at(tmp_path_factory.mktemp("lake"))
    config = extract_lake.table(mode, columns=COLUMNS, stored_as_scd_type=scd)
    days: Days = {day: state(random) for day in range(4)}
    parts = [(day, part) for day, rows in days.items() for part in cut(random, rows)]
    random.shuffle(parts)
    runs = random.randint(2, 3)
    for number in range(runs):
        mine = parts[number::runs]
        files = [land(target, day, f"{number}-{at}", rows) for at, (day, rows) in enumerate(mine)]
        extract_lake.ingest(Lake(spark, target), config, number + 1, *files)
        extract_lake.apply(Lake(spark, target), config)
    want = oracle.outcome(set(events(days, mode)), ["a", "b"], ["a"])
    shown = extract_lake.rows(Lake(spark, target), config, "t")
    assert {row["id"]: {c: row[c] for c in "ab"} for row in shown} == want.current
    assert operations(Lake(spark, target), config) == set(said(days, mode))
    if scd == 2:
        assert history(Lake(spark, target), config) == want.history


def state(random: Random) -> dict[int, Row]:
    keys = random.sample(range(1, 6), random.randint(1, 5))
    return {
        key: {"id": key, "a": random.choice(["x", "y", "", None]), "b": random.choice("pq")}
        for key in keys
    }


def cut(random: Random, rows: dict[int, Row]) -> list[list[Row]]:
    """A day in one file or two; some rows are in both."""
    first = [row for row in rows.values() if random.random() < 0.6]
    rest = [row for row in rows.values() if row not in first or random.random() < 0.2]
    return [part for part in (first, rest) if part]


def land(target: Any, day: int, name: str, rows: list[Row]) -> Any:
    place = (FIRST + timedelta(days=day)).isoformat()
    return extract_lake.land(target, place, name, [json.dumps(row) for row in rows])


def said(days: Days, mode: str) -> Iterator[tuple[int, str, int, str | None, str]]:
    """The letters of every day, one key at a time: day, letter, id and values."""
    known: dict[int, Row] = {}
    for day, rows in sorted(days.items()):
        for key in sorted({*known, *rows}):
            old, new = known.get(key), rows.get(key)
            row = new or old
            assert row is not None
            if new is None:
                letter = "D" if mode == "full" else "X"
            else:
                letter = "I" if old is None else "N" if old["a"] == new["a"] else "U"
            yield day, letter, key, row["a"], row["b"]
        known = dict(rows) if mode == "full" else known | rows


def events(days: Days, mode: str) -> Iterator[Event]:
    for day, letter, key, a, b in said(days, mode):
        if letter in "IUN":
            yield Event("upsert", day, key, (("a", a), ("b", b)), time=day)
        elif letter == "D":
            yield Event("delete", day, key, time=day)


def operations(lake: Lake, config: Any) -> set[tuple[Any, ...]]:
    rows = extract_lake.rows(lake, config, "t_changes")
    found = [
        ((r["effective_date"] - FIRST).days, r["operation"], r["id"], r["a"], r["b"]) for r in rows
    ]
    assert len(found) == len(set(found))
    return set(found)


def history(lake: Lake, config: Any) -> list[tuple[Any, ...]]:
    rows = extract_lake.rows(lake, config, "t_history")
    lines = [
        (
            r["id"],
            (r["valid_from"].date() - FIRST).days,
            None if r["valid_to"] is None else (r["valid_to"].date() - FIRST).days,
            r["a"],
            r["b"],
        )
        for r in rows
    ]
    return sorted(lines, key=repr)
