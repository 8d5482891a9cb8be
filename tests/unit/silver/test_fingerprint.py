"""Which changes of a table's YAML its rows would contradict."""

from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.state.fingerprint import build_fingerprint, list_differences

ROWS = {"format": "rows", "path": "p"}
BASE = {"table": "t", "keys": ["id"], "sequence_by": "v", "source": ROWS}
DAYS = {"sequence_by": None, "columns": {"id": "int"}}


def snapshot(mode: str) -> dict[str, Any]:
    return {"source": {"format": "snapshot", "path": "p", "mode": mode}, **DAYS}


def csv(**options: Any) -> dict[str, Any]:
    columns = {"columns": {"id": "int", "a": "double"}}
    return {"source": ROWS | {"file_format": "csv", "csv": options}, **columns}


def timed(*columns: str | None) -> dict[str, Any]:
    feeds = [ROWS | {"time_column": name, "path": f"p{at}"} for at, name in enumerate(columns)]
    return {"source": None, "sources": feeds}


@pytest.mark.parametrize(
    ("before", "now", "said"),
    [
        ({}, {"except_column_list": ["mail"]}, "columns was all but none, is all but mail"),
        ({"except_column_list": ["mail"]}, {}, "columns was all but mail, is all but none"),
        (
            {"column_list": ["id", "a"]},
            {"column_list": ["id", "a", "b"]},
            "columns was only a, id, is only a, b, id",
        ),
        ({"column_list": ["id", "a"]}, {"column_list": ["a", "id"]}, None),
        (csv(), csv(decimal_comma=True), "source.csv was 1234.5, is 1234,5"),
        (csv(thousands="."), csv(thousands=".", header=False), None),
        (
            {"column_list": ["id", "a"]},
            {"except_column_list": ["a"]},
            "columns was only a, id, is all but a",
        ),
        (
            {"column_list": ["id", "a"]},
            {"column_list": ["id"]},
            "columns was only a, id, is only id",
        ),
        ({}, {"column_list": ["id"]}, "columns was all but none, is only id"),
        ({}, {"ignore_null_updates": True}, "ignore_null_updates was false, is true"),
        ({"ignore_null_updates": ["a"]}, {}, "ignore_null_updates was a, is false"),
        (
            timed(None),
            timed("at"),
            "source.time_column was the format's own, is at",
        ),
        (timed("at"), timed("at", "when"), None),
        (snapshot("full"), snapshot("delta"), "source.mode was full, is delta"),
    ],
)
def test_what_earlier_rows_would_contradict_asks_for_a_rebuild(
    before: dict[str, Any], now: dict[str, Any], said: str | None
) -> None:
    built, given = (Table.model_validate(strip(BASE | options)) for options in (before, now))
    assert [*list_differences(given, build_fingerprint(built))] == ([] if said is None else [said])
    assert [*list_differences(given, {})] == []


def strip(options: dict[str, Any]) -> dict[str, Any]:
    return {name: value for name, value in options.items() if value is not None}


def test_a_kept_column_may_be_renamed() -> None:
    renamed = {"columns": {"b": {"type": "int", "renamed_from": ["a"]}}, "column_list": ["id", "b"]}
    built, now = (
        Table.model_validate(BASE | more) for more in ({"column_list": ["id", "a"]}, renamed)
    )
    assert [*list_differences(now, build_fingerprint(built))] == ["column a is renamed to b"]
