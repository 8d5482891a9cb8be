"""Every contradiction a table's YAML can hold, one case each: the dotted key that is named."""

import pytest

from lakehouse.config.unpacking import unpack_table
from lakehouse.errors import ConfigurationError, ManyConfigurationErrors

DEBEZIUM = {"format": "debezium", "path": "shop"}
ROWS = {"format": "rows", "path": "shop"}
BIGQUERY = {"format": "bigquery", "path": "shop"}
YDB = {"format": "ydb", "path": "shop"}
SNAPSHOT = {"format": "snapshot", "path": "p", "mode": "full"}
DELTA = {"format": "rows", "delta": "main.sales.orders"}
KAFKA = {"topic": "t", "bootstrap_servers": "localhost:9092"}
AVRO = {"format": "debezium", "kafka": KAFKA, "value_format": "avro"}


def registry(name: str) -> dict[str, object]:
    return AVRO | {"schema_registry": {"url": f"http://{name}:8081"}}


def find_problems(**keys: object) -> list[ConfigurationError]:
    try:
        unpack_table({"table": "t", "keys": ["id"], "source": DEBEZIUM} | keys, "t.yml")
    except ManyConfigurationErrors as failure:
        return list(failure.errors)
    return []


def problem_keys(**keys: object) -> list[str]:
    return [problem.key for problem in find_problems(**keys)]


@pytest.mark.parametrize(
    "keys",
    [
        {},
        {"keys": []},
        {"source": ROWS, "sequence_by": "v", "apply_as_deletes": "op = 'D'"},
        {"source": None, "sources": [DEBEZIUM, {**DEBEZIUM, "once": True}]},
        {"source": BIGQUERY | {"file_format": "csv", "time_column": "at"}},
        {"source": BIGQUERY, "sequence_by": ["a", "b"]},
        {"source": BIGQUERY, "sequence_groups": [{"sequence_by": "v", "columns": ["a"]}]},
        {"source": YDB | {"start_sequence": [1, 2]}},
        {"source": YDB | {"feed_mode": "keys_only"}},
        {"source": None, "sources": [YDB | {"feed_mode": "updates"}] * 2},
        {"source": None, "sources": [YDB, YDB]},
        {"source": SNAPSHOT},
        {"source": {"format": "debezium", "kafka": KAFKA, "max_offsets_per_trigger": 9}},
        {"source": None, "sources": [{**DEBEZIUM, "once": True}, registry("a"), registry("a")]},
        {"stored_as_scd_type": 2, "track_history_column_list": ["a"]},
        {"columns": {"shard": {"from": "source.db"}, "id": {"type": "int", "nullable": True}}},
        {"column_list": ["id", "a"], "columns": {"a": "struct<x:int>"}},
        {"columns": {"id": {"type": "date", "infinity": "clamp"}}},
        {"columns": {"a": {"type": "timestamp_ntz", "infinity": None}}},
        {"publish": "table", "change_data_feed": True},
        {"publish": "table", "keys": []},
        {"columns": {"day": "date", "state": "varchar(9)"}, "cluster_by": ["day", "state"]},
        {"source": DELTA},
        {
            "source": DELTA | {"time_column": "at"},
            "sequence_by": "v",
            "apply_as_deletes": "op = 'D'",
        },
    ],
)
def test_what_makes_sense_is_accepted(keys: dict[str, object]) -> None:
    assert problem_keys(**keys) == []


