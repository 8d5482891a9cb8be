"""BigQuery's document on change data capture: its table of employees, its four comparisons."""

from typing import Any

import pytest

from lakehouse.storage.lake import Lake
from tests.helpers import flat
from tests.helpers.builders import table

COMPARISONS = {
    1: ("77", "7B", "#2"),
    2: ("FFF/B", "FFF/ABC", "#2"),
    3: ("BA/FFFFFFFF", "ABC", "#2"),
    4: ("FFF/ABC", "ABC", "#1"),
}


def row(id: int, name: str | None, salary: int | None, kind: str, number: str | None = None) -> Any:
    given = {} if number is None else {"_CHANGE_SEQUENCE_NUMBER": number}
    return {"ID": id, "Name": name, "Salary": salary, "_CHANGE_TYPE": kind, **given}


def test_the_employees_table_and_the_comparisons(lake: Lake) -> None:
    employees = table("bigquery", ["ID"])
    before = [row(100, "Charlie", 2000, "UPSERT"), row(101, "Tal", 3000, "UPSERT")]
    before += [row(102, "Lee", 5000, "UPSERT")]
    compared = [
        row(example, f"#{n}", None, "UPSERT", number)
        for example, (one, other, _) in COMPARISONS.items()
        for n, number in ((1, one), (2, other.lower()))
    ]
    flat.deliver(lake, employees, [*before, *compared])
    changes = [row(100, None, None, "DELETE"), row(101, "Tal", 8000, "UPSERT")]
    changes += [row(105, "Izumi", 6000, "UPSERT")]
    backwards = [line | {"ID": line["ID"] + 10} for line in compared[::-1]]
    flat.deliver(lake, employees, [*changes, *backwards], 1)
    found = flat.shown(lake, employees)
    assert found.columns == ["ID", "Name", "Salary"]
    shown = flat.rows(found)
    assert [r for r in shown if r[0] > 99] == [
        (101, "Tal", 8000),
        (102, "Lee", 5000),
        (105, "Izumi", 6000),
    ]
    latest = [(example, COMPARISONS[example][2], None) for example in COMPARISONS]
    again = [(example + 10, name, None) for example, name, _ in latest]
    assert [r for r in shown if r[0] < 99] == sorted([*latest, *again], key=repr)


@pytest.mark.slow
def test_a_value_that_comes_back_without_a_number_is_a_version_again(lake: Lake) -> None:
    employees = table("bigquery", ["ID"], stored_as_scd_type=2)
    turns = [row(1, name, None, "UPSERT") for name in ("Ann", "Bea", "Ann")]
    done = flat.deliver(lake, employees, turns[:2])
    flat.deliver(lake, employees, turns[2:], done)
    versions = flat.shown(lake, employees, "t_history").orderBy("sequence_from")
    found = [(version["Name"], version["is_current"]) for version in versions.collect()]
    assert found == [("Ann", False), ("Bea", False), ("Ann", True)]
