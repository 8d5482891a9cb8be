"""How a source's new, wider, dropped and incompatible columns flow through, and what is refused."""

from typing import Any

import pytest

from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from silver import job as silver
from tests.helpers import lakes
from tests.helpers.lakes import quiet
from tests.helpers.landed import apply, failures, land
from tests.helpers.records import captured

pytestmark = pytest.mark.slow


def rows_table(**options: Any) -> Table:
    given = {"table": "t", "source": {"format": "rows", "path": "t"}, "keys": ["id"]}
    return Table.model_validate(given | {"sequence_by": "v"} | options)


def accounts(**options: Any) -> Table:
    source = {"format": "debezium", "path": "t", "topic": "shop.shop.accounts"}
    given = {"table": "t", "source": source, "keys": ["id"], "columns": {"id": "int"}}
    return Table.model_validate(given | options)


def drift(lake: Lake) -> list[tuple[Any, ...]]:
    rows = lake.spark.table(lake.name("silver", "_schema_drift")).orderBy("at").collect()
    columns = ("kind", "column", "from_type", "to_type", "action", "position")
    return [tuple(row[c] for c in columns) for row in rows]


def shown(lake: Lake, *columns: str) -> list[tuple[Any, ...]]:
    rows = lake.spark.table(lake.name("silver", "t")).where("NOT _deleted").collect()
    return sorted((tuple(row[c] for c in columns) for row in rows), key=repr)


ACCOUNTS = [
    (1, 106, "EUR", None, "old 1", "owner 1"),
    (10, 1000, "USD", None, "l", "ten"),
    (11, 6_000_000_000, "EUR", None, None, "eleven"),
    (12, 12, "EUR", "twelve", None, None),
    (2, 5_000_000_000, "EUR", None, "old 2", "owner 2"),
    (3, 301, "EUR", None, None, "owner 3 later"),
    (5, 500, None, None, "old 5", "owner 5"),
]
KINDS = [
    ("add_column", "currency", None, "string", "applied"),
    ("widen", "balance", "int", "bigint", "applied"),
    ("drop_column", "legacy", "string", None, "applied"),
    ("add_column", "holder", None, "string", "applied"),
    ("drop_column", "owner", "string", None, "applied"),
    ("incompatible", "legacy", "string", "int", "dead_letter"),
]
FIRST_SHOWN = [188, 194, 200, 203, 203, 206]


@pytest.mark.parametrize("size", [20, 6])
@pytest.mark.parametrize("remembers", [False, True])
def test_captured_accounts_flow_through_added_wider_renamed_and_retyped_columns(
    lake: Lake, size: int, remembers: bool
) -> None:
    """The column that came back as a number, where text was, is the one dead letter."""
    events = captured("small_with_schemas", "accounts")
    memory = Memory() if remembers else None
    for at in range(0, len(events), size):
        land(lake, accounts(), at + 1, events[at : at + size])
        done = silver.apply(lake, [accounts()], "run", quiet, memory)
        assert failures(done) == []
    columns = ("id", "balance", "currency", "holder", "legacy", "owner")
    assert shown(lake, *columns) == ACCOUNTS
    topic = "shop.shop.accounts"
    expected = [(*kind, f"{topic}/{at}") for kind, at in zip(KINDS, FIRST_SHOWN, strict=True)]
    assert sorted(drift(lake), key=repr) == sorted(expected, key=repr)
    letters = lake.spark.table(lake.name("silver", "t_dead_letters")).collect()
    assert [(r["reason"], r["position"]) for r in letters] == [
        ("incompatible_schema", f"{topic}/206")
    ]


def test_history_and_gold_show_a_wider_column_without_a_redeploy(lake: Lake) -> None:
    events = captured("small_with_schemas", "accounts")
    config = accounts(stored_as_scd_type=2)
    for batch, part in enumerate([events[:7], events[7:9]], start=1):
        land(lake, config, batch, part)
        assert failures(apply(lake, config)) == []
        gold.publish(lake, [config], "run", lakes.quiet)
    rows = [r for r in lakes.rows(lake, "t_history") if r["id"] == 2]
    versions = sorted((r["valid_from"], r["balance"], r["currency"]) for r in rows)
    assert [v[1:] for v in versions] == [(201, None), (5_000_000_000, "EUR")]