@pytest.mark.parametrize(
    ("keys", "named"),
    [
        ({"cluster_by": ["day"]}, "cluster_by"),
        ({"columns": {"day": "date"}, "cluster_by": ["day", "day"]}, "cluster_by"),
        ({"columns": {"a": {"type": "int", "sensitive": True}}, "cluster_by": ["a"]}, "cluster_by"),
        ({"columns": {"a": "array<int>"}, "cluster_by": ["a"]}, "cluster_by"),
        ({"columns": {"a": "boolean"}, "cluster_by": ["a"]}, "cluster_by"),
        (
            {"columns": {"a": "int"}, "except_column_list": ["a"], "cluster_by": ["a"]},
            "cluster_by",
        ),
        ({"keys": [], "columns": {"a": "int"}, "cluster_by": ["a"]}, "cluster_by"),
        ({"change_data_feed": True}, "change_data_feed"),
        ({"change_data_feed": True, "publish": "table", "keys": []}, "change_data_feed"),
        ({"source": DELTA | {"path": "shop"}}, "source"),
        ({"source": DELTA | {"format": "debezium"}}, "source.delta"),
        ({"source": DELTA | {"topic": "t"}}, "source.topic"),
        ({"source": DELTA | {"file_format": "csv"}}, "source.file_format"),
        ({"source": DELTA | {"max_offsets_per_trigger": 1}}, "source.max_offsets_per_trigger"),
        ({"source": None, "sources": [DELTA, ROWS]}, "sequence_by"),
        ({"source": YDB, "columns": {"shard": {"from": "source.db"}}}, "columns.shard.from"),
        ({"columns": {"a": {"type": "int", "infinity": "clamp"}}}, "columns.a.infinity"),
        ({"columns": {"id": {"type": "date", "infinity": None}}}, "columns.id.infinity"),
        ({"source": None}, "source"),
        ({"source": None, "sources": [registry("a"), registry("b")]}, "sources"),
        ({"sources": [DEBEZIUM]}, "source"),
        ({"source": {"format": "debezium"}}, "source"),
        ({"source": DEBEZIUM | {"kafka": KAFKA}}, "source"),
        ({"source": DEBEZIUM | {"path": "/abs"}}, "source.path"),
        ({"source": DEBEZIUM | {"path": "a/../.."}}, "source.path"),
        ({"source": DEBEZIUM | {"mode": "full"}}, "source.mode"),
        ({"source": {"format": "snapshot", "path": "p"}}, "source.mode"),
        ({"source": SNAPSHOT, "max_staleness": 0}, "max_staleness"),
        ({"source": DEBEZIUM | {"file_format": "json"}}, "source.file_format"),
        ({"source": DEBEZIUM | {"start_sequence": [1]}}, "source.start_sequence"),
        ({"source": DEBEZIUM | {"time_column": "a"}}, "source.time_column"),
        ({"source": DEBEZIUM | {"max_offsets_per_trigger": 1}}, "source.max_offsets_per_trigger"),
        ({"source": YDB | {"unavailable_value": "x"}}, "source.unavailable_value"),
        ({"source": DEBEZIUM | {"feed_mode": "updates"}}, "source.feed_mode"),
        ({"source": SNAPSHOT | {"feed_mode": "updates"}}, "source.feed_mode"),
        ({"source": BIGQUERY | {"feed_mode": "keys_only"}}, "source.feed_mode"),
        ({"source": None, "sources": [YDB, YDB | {"feed_mode": "updates"}]}, "sources"),
        ({"source": YDB | {"decimal_handling_mode": "double"}}, "source.decimal_handling_mode"),
        ({"source": YDB | {"time_precision_mode": "connect"}}, "source.time_precision_mode"),
        ({"source": YDB | {"binary_handling_mode": "hex"}}, "source.binary_handling_mode"),
        ({"source": BIGQUERY | {"topic": "t"}}, "source.topic"),
        (
            {"source": {"format": "ydb", "kafka": KAFKA, "max_files_per_trigger": 1}},
            "source.max_files_per_trigger",
        ),
        ({"source": None, "sources": [DEBEZIUM, {"format": "debezium"}]}, "sources[1]"),
        ({"apply_as_deletes": "x"}, "apply_as_deletes"),
        ({"apply_as_truncates": "x"}, "apply_as_truncates"),
        ({"columns_to_update": "x"}, "columns_to_update"),
        ({"source": YDB, "on_truncate": "fail"}, "on_truncate"),
        ({"source": YDB, "consistency_group": "g"}, "consistency_group"),
        ({"source": ROWS}, "sequence_by"),
        ({"source": ROWS, "sequence_by": list("abcde")}, "sequence_by"),
        ({"keys": ["id", "ID"]}, "keys"),
        ({"keys": [], "source": YDB}, "keys"),
        ({"keys": [], "stored_as_scd_type": 2}, "stored_as_scd_type"),
        ({"keys": [], "on_delete": "flag"}, "on_delete"),
        ({"keys": [f"k{i}" for i in range(17)], "source": BIGQUERY}, "keys"),
        (
            {"columns": {f"c{i}": "int" for i in range(2_001)}, "source": BIGQUERY},
            "columns",
        ),
        ({"column_list": ["id"], "except_column_list": ["a"]}, "except_column_list"),
        ({"column_list": ["a"]}, "column_list"),
        ({"except_column_list": ["id"]}, "except_column_list"),
        ({"ignore_null_updates": ["id"]}, "ignore_null_updates"),
        ({"track_history_column_list": ["a"]}, "track_history_column_list"),
        (
            {
                "stored_as_scd_type": 2,
                "track_history_column_list": ["a"],
                "track_history_except_column_list": ["b"],
            },
            "track_history_except_column_list",
        ),
        (
            {
                "source": YDB,
                "sequence_groups": [{"sequence_by": "v", "columns": ["id"]}],
            },
            "sequence_groups[0].columns",
        ),
        (
            {"source": YDB, "sequence_groups": [{"sequence_by": "v", "columns": []}]},
            "sequence_groups[0].columns",
        ),
        (
            {"source": YDB, "sequence_groups": [{"sequence_by": "_v", "columns": ["a"]}]},
            "sequence_groups[0].sequence_by",
        ),
        ({"sequence_groups": [{"sequence_by": "v", "columns": ["a"]}]}, "sequence_groups"),
        ({"sequence_by": "v"}, "sequence_by"),
        ({"source": YDB, "sequence_by": "v"}, "sequence_by"),
        ({"columns": {"a": "decimal(40,2)"}}, "columns.a.type"),
        ({"columns": {"_a": "int"}}, "columns._a"),
        ({"keys": ["_id"]}, "keys"),
        ({"columns": {"id": "array<int>"}}, "columns.id.type"),
        ({"columns": {"id": {"type": "int", "operational": True}}}, "columns.id.operational"),
        ({"columns": {"a": "int", "A": "int"}}, "columns.A"),
        ({"columns": {"ID": "int"}}, "columns.ID"),
        ({"columns": {" ": "int"}}, "columns. "),
        ({"keys": [""]}, "keys"),
        ({"columns": {"a": "struct<b: int, B: int>"}}, "columns.a.type"),
        ({"source": None, "sources": [SNAPSHOT, DEBEZIUM]}, "sources"),
        ({"source": None, "sources": [SNAPSHOT, SNAPSHOT]}, "sources"),
    ],
)
def test_a_contradiction_is_named_by_its_key(keys: dict[str, object], named: str) -> None:
    assert problem_keys(**keys) == [named]


@pytest.mark.parametrize(
    "keys",
    [
        {"columns": {"valid_to": "date"}, "stored_as_scd_type": 2},
        {"columns": {"operation": "int"}, "source": SNAPSHOT},
        {"columns": {"is_deleted": "int"}, "on_delete": "flag"},
    ],
)
def test_a_column_that_gold_shows_under_another_name_may_be_declared(
    keys: dict[str, object],
) -> None:
    assert problem_keys(**keys) == []


@pytest.mark.parametrize(
    ("option", "value", "wrong"),
    [
        ("sasl.jaas.config", "Login required password='x';", True),
        ("ssl.keystore.password", "hunter2", True),
        ("sasl.jaas.config", "env:JAAS", False),
        ("ssl.keystore.password", "secret:scope/key", False),
        ("security.protocol", "SASL_SSL", False),
    ],
)
def test_a_secret_is_never_written_in_yaml(option: str, value: str, wrong: bool) -> None:
    kafka = KAFKA | {"security": {option: value}}
    found = find_problems(source={"format": "debezium", "kafka": kafka})
    assert [p.key for p in found] == ([f"source.kafka.security.{option}"] if wrong else [])
    assert value not in "".join(map(str, found))
