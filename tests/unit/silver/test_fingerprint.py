"""Which changes of a table's YAML its rows would contradict."""

from typing import Any, get_args

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


def debezium(**options: Any) -> dict[str, Any]:
    return {"source": {"format": "debezium", "path": "p"} | options, "sequence_by": None}


def typed(kind: str, **options: str) -> dict[str, Any]:
    return {"columns": {"c": {"type": kind, **options}}}


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
        ({}, {"columns_to_update": "changed"}, "columns_to_update was none, is changed"),
        ({}, {"apply_as_upserts": "op = 'c'"}, "apply_as_upserts was none, is op = 'c'"),
        ({"apply_as_upserts": "op = 'c'"}, {"apply_as_upserts": "op IN ('c', 'u')"}, None),
        ({}, {"on_truncate": "ignore"}, "on_truncate was apply, is ignore"),
        ({}, {"on_truncate": "fail"}, None),
        ({"on_truncate": "fail"}, {"on_truncate": "ignore"}, None),
        (debezium(), debezium(topic="s.t"), None),
        (
            debezium(),
            debezium(unavailable_value="__missing"),
            "source.unavailable_value was __debezium_unavailable_value, is __missing",
        ),
        (
            debezium(),
            debezium(decimal_handling_mode="string"),
            "source.decimal_handling_mode was precise, is string",
        ),
        (typed("struct<a: int>"), typed("STRUCT<a:INT>"), None),
        (
            typed("struct<a: int>"),
            typed("struct<a: int, b: int>"),
            "columns.c was struct<a:int>, is struct<a:int,b:int>",
        ),
        (typed("array<int>"), typed("array<bigint>"), None),
        ({}, typed("struct<a: int>"), None),
        (
            typed("timestamp", infinity="null"),
            typed("timestamp", infinity="clamp"),
            "infinity of c was null, is clamp",
        ),
        (typed("timestamp"), typed("timestamp", infinity="clamp"), None),
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


IN_IT = {
    "apply_as_deletes", "apply_as_truncates", "apply_as_upserts", "binary_handling_mode",
    "column_list", "columns", "columns_to_update", "csv", "decimal_handling_mode",
    "except_column_list", "format", "ignore_null_updates", "keys", "mode", "on_delete",
    "on_truncate", "parts", "sequence_by", "sequence_groups", "source", "sources",
    "stored_as_scd_type", "time_column", "time_precision_mode", "track_history_column_list",
    "track_history_except_column_list", "unavailable_value", "where",
}  # fmt: skip
DECIDE_DEAD_LETTERS = {"expectations", "use", "max_dead_letters", "schema_changes"}
READ = {
    "delta", "file_format", "kafka", "max_bytes_per_trigger", "max_files_per_trigger",
    "max_offsets_per_trigger", "on_data_loss", "once", "path", "schema_registry", "topic",
    "transaction_topic", "value_format",
}  # fmt: skip
"""Which records come from now on; those that came stay."""
BY_RECORD = {"envelope", "feed_mode", "start_sequence"}
"""What a table has learned of its records may be declared later."""
WRITE_AND_SHOW = {
    "change_data_feed", "cluster_by", "comment", "consistency_group", "max_staleness",
    "on_stale_key", "publish", "table", "tombstone_retention",
}  # fmt: skip


def test_of_every_setting_it_is_decided_whether_rows_depend_on_it() -> None:
    sources = get_args(get_args(Table.model_fields["sources"].annotation)[0])[0]
    options = {name for source in get_args(sources) for name in source.model_fields}
    decided = IN_IT | DECIDE_DEAD_LETTERS | READ | BY_RECORD | WRITE_AND_SHOW
    assert {*Table.model_fields} | options == decided
