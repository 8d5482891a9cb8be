import json
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.storage.lake import Lake
from silver.audit.explain import explain
from silver.changelog.dead_letter_list import Wanted, count_by_reason, dead_letters, select_newest
from tests.conftest import target_at
from tests.helpers import lakes
from tests.helpers.builders import Line, table

FIRST: list[Line] = [
    {"_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": "1", "id": 1, "qty": 1, "pin": "x"},
    {"_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": "3", "id": 1, "qty": 3, "pin": "x"},
    {"_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": "4", "id": 1, "qty": "many"},
    {"_CHANGE_TYPE": "PAINT", "_CHANGE_SEQUENCE_NUMBER": "5", "id": 1},
    {"_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": "1", "id": 2, "qty": 1, "pin": None},
    "{",
]
SECOND: list[Line] = [
    {"_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": "3", "id": 1, "qty": 3, "pin": "x"},
    {"_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": "2", "id": 1, "qty": 2, "pin": "x"},
    {"_CHANGE_TYPE": "DELETE", "_CHANGE_SEQUENCE_NUMBER": "2", "id": 2},
]
COLUMNS = {"id": "int", "qty": "int", "pin": {"type": "string", "sensitive": True}}
CONFIG = table("bigquery", ["id"], columns=COLUMNS)


@pytest.fixture(scope="module")
def target(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """A lake that took two batches."""
    target = target_at(tmp_path_factory.mktemp("explain"))
    for batch, lines in ((1, FIRST), (2, SECOND)):
        lakes.arrive(Lake(spark, target), CONFIG, lines, batch)
        lakes.settle(Lake(spark, target), [CONFIG])
    return target


def test_every_record_of_a_key_is_told_and_then_its_row(lake: Lake) -> None:
    *records, row = explain(lake, CONFIG, {"id": "1"})
    told = [(line.sequence and line.sequence[-1], line.outcome) for line in records]
    assert told == [
        ("1", "superseded"),
        ("2", "superseded"),
        ("3", "applied"),
        ("3", "duplicate"),
        ("4", "rejected"),
        ("5", "rejected"),
    ]
    (first, late, newest_one, again, bad, unknown) = records
    assert first.because == late.because == f"by {newest_one.position}"
    assert again.because == f"of {newest_one.position}"
    assert str(bad.because).startswith("bad_value: ")
    assert str(unknown.because).startswith("unknown_operation: ")
    assert json.loads(str(first.values)) == {"qty": 1, "pin": "(sensitive)"}
    assert (row.operation, row.outcome, row.position) == ("row", "current", newest_one.position)
    assert json.loads(str(row.values)) == {"qty": 3, "pin": "(sensitive)"}


def test_of_a_deleted_key_it_is_told_what_deleted_it(lake: Lake) -> None:
    (_, gone, row) = explain(lake, CONFIG, {"id": "2"})
    assert (gone.operation, gone.outcome, gone.values) == ("delete", "applied", None)
    assert (row.outcome, row.because) == ("no row", f"deleted by {gone.position}")


def test_a_key_that_never_came_has_no_row(lake: Lake) -> None:
    (row,) = explain(lake, CONFIG, {"id": "3"})
    assert (row.outcome, row.because) == ("no row", "nothing was applied")


def test_a_key_of_another_type_is_refused(lake: Lake) -> None:
    with pytest.raises(ConfigurationError, match="a value of type int for id"):
        explain(lake, CONFIG, {"id": "seven"})


def listed(lake: Lake, **wanted: Any) -> list[tuple[str, str | None]]:
    letters = dead_letters(lake, [CONFIG], Wanted(**wanted))
    assert letters is not None
    return [(row["reason"], row["key"]) for row in select_newest(letters, 9).collect()]


def test_dead_letters_are_listed_newest_first(lake: Lake) -> None:
    assert listed(lake) == [
        ("not_json", None),
        ("unknown_operation", '{"id":1}'),
        ("bad_value", '{"id":1}'),
    ]
    letters = dead_letters(lake, [CONFIG], Wanted())
    assert letters is not None
    assert count_by_reason(letters) == [
        (CONFIG.table, r, 1) for r in ("bad_value", "not_json", "unknown_operation")
    ]
    assert select_newest(letters, 1).first()["reason"] == "not_json"


def test_dead_letters_are_chosen_by_reason_key_and_time(lake: Lake) -> None:
    assert listed(lake, reasons=["not_json"]) == [("not_json", None)]
    chosen = listed(lake, key={"id": "1"}, reasons=["bad_value", "not_json"])
    assert chosen == [("bad_value", '{"id":1}')]
    assert listed(lake, since="2999-01-01 00:00:00") == []


def test_resolved_dead_letters_are_listed_only_when_asked_for(lake: Lake) -> None:
    letters = f"delta.`{lake.target.lake}/silver/{CONFIG.table}_dead_letters`"
    lake.spark.sql(f"UPDATE {letters} SET resolved_at = at WHERE reason = 'not_json'")
    assert len(listed(lake)) == 2
    assert len(listed(lake, resolved=True)) == 3