def test_rows_bring_a_new_column_and_one_of_another_kind(lake: Lake) -> None:
    land(lake, rows_table(), 1, [{"id": 1, "v": 1, "a": 1}])
    apply(lake, rows_table())
    further = [{"id": 1, "v": 2, "a": "text"}, {"id": 2, "v": 1, "a": 2, "new": 5}]
    land(lake, rows_table(), 2, further)
    assert failures(apply(lake, rows_table())) == []
    assert shown(lake, "id", "a", "new") == [(1, 1, None), (2, 2, 5)]
    assert sorted(drift(lake), key=repr) == [
        ("add_column", "new", None, "bigint", "applied", "/landing/2.jsonl:1"),
        ("incompatible", "a", "bigint", None, "dead_letter", "/landing/2.jsonl:0"),
    ]


def test_an_ignored_new_column_is_noted_and_left_out(lake: Lake) -> None:
    config = rows_table(schema_changes={"add_column": "ignore"}, columns={"a": "string"})
    for batch, row in enumerate([{"id": 1, "v": 1}, {"id": 2, "v": 1, "new": 5}], start=1):
        land(lake, config, batch, [row])
        assert failures(apply(lake, config)) == []
    assert "new" not in lake.spark.table(lake.name("silver", "t")).columns
    ignored = {(d[0], d[1], d[4]) for d in drift(lake)}
    assert ignored == {("add_column", "v", "ignored"), ("add_column", "new", "ignored")}


def test_fail_stops_that_table_alone_before_anything_is_written(lake: Lake) -> None:
    strict = rows_table(schema_changes={"add_column": "fail", "incompatible": "fail"})
    other = rows_table().model_copy(update={"table": "u"})
    for table in (strict, other):
        land(lake, table, 1, [{"id": 1, "v": 1, "a": 1}])
    assert failures(apply(lake, strict, other)) == []
    log = lake.spark.table(lake.name("silver", "t_changes"))
    for table in (strict, other):
        land(lake, table, 2, [{"id": 2, "v": 1, "a": 1}, {"id": 3, "v": 1, "new": 1}])
    [message] = failures(apply(lake, strict, other))
    assert message and "add_column new (bigint); schema_changes.add_column is fail" in message
    assert log.count() == 1
    land(lake, strict, 3, [{"id": 4, "v": 1, "a": "text"}])
    less_strict = rows_table(schema_changes={"incompatible": "fail"})
    [message] = failures(apply(lake, less_strict))
    assert message and "schema_changes.incompatible is fail" in message
    assert log.count() == 1
    assert failures(apply(lake, rows_table())) == []
    assert log.count() == 4
    assert lake.spark.table(lake.name("silver", "u")).count() == 3


def test_a_configuration_that_contradicts_the_tables_is_refused_with_the_way_out(
    lake: Lake,
) -> None:
    config = rows_table(columns={"a": "int"})
    land(lake, config, 1, [{"id": 1, "v": 1, "a": 1}])
    assert failures(apply(lake, config)) == []
    contradictions = {
        "keys was id, is id, v": rows_table(keys=["id", "v"]),
        "stored_as_scd_type was 1, is 2": rows_table(stored_as_scd_type=2),
        "sequence_by was v, is a": rows_table(sequence_by="a"),
        "source.format was rows, is bigquery": bigquery(),
    }
    for difference, changed in contradictions.items():
        [message] = failures(apply(lake, changed))
        assert message and difference in message and "lakehouse rebuild t" in message
    land(lake, config, 2, [{"id": 2, "v": 1, "a": 5}])
    [message] = failures(apply(lake, rows_table(columns={"a": "string"})))
    assert message and "columns.a was int, is string" in message
    assert failures(apply(lake, rows_table(columns={"a": "bigint"}))) == []
    assert shown(lake, "id", "a") == [(1, 1), (2, 5)]


def bigquery() -> Table:
    source = {"format": "bigquery", "path": "t"}
    return Table.model_validate({"table": "t", "source": source, "keys": ["id"]})
