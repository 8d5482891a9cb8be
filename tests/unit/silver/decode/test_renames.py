"""A renamed column: records with its old names, its new one and both, in every format."""

import json
import pickle
from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pyspark.sql import types as T

from lakehouse.config.table import Table
from silver.decode.arrow import DiscoveryPlan, discover_batches
from silver.decode.columns import Columns, Discovery, is_published, known_columns
from silver.decode.formats import PROTOCOLS
from silver.decode.protocols.rows import with_fault_column
from silver.decode.renames import by_column, column_names
from tests.helpers.both_ways import batch, both_ways, same
from tests.helpers.debezium_records import event
from tests.helpers.records import captured

COLUMNS = {
    "id": {"type": "bigint", "renamed_from": "no"},
    "customer_name": {"type": "string", "renamed_from": ["customer", "client"]},
    "note": "string",
}
SOURCES: Mapping[str, Mapping[str, Any]] = {
    "debezium": {"path": "p"},
    "flattened": {"path": "p", "envelope": "flattened"},
    "ydb": {"path": "p", "feed_mode": "updates"},
    "bigquery": {"path": "p"},
    "rows": {"path": "p"},
    "csv": {"path": "p", "file_format": "csv"},
    "snapshot": {"path": "p", "mode": "full"},
}
FORMATS = {"flattened": "debezium", "csv": "rows"}
Fields = dict[str, Any]


def table(kind: str, **options: Any) -> Table:
    source = {"format": FORMATS.get(kind, kind), **SOURCES[kind]}
    ordered = {"sequence_by": "note"} if source["format"] == "rows" else {}
    keys = {"table": "t", "keys": ["id"], "source": source, "columns": COLUMNS}
    return Table.model_validate(keys | ordered | options)


def record(kind: str, row: Fields) -> Fields:
    """A record of a row, whose key is what it calls `id` or `no`."""
    key = {name: value for name, value in row.items() if name.lower() in ("id", "no")}
    said = json.dumps(key).encode()
    if kind == "debezium":
        return {"_raw": json.dumps(event("c", after=row)).encode(), "_key": said}
    if kind == "flattened":
        added = {"__op": "c", "__lsn": 7, "__deleted": "false"}
        return {"_raw": json.dumps(row | added).encode(), "_key": said}
    if kind == "ydb":
        others = {name: value for name, value in row.items() if name not in key}
        change = {"update": others, "key": [*key.values()], "ts": [5, 6]}
        return {"_raw": json.dumps(change).encode()}
    more = {"_CHANGE_TYPE": "UPSERT"} if kind == "bigquery" else {}
    return {"_raw": json.dumps(row | more).encode()}


def known(of: Table, *more: str) -> Columns:
    found = known_columns(of, dict.fromkeys(more, T.StringType()))
    return with_fault_column(found) if of.format == "rows" else found


def decoded(
    kind: str, rows: Sequence[Fields], monkeypatch: pytest.MonkeyPatch
) -> list[dict[str, Any]]:
    of = table(kind)
    file = "/l/p/2024-05-01/a.json" if kind == "snapshot" else None
    records = batch([record(kind, row) for row in rows], file)
    by_columns, alone = both_ways(of, known(of), records, monkeypatch)
    same(by_columns, alone)
    return by_columns


