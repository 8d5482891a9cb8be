from datetime import date

import pytest

from silver.decode.protocols.snapshot_files import folder_of, sequence_of_day
from silver.decode.values.sequences import literal_sequence
from tests.helpers.builders import table
from tests.helpers.flat_records import ARRIVED_AT, Line, decoded

FULL = table("snapshot", ["id"], columns={"qty": "int"}, source={"mode": "full"})
DAY_10 = 10 * 86_400_000_000


def on(day: str) -> str:
    return f"/landing/here/{day}/part-1.jsonl"


def test_a_row_says_what_its_key_is_as_of_the_files_day() -> None:
    lines: list[Line] = [{"id": 1, "qty": 2, "name": "a"}, {"id": 2}, None]
    found = decoded(FULL, lines, file=on("1970-01-11"))
    assert found.columns.names == ["id", "qty", "name"]
    assert found.values("id", "qty", "name")[:2] == [(1, 2, "a"), (2, None, None)]
    assert found.told("operation", "absent", "sequence", "source_time") == [
        ("upsert", None, literal_sequence([10]), DAY_10),
        ("upsert", None, literal_sequence([10]), DAY_10),
        ("none", None, literal_sequence([10]), DAY_10),
    ]


@pytest.mark.parametrize(
    "file",
    [
        "/landing/here/1.jsonl",
        on("2024-02-30"),
        on("1969-12-31"),
        on("20240101"),
        "/landing/there/2024-01-01/1.jsonl",
        None,
    ],
)
def test_a_row_of_a_file_below_no_day_is_a_dead_letter(file: str | None) -> None:
    found = decoded(FULL, [{"id": 1}, "no JSON"], file=file)
    assert (
        found.told("operation", "reason", "sequence", "source_time")
        == [(None, "bad_sequence", None, ARRIVED_AT)] * 2
    )
    expected = f"file {file}: expected it below a folder YYYY-MM-DD"
    assert found.told("message") == [expected] * 2


def test_a_row_that_cannot_be_read_keeps_the_sequence_of_its_day() -> None:
    lines: list[Line] = ["id,1", {"qty": 1}, {"id": 1, "qty": "x"}]
    found = decoded(FULL, lines, file=on("1970-01-11"))
    assert found.told("reason") == ["not_json", "no_key", "bad_value"]
    assert found.told("operation", "sequence") == [(None, literal_sequence([10]))] * 3


def test_a_null_in_a_column_that_must_have_a_value_is_a_dead_letter() -> None:
    columns = {"qty": {"type": "int", "nullable": False}}
    strict = table("snapshot", ["id"], columns=columns, source={"mode": "full"})
    found = decoded(strict, [{"id": 1, "qty": None}, {"id": 2}], file=on("1970-01-11"))
    assert found.told("reason") == ["bad_value"] * 2


def test_the_days_folder_is_the_one_below_the_tables() -> None:
    nested = table("snapshot", ["id"], source={"path": "/a/b.c/", "mode": "full"})
    assert folder_of("/landing/a/b.c/2024-05-01/x/1.csv", nested) == "2024-05-01"
    assert folder_of("/landing/a/bxc/2024-05-01/x/1.csv", nested) is None
    assert sequence_of_day(date(1970, 1, 11)) == literal_sequence([10])
