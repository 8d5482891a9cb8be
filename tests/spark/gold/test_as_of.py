"""The history asked as of a time: by the function, and by `sql --as-of`."""

import json

import pytest

from cdc_lakehouse.cli.ask.queries import print_answer, to_utc
from gold import job as gold
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import publish_views
from lakehouse.storage.writing import create_table
from tests.helpers import flat
from tests.helpers.builders import table


@pytest.mark.slow
def test_a_history_is_asked_by_time_at_the_source(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    people = table(
        "rows",
        ["id"],
        columns={"id": "int", "at": "timestamp", "city": "string"},
        sequence_by="at",
        apply_as_deletes="_op = 'D'",
        stored_as_scd_type=2,
    )
    lines = [
        {"id": 1, "at": "2024-03-01T00:00:00Z", "city": "C"},
        {"id": 1, "at": "2024-01-01T00:00:00Z", "city": "A"},
        {"id": 2, "at": "2024-01-15T00:00:00Z", "city": "X"},
        {"id": 2, "at": "2024-02-15T00:00:00Z", "_op": "D"},
    ]
    flat.deliver(lake, people, lines)
    publish_views(lake, "gold", gold.table_views(lake, people))
    days = ["2023-12-31", "2024-01-01", "2024-02-01", "2024-02-15", "2024-03-01"]
    asked = " UNION ALL ".join(
        f"SELECT '{day}' AS day, id, city FROM gold.t_as_of(TIMESTAMP '{day} 00:00:00Z')"
        for day in days
    )
    print_answer(lake, asked, "json")
    found = [tuple(json.loads(line).values()) for line in capsys.readouterr().out.splitlines()]
    assert sorted(found) == [
        ("2024-01-01", 1, "A"),
        ("2024-02-01", 1, "A"),
        ("2024-02-01", 2, "X"),
        ("2024-02-15", 1, "A"),
        ("2024-03-01", 1, "C"),
    ]
    query = "SELECT id, city FROM gold.t ORDER BY id"
    print_answer(lake, query, "csv", to_utc("2024-02-01T01:00:00+01:00"))
    assert capsys.readouterr().out.splitlines() == ["id,city", "1,A", "2,X"]
    print_answer(lake, query, "csv")
    assert capsys.readouterr().out.splitlines() == ["id,city", "1,C"]


@pytest.mark.slow
def test_tables_of_layers_that_a_query_does_not_name_need_not_be_as_old(
    lake: Lake, capsys: pytest.CaptureFixture[str]
) -> None:
    people = table(
        "rows", ["id"], columns={"id": "int", "at": "timestamp"}, sequence_by="at",
        stored_as_scd_type=2,
    )  # fmt: skip
    flat.deliver(lake, people, [{"id": 1, "at": "2024-01-01T00:00:00Z"}])
    publish_views(lake, "gold", gold.table_views(lake, people))
    made = f"CREATE TABLE {lake.name('bronze', 't')} (id int) USING delta"
    create_table(lake, "bronze", "t", made)
    print_answer(lake, "SELECT id FROM gold.t", "csv", to_utc("2024-02-01"))
    assert capsys.readouterr().out.splitlines() == ["id", "1"]