@pytest.mark.parametrize("kind", SOURCES)
def test_each_name_fills_the_column_and_the_newest_that_is_there_counts(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A null counts as well; only a field that is not there leaves the column to an older name."""
    rows = [
        {"no": 1, "customer": "a", "note": "1"},
        {"id": 2, "customer_name": "b", "note": "1"},
        {"id": 3, "customer": "old", "customer_name": "c", "note": "1"},
        {"id": 4, "customer_name": None, "customer": "old", "note": "1"},
        {"no": 5, "client": "oldest", "note": "1", "customer": "e"},
        {"no": 6, "client": "f", "note": "1"},
    ]

    found = decoded(kind, 3 * rows, monkeypatch)

    shown = [(row["id"], row["customer_name"]) for row in found]
    assert shown == 3 * [(1, "a"), (2, "b"), (3, "c"), (4, None), (5, "e"), (6, "f")]
    assert {(row["_reason"], row["_mismatched"]) for row in found} <= {(None, None), (None, False)}
    assert [row["_absent"] for row in found] == [None] * 18


@pytest.mark.parametrize("kind", ["ydb", "bigquery", "rows"])
def test_a_row_with_neither_name_does_not_carry_the_column(
    kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    found = decoded(
        kind, [{"no": 1, "note": "1"}, {"id": 1, "customer": None, "note": "1"}], monkeypatch
    )

    assert [row["_absent"] for row in found] == [["customer_name"], None]


@pytest.mark.parametrize("kind", SOURCES)
def test_old_and_new_records_show_the_same_columns_and_no_other(kind: str) -> None:
    """Nothing undeclared comes of an old name, be it alone or beside the new one."""
    of = table(kind)
    rows = [
        {"no": 1, "customer": "a", "note": "1"},
        {"id": 2, "customer_name": "b", "note": "1", "more": "x"},
        {"id": 3, "customer_name": "b", "client": "a", "note": "1"},
    ]
    found: Discovery = PROTOCOLS[of.format].discovery(of, known_columns(of, {}))
    for row in discovered(of, kind, rows):
        found.merge(row)
    columns, shapes = found.settle()

    names = [name for name in columns.names if not name.startswith("__")]
    assert names == ["id", "customer_name", "note", "more"]
    assert {name for shape in shapes for name in shape.fields} <= {*names}
    assert columns.key_parts == () == columns.left_out


def discovered(of: Table, kind: str, rows: Sequence[Fields]) -> list[Discovery]:
    records = batch([record(kind, row) for row in rows])
    plan = DiscoveryPlan(of, known_columns(of, {}))
    parts = discover_batches(plan, iter([records]))
    return [pickle.loads(row["discovery"]) for part in parts for row in part.to_pylist()]


def test_captured_records_give_the_same_by_either_name(monkeypatch: pytest.MonkeyPatch) -> None:
    """PostgreSQL renamed `owner` to `holder`, with a schema block in each record."""
    columns = {"id": "int", "holder": {"type": "string", "renamed_from": "owner"}}
    source = {"format": "debezium", "path": "p", "topic": "shop.shop.accounts"}
    of = Table.model_validate({"table": "t", "keys": ["id"], "source": source, "columns": columns})
    lines = captured("small_with_schemas", "accounts")
    texts = [json.dumps(line["value"]) for line in lines if line["value"] is not None]
    named = [texts, [text.replace('"owner"', '"holder"') for text in texts]]
    told = replace(known(of, "currency", "legacy"), settled=True)

    shown = []
    for each in named:
        records = batch([{"_raw": text.encode()} for text in each])
        by_columns, alone = both_ways(of, told, records, monkeypatch)
        same(by_columns, alone)
        names = ("id", "holder", "currency", "_operation", "_reason", "_absent")
        shown.append([tuple(row[name] for name in names) for row in alone])

    assert shown[0] == shown[1]
    assert {holder for _, holder, *_ in shown[0]} > {"owner 1", "eleven"}


def test_a_delete_finds_its_key_by_the_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    of = table("debezium")
    gone = event("d", before={"no": 7, "customer": "a", "note": None})
    records = [
        {"_raw": json.dumps(gone).encode(), "_key": b'{"no": 7}'},
        {"_raw": json.dumps(gone).encode(), "_key": b"Struct{no=7}"},
        {"_raw": json.dumps(gone).encode(), "_key": b'{"id": 7}'},
    ]

    by_columns, alone = both_ways(of, known(of), batch(records), monkeypatch)

    same(by_columns, alone)
    assert [(row["_operation"], row["id"]) for row in alone] == 3 * [("delete", 7)]


def test_a_tombstone_of_flattened_events_deletes_by_the_old_name(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    of = table("flattened")
    records = batch([{"_raw": None, "_key": b'{"no": 7}', "_offset": 3, "_topic": "t"}])

    by_columns, alone = both_ways(
        of, replace(known(of), envelope="flattened"), records, monkeypatch
    )

    same(by_columns, alone)
    assert [(row["_operation"], row["id"]) for row in alone] == [("delete", 7)]


def test_a_placeholder_under_the_old_name_is_no_value(monkeypatch: pytest.MonkeyPatch) -> None:
    of = table("debezium")
    row = {"no": 1, "customer": "__debezium_unavailable_value", "note": "1"}

    by_columns, alone = both_ways(of, known(of), batch([record("debezium", row)]), monkeypatch)

    same(by_columns, alone)
    assert [(row["customer_name"], row["_absent"]) for row in alone] == [(None, ["customer_name"])]


def test_a_list_of_carried_columns_says_the_old_name(monkeypatch: pytest.MonkeyPatch) -> None:
    of = table("rows", columns_to_update="changed")
    row = {"no": 1, "customer": "a", "note": "1", "changed": "customer"}

    by_columns, alone = both_ways(of, known(of), batch([record("rows", row)]), monkeypatch)

    same(by_columns, alone)
    assert [(row["customer_name"], row["_absent"]) for row in alone] == [("a", ["note"])]


def test_a_folder_with_the_old_name_fills_the_column(monkeypatch: pytest.MonkeyPatch) -> None:
    of = table("rows")
    records = batch([record("rows", {"no": 1, "note": "1"})], "/l/p/customer=eu/a.json")

    by_columns, alone = both_ways(of, known(of), records, monkeypatch)

    same(by_columns, alone)
    assert [row["customer_name"] for row in alone] == ["eu"]


def test_names_differ_by_case_in_ydb_alone() -> None:
    fields = ("NO", "Customer", "note")

    assert column_names(table("rows"), fields) == ["id", "customer_name", "note"]
    assert column_names(table("ydb"), fields) == fields
    assert not is_published(table("rows"), "Customer")
    assert is_published(table("ydb"), "Customer")


def test_a_row_without_old_names_is_left_as_it_is() -> None:
    row = {"id": 1, "customer_name": "a"}

    assert by_column(table("rows"), row) is row
    assert by_column(table("rows"), {"id": 1, "client": "a", "customer": "b"}) == {
        "id": 1, "client": "a", "customer_name": "b",
    }  # fmt: skip


NAMES = {"id": ("id", "no", "NO"), "customer_name": ("customer_name", "customer", "client")}


@st.composite
def streams(draw: st.DrawFn) -> tuple[list[Fields], list[Fields], list[int]]:
    """Rows with any of a column's names, the same rows with today's, and where to cut them."""
    said, now = [], []
    for at in range(draw(st.integers(2, 12))):
        row: Fields = {"id": draw(st.integers(1, 3)), "note": str(at)}
        row |= draw(st.sampled_from([{}, {"customer_name": f"c{at}"}, {"customer_name": None}]))
        row |= draw(st.sampled_from([{}, {"more": "x"}]))
        now.append(row)
        said.append({draw(st.sampled_from(NAMES.get(n, (n,)))): v for n, v in row.items()})
    return said, now, sorted(draw(st.sets(st.integers(1, len(said) - 1), max_size=3)))


@pytest.mark.parametrize("kind", SOURCES)
@given(stream=streams())
@settings(max_examples=8, suppress_health_check=[HealthCheck.function_scoped_fixture])
def test_any_cut_of_any_names_gives_the_changes_of_new_names_in_one_batch(
    kind: str, stream: tuple[list[Fields], list[Fields], list[int]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each batch is decoded by the columns that it and those before it have shown."""
    said, now, cuts = stream
    of = table(kind)
    columns, found = known_columns(of, {}), list[Fields]()
    for first, last in pairwise([0, *cuts, len(said)]):
        columns, changes = in_turn(of, kind, columns, said[first:last], monkeypatch)
        found += changes
    _, wanted = in_turn(of, kind, known_columns(of, {}), now, monkeypatch)

    assert [business(row) for row in found] == [business(row) for row in wanted]


def in_turn(
    of: Table, kind: str, columns: Columns, rows: Sequence[Fields], monkeypatch: pytest.MonkeyPatch
) -> tuple[Columns, list[Fields]]:
    """The columns that are known after some rows, and their changes."""
    discovery: Discovery = PROTOCOLS[of.format].discovery(of, columns)
    for part in discovered(of, kind, rows):
        discovery.merge(part)
    settled, _ = discovery.settle()
    file = "/l/p/2024-05-01/a.json" if kind == "snapshot" else None
    records = batch([record(kind, row) for row in rows], file)
    by_columns, alone = both_ways(of, settled, records, monkeypatch)
    same(by_columns, alone)
    learned = [replace(c, provisional=False) for c in settled.columns if c.name[:2] != "__"]
    return replace(settled, columns=tuple(learned), settled=False), alone


def business(row: Fields) -> Fields:
    """What a change says of its row; a column that came later is null before."""
    names = ("id", "customer_name", "note", "more", "_operation", "_reason", "_message")
    carried = [name for name in row["_absent"] or () if name != "more"]
    return {name: row.get(name) for name in names} | {"_absent": carried}
