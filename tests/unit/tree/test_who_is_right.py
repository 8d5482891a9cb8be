"""The table of who is right: its events, what it counts as wrong, and the page that shows it."""

import json
from typing import Any

import pytest

from benchmarks.right import table
from tests.helpers.oracle import Event, outcome

CASES = {case["case"]: case for case in table.read_cases()}
OPERATIONS = {"d": "delete", "t": "truncate"}
PLACEHOLDER = "__debezium_unavailable_value"


def event_of(row: dict[str, Any], position: int, case: dict[str, Any]) -> Event:
    """A change as the oracle knows it: its order is the time of its commit."""
    names = [*case["columns"], *case.get("added", {})]
    carried = {k: v for k, v in row.items() if k in names and v != PLACEHOLDER}
    return Event(
        OPERATIONS.get(row["op"], "upsert"), minutes(row["at"]), row.get("id"),
        tuple(sorted(carried.items())), position=position, time=minutes(row["at"]),
        snapshot=str(row["lsn"]) if row["op"] == "r" else None, last=row.get("snapshot") == "last",
    )  # fmt: skip


def minutes(text: str) -> int:
    return next(n for n in range(3000) if table.moment(n) == text)


@pytest.mark.parametrize("case", CASES.values(), ids=CASES)
def test_the_right_rows_are_the_oracles(case: dict[str, Any]) -> None:
    names = [*case["columns"], *case.get("added", {})]
    rows = [row for rows in case["batches"] for row in rows if row.get("n") != "many"]
    found = outcome({event_of(r, at, case) for at, r in enumerate(rows)}, names, names[1:])
    if case.get("history"):
        found_rows = [
            {"valid_from": table.moment(begin), "valid_to": end and table.moment(end)}
            | dict(zip(names, values, strict=True))
            for _, begin, end, *values in found.history
        ]
    else:
        found_rows = list(found.current.values())
    assert table.wrong_rows(case, found_rows) == 0


def test_a_row_that_is_wrong_missing_or_too_many_is_counted() -> None:
    case = CASES["changed key"]
    right = case["right"]
    assert table.cell(case, {"rows": [*reversed(right)]}) == "right"
    assert table.cell(case, {"rows": [right[0], {"id": 3, "v": "planted"}]}) == "1 wrong"
    assert table.cell(case, {"rows": [{"id": 1, "v": "a"}, right[0], right[0]]}) == "3 wrong"


def test_an_answer_without_rows_says_why() -> None:
    case = CASES["changed key"]
    assert table.cell(case, {"refused": "ValueError: x"}) == "refused: ValueError: x"


def test_a_rival_that_is_not_there_is_named() -> None:
    one = {"versions": "x 1", "cells": {"changed key": "2 wrong"}}
    shown = table.section({"made_on": "2026-11-28", "rivals": {"dlt": one}})
    assert "| | dlt |" in shown and "| changed key | **2 wrong** |" in shown
    assert "**Not measured: this project, Delta MERGE, " in shown


def test_the_page_has_the_kept_table() -> None:
    result = json.loads(table.KEPT_AS.read_text())
    page = table.PAGE.read_text()
    assert f"<!-- result right -->\n\n{table.section(result)}\n<!-- end -->" in page
    for rival in result["rivals"].values():
        assert list(rival["cells"]) == list(CASES)
