"""Keys: parts that may be null, parts out of the envelope, parts that the table lacks."""

from collections.abc import ItemsView, Iterator
from dataclasses import replace
from itertools import pairwise, permutations
from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.columns import Columns, known_columns, shown_by, with_shown
from silver.decode.debezium.discovery import DebeziumDiscovery
from silver.decode.debezium.events.envelope import Envelope
from silver.decode.debezium.traits import Traits
from tests.helpers.debezium_records import (
    decoded,
    decoded_with,
    discovered,
    event,
    plain,
    table,
    whole,
)

NULLABLE = {"tenant": {"type": "string", "nullable": True}, "id": "int", "name": "string"}
SHARD = {"id": "int", "shard": {"from": "source.db"}, "item": "string"}


def source(db: str, lsn: int = 10) -> dict[str, Any]:
    return {"connector": "postgresql", "name": "s", "lsn": lsn, "db": db, "ts_ms": 1_500}


def record(value: object, key: object = None, **parts: object) -> dict[str, Any]:
    return {"topic": "t", "partition": 0, "offset": 7, "key": key, "value": value} | parts


def two_keys(columns: dict[str, Any] = NULLABLE) -> Table:
    return table(keys=("tenant", "id"), columns=columns)


@pytest.mark.parametrize(
    ("given", "reason"),
    [
        (event("c", after={"tenant": None, "id": 1}), None),
        (event("c", after={"id": 1}), "no_key"),
        (event("c", after={"tenant": "t", "id": None}), "no_key"),
        (event("d", before={"tenant": None, "id": 1}), None),
        (event("d", before={"id": 1}), "no_key"),
    ],
)
def test_a_key_part_may_be_null_where_the_table_says_so_but_never_missing(
    given: dict[str, Any], reason: str | None
) -> None:
    [found] = decoded(two_keys(), plain(given))

    assert found["_reason"] == reason
    if reason is None:
        assert (found["tenant"], found["id"]) == (None, 1)


def test_a_null_in_the_record_s_own_key_counts() -> None:
    deleted = record(event("d"), key={"tenant": None, "id": 1})

    [found] = decoded(two_keys(), whole(deleted))

    assert (found["_operation"], found["tenant"], found["id"]) == ("delete", None, 1)


@pytest.mark.parametrize("tenant", ["string", {"type": "string"}])
def test_a_key_part_is_not_null_unless_the_table_says_so(tenant: object) -> None:
    [found] = decoded(
        two_keys(NULLABLE | {"tenant": tenant}), plain(event("c", after={"tenant": None, "id": 1}))
    )

    assert found["_reason"] == "no_key"


def test_a_key_can_be_taken_from_the_source_block() -> None:
    of = table(keys=("id", "shard"), columns=SHARD)
    row = {"id": 1, "item": "pen"}
    lines = [
        event("c", after=row, source=source("one")),
        event("c", after=row, source=source("two")),
        event("d", before=row, source=source("one", 20)),
        event("c", after=row, source=source("one", 30) | {"db": None}),
    ]

    found = decoded(of, plain(*lines))

    assert [(row["_operation"], row["id"], row["shard"]) for row in found[:3]] == [
        ("upsert", 1, "one"),
        ("upsert", 1, "two"),
        ("delete", 1, "one"),
    ]
    assert found[3]["_reason"] == "no_key"


def test_the_old_key_of_a_key_change_has_the_part_from_the_source_block() -> None:
    of = table(keys=("id", "shard"), columns=SHARD)
    moved = record(
        event("c", after={"id": 2}, source=source("one")),
        key={"id": 2},
        headers={"__debezium.oldkey": {"id": 1}},
    )

    assert decoded(of, whole(moved))[0]["_old_key"] == '{"id":1,"shard":"one"}'


def test_a_router_s_part_of_the_key_can_be_a_column() -> None:
    columns = {"id": "int", "shard": {"from": "__dbz__physicalTableIdentifier"}}
    of = table(keys=("id", "shard"), columns=columns)
    sent = record(event("d"), key={"id": 1, "__dbz__physicalTableIdentifier": "db1.t"})

    [found] = decoded(of, whole(sent))

    assert (found["id"], found["shard"]) == (1, "db1.t")
    assert discovered(of, whole(sent))[0].key_parts == ()


def test_other_parts_of_the_source_block_are_converted_to_their_type() -> None:
    columns = {
        "id": "int",
        "at": {"from": "source.ts_ms", "type": "timestamp_ntz"},
        "ms": {"from": "source.ts_ms", "type": "bigint"},
        "small": {"from": "source.ts_ms", "type": "tinyint"},
    }

    [found] = decoded(
        table(columns=columns), plain(event("c", after={"id": 1}, source=source("x")))
    )

    assert (found["at"].isoformat(), found["ms"]) == ("1970-01-01T00:00:01.500000", 1500)
    assert found["_message"] == "column small: found '1500', expected tinyint"


def test_a_field_of_the_row_is_not_the_column_from_the_source_block() -> None:
    of = table(keys=("id", "shard"), columns=SHARD)

    [found] = decoded(of, plain(event("c", after={"id": 1, "shard": "x"}, source=source("one"))))

    assert (found["shard"], found["_reason"], found["_mismatched"]) == ("one", None, False)


def test_old_rows_of_a_table_without_keys_have_the_column_too() -> None:
    of = table(keys=(), columns=SHARD)

    [found] = decoded(of, plain(event("d", before={"id": 1}, source=source("one"))))

    assert (found["shard"], found["_old_key"]) == ("one", '{"id":1,"shard":"one"}')


@pytest.mark.parametrize(
    ("key", "parts"),
    [
        ({"id": 1}, ()),
        ({"ID": 1}, ()),
        (None, ()),
        ({"id": 1, "shard": "a"}, ("shard",)),
        ({"id": 1, "__dbz__physicalTableIdentifier": "a"}, ("__dbz__physicalTableIdentifier",)),
        ({"schema": {}, "payload": {"id": 1, "shard": "a"}}, ("shard",)),
    ],
)
def test_parts_of_a_record_s_key_that_the_table_does_not_declare_are_known(
    key: object, parts: tuple[str, ...]
) -> None:
    columns, _ = discovered(table(), whole(record(event("c", after={"id": 1}), key=key)))

    assert columns.key_parts == parts


def test_discoveries_of_two_tasks_know_the_key_parts_of_both() -> None:
    records = [record(event("c", after={"id": 1}), key={"id": 1, part: 1}) for part in "ab"]
    first, second = (DebeziumDiscovery(table(), discovered(table(), [])[0]) for _ in range(2))
    first.look(whole(records[0])[0], "0")
    second.look(whole(records[1])[0], "1")

    first.merge(second)

    assert first.settle()[0].key_parts == ("a", "b")


def test_a_full_snapshot_of_a_shared_table_tells_its_source_table() -> None:
    of = table(keys=("id", "shard"), columns=SHARD)
    lines = [event("r", after={"id": 1}, source=source(db)) for db in ("one", "two")]

    assert [row["_snapshot"] for row in decoded(of, plain(*lines))] == ["s:10@one", "s:10@two"]
    assert decoded(table(), plain(*lines))[0]["_snapshot"] == "s:10@one"
    named = source("shop") | {"schema": "public", "table": "t"}
    assert decoded(table(), plain(event("r", after={"id": 1}, source=named)))[0]["_snapshot"] == (
        "s:10@shop.public.t"
    )


@pytest.mark.parametrize(
    ("on_truncate", "keys", "reason"),
    [
        ("apply", ("id", "shard"), "illegal_change"),
        ("ignore", ("id", "shard"), None),
        ("apply", ("id",), None),
    ],
)
def test_a_truncate_of_one_of_several_source_tables_is_not_applied_to_all(
    on_truncate: str, keys: tuple[str, ...], reason: str | None
) -> None:
    of = table(keys=keys, columns=SHARD, on_truncate=on_truncate)

    [found] = decoded(of, plain(event("t", source=source("one"))))

    assert found["_reason"] == reason
    assert (found["_operation"] == "truncate") == (reason is None)


@pytest.mark.parametrize("on_truncate", ["apply", "ignore"])
def test_a_truncate_where_no_key_tells_source_tables_apart_is_refused(on_truncate: str) -> None:
    of = table(on_truncate=on_truncate)
    rows = [event("c", after={"id": n}, source=source(db)) for n, db in enumerate(("one", "two"))]

    found = decoded(of, plain(*rows, event("t", source=source("one"))))[-1]

    assert found["_reason"] == ("illegal_change" if on_truncate == "apply" else None)


ONE_DB = event("c", after={"id": 1}, source=source("one"))
TWO_DBS = [ONE_DB, event("d", before={"id": 1}, source=source("two"))]


@pytest.mark.parametrize(
    ("of", "lines", "parts"),
    [
        (table(), TWO_DBS, ("source.db",)),
        (table(), [ONE_DB, ONE_DB], ()),
        (table(), [ONE_DB, event("c", after={"id": 1}, source={"connector": "x"})], ()),
        (table(), [ONE_DB, event(None, ddl="CREATE", source=source("two"))], ()),
        (table(keys=("id", "shard"), columns=SHARD), TWO_DBS, ()),
        (table(keys=("id", "shard")), TWO_DBS, ()),
    ],
)
def test_what_tells_source_tables_apart_is_known_unless_a_key_tells_it(
    of: Table, lines: list[dict[str, Any]], parts: tuple[str, ...]
) -> None:
    assert discovered(of, plain(*lines))[0].key_parts == parts
    first, second = (DebeziumDiscovery(of, discovered(of, [])[0]) for _ in range(2))
    first.look(plain(lines[0])[0], "0")
    second.look(plain(lines[1])[0], "1")
    first.merge(second)
    assert first.settle()[0].key_parts == parts


def test_a_batch_with_another_source_table_is_looked_at_once() -> None:
    of, known = table(), discovered(table(), plain(ONE_DB))[0]
    seen = replace(known, settled=False)
    both = replace(seen, key_parts=("source.db",))

    def mismatched(columns: Columns, line: object) -> bool:
        return bool(decoded_with(of, columns, plain(line))[0]["_mismatched"])

    assert known.source_table == ("one", None, None)
    assert [mismatched(seen, line) for line in TWO_DBS] == [False, True]
    assert [mismatched(both, line) for line in TWO_DBS] == [False, False]


@pytest.mark.parametrize(
    "after", [{"tenant": "t", "id": "x"}, {"tenant": "t", "id": None}, {"tenant": "t"}]
)
def test_a_key_with_a_fault_is_not_taken_for_one_with_a_null(after: dict[str, Any]) -> None:
    [found] = decoded(two_keys(), plain(event("c", after=after)))

    assert found["_reason"] in ("no_key", "bad_value")
    assert (found["tenant"], found["id"]) == (None, None)


@pytest.mark.parametrize(
    "key", [{"payload": {"id": 7}}, {"schema": {"type": "struct"}, "payload": {"id": 7}}]
)
def test_a_key_comes_out_of_its_wrapper(key: object) -> None:
    given = whole(record(event("d"), key))

    [found] = decoded(table(), given)

    assert (found["id"], found["_operation"]) == (7, "delete")
    assert discovered(table(), given)[0].key_parts == ()


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("Struct{tenant=a,id=7}", ("a", 7)),
        ("Struct{id=7,tenant=a, b}", ("a, b", 7)),
        ("Struct{id=7,tenant=a,b=c}", "no_key"),
        ("Struct{tenant=,id=7}", ("", 7)),
        ("Struct{id=7}", "no_key"),
        ("Struct{tenant=a,id=7,id=8}", "no_key"),
        ("Struct{tenant=a,id=x}", "bad_value"),
    ],
)
def test_a_key_can_be_the_text_of_a_struct(text: str, expected: object) -> None:
    [given] = whole(record(event("d")))
    given.key = text.encode()

    [found] = decoded(table(("tenant", "id"), columns={"tenant": "string", "id": "int"}), [given])

    assert (found["_reason"] or (found["tenant"], found["id"])) == expected


def test_a_tombstone_with_the_text_of_a_struct_deletes_its_key() -> None:
    of = table(columns={"id": "string"}, source={"envelope": "flattened"})
    [given] = whole(record(None))
    given.key = b"Struct{id=a-1}"

    [found] = decoded(of, [given])

    assert (found["id"], found["_operation"]) == ("a-1", "delete")


def test_a_key_called_payload_is_no_wrapper() -> None:
    of = table(("payload",), columns={"payload": "decimal(10,0)"})
    number = {"payload": {"scale": 0, "value": "Bw=="}}

    found = decoded(of, whole(record(event("d"), {"payload": 7}), record(event("d"), number)))

    assert [row["payload"] for row in found] == [7, 7]


MYSQL = {"connector": "mysql", "name": "s", "file": "b.000001", "pos": 5, "ts_ms": 1}
UPDATED = (
    '{"op": "u", "before": %s, "after": {"id": 2},'
    ' "source": {"connector": "mysql", "file": "b.000001", "pos": 5}}'
)


def updated(before: object, after: object, source: dict[str, Any]) -> dict[str, Any]:
    [found] = decoded(table(), plain(event("u", before=before, after=after, source=source)))
    return found


def test_an_update_of_a_key_is_refused_as_the_old_row_would_stay() -> None:
    found = updated({"id": 1, "name": "a"}, {"id": 2, "name": "b"}, MYSQL)

    assert (found["_reason"], found["id"], found["name"]) == ("illegal_change", 1, "b")
    assert found["_message"].startswith(
        "found an update of id in the key, expected a delete and an insert"
    )


@pytest.mark.parametrize(
    "before", [None, {}, {"name": "a"}, {"id": None}, {"id": 2, "name": "a"}, {"id": "x"}]
)
def test_an_old_row_without_another_key_tells_no_update_of_the_key(before: object) -> None:
    assert updated(before, {"id": 2, "name": "b"}, MYSQL)["_reason"] is None


@pytest.mark.parametrize("old", ['"2"', "2.0", "2e0"])
def test_one_key_written_in_two_ways_is_no_update_of_the_key(old: str) -> None:
    [found] = decoded(table(), plain(UPDATED % f'{{"id": {old}}}'))

    assert (found["id"], found["_reason"]) == (2, None)


def test_a_key_that_only_the_record_s_key_has_is_not_compared() -> None:
    given = event("u", before={"id": 1}, after={"id": None, "name": "b"}, source=MYSQL)

    [found] = decoded(table(), whole(record(given, {"id": 2})))

    assert (found["id"], found["_reason"]) == (2, None)


@pytest.mark.parametrize(
    ("before", "after", "old"),
    [
        ({"tenant": None, "id": 1}, {"tenant": "t", "id": 1}, (None, 1)),
        ({"tenant": "t", "id": 1}, {"tenant": None, "id": 1}, ("t", 1)),
        ({"tenant": None, "id": 1}, {"tenant": None, "id": 2}, (None, 1)),
        ({"tenant": None, "id": 1}, {"tenant": None, "id": 1}, None),
        ({"id": 1}, {"tenant": "t", "id": 1}, None),
        ({"tenant": "t", "id": None}, {"tenant": "u", "id": 1}, None),
    ],
)
def test_a_null_is_an_old_value_of_a_key_that_may_be_null(
    before: object, after: object, old: tuple[object, object] | None
) -> None:
    [found] = decoded(two_keys(), plain(event("u", before=before, after=after, source=MYSQL)))

    assert found["_reason"] == (None if old is None else "illegal_change")
    assert old in (None, (found["tenant"], found["id"]))


INVENTED = [0, 1, "AA==", "1970-01-01T00:00:00Z", "of the default"]


@pytest.mark.parametrize("told", [{"connector": "postgresql", "lsn": 5}, {"lsn": 5}, None])
@pytest.mark.parametrize("old", INVENTED)
def test_what_postgresql_s_connector_may_invent_is_no_key(
    old: object, told: dict[str, Any] | None
) -> None:
    of = table(columns={"id": "string", "name": "string"})
    known = replace(discovered(of, [])[0], settled=True)
    given = plain(event("u", before={"id": old}, after={"id": "b"}, source=told))
    full = replace(known, whole_old_rows=True)

    assert decoded_with(of, known, given)[0]["_reason"] in (None, "bad_sequence")
    [found] = decoded_with(of, full, given)
    assert (found["_reason"], found["id"]) == ("illegal_change", str(old))


def test_a_zero_in_an_old_row_that_is_whole_is_a_key() -> None:
    of = table(("id", "line"), columns={"id": "int", "line": "int"})
    moved = event("u", before={"id": 1, "line": 0}, after={"id": 1, "line": 2})

    [found] = decoded(of, whole(record(moved, OWN)))

    assert (found["_reason"], found["id"], found["line"]) == ("illegal_change", 1, 0)


OLD_MAIL = {"mail": "old@x", "id": 1, "name": "a"}


@pytest.mark.parametrize(
    ("before", "reason"),
    [
        (OLD_MAIL, "illegal_change"),
        (OLD_MAIL | {"id": 0, "name": ""}, None),
        (OLD_MAIL | {"id": None, "name": None}, None),
        (OLD_MAIL | {"mail": ""}, None),
        (OLD_MAIL | {"mail": "new@x"}, None),
    ],
)
def test_an_update_of_a_key_is_known_in_records_without_a_key_of_their_own(
    before: dict[str, Any], reason: str | None
) -> None:
    of = table(("mail",), columns={"mail": "string", "id": "int", "name": "string"})
    after = OLD_MAIL | {"mail": "new@x"}
    given = plain(event("u", before=before, after=after, source=source("x")))

    [found] = decoded(of, given)

    assert found["_reason"] == reason
    assert found["mail"] == (before["mail"] if reason else "new@x")
    seen = replace(discovered(of, [])[0], settled=False, order="source")
    assert bool(decoded_with(of, seen, given)[0]["_mismatched"]) == bool(reason)


WIDE_KEY = {"tenant": "string", "id": "int", "name": "string"}
OWN = {"id": 1}
MADE_UP = event("d", before={"tenant": "", "id": 1, "name": None}, source=source("x"))
TRUE = event("d", before={"tenant": "eu", "id": 1, "name": "a"}, source=source("x"))
WHOLE = event(
    "u",
    before={"tenant": "eu", "id": 1, "name": "a"},
    after={"tenant": "eu", "id": 1, "name": "b"},
    source=source("x"),
)
MOVED = event(
    "u",
    before={"tenant": "eu", "id": 1, "name": "a"},
    after={"tenant": "us", "id": 1, "name": "a"},
    source=source("x"),
)
ROUTED = {"id": "int", "tenant": {"from": "source.db"}}


def with_default(value: dict[str, Any], default: str) -> dict[str, Any]:
    tenant = {"field": "tenant", "type": "string", "optional": False, "default": default}
    row = [tenant, {"field": "id", "type": "int32"}, {"field": "name", "type": "string"}]
    fields = [{"field": f, "type": "struct", "fields": row} for f in ("before", "after")]
    return {"schema": {"type": "struct", "fields": fields}, "payload": value}


@pytest.mark.parametrize(
    ("of", "records", "lacked"),
    [
        (two_keys(WIDE_KEY), [record(MADE_UP, OWN)], ("tenant",)),
        (two_keys(WIDE_KEY), [record(MADE_UP, {"schema": {}, "payload": OWN})], ("tenant",)),
        (two_keys(WIDE_KEY), [record(with_default(TRUE, "eu"), OWN)], ("tenant",)),
        (two_keys(WIDE_KEY), [record(with_default(TRUE, "no"), OWN)], ()),
        (two_keys(WIDE_KEY), [record(TRUE, OWN)], ()),
        (two_keys(WIDE_KEY), [record(WHOLE, OWN), record(MADE_UP, OWN)], ()),
        (two_keys(WIDE_KEY), [record(MADE_UP, OWN), record(WHOLE, OWN)], ()),
        (two_keys(WIDE_KEY), [record(MOVED, OWN)], ("tenant",)),
        (
            two_keys(WIDE_KEY),
            [record({"tenant": "", "id": 1, "__deleted": "true"}, OWN)],
            ("tenant",),
        ),
        (two_keys(WIDE_KEY), [record(MADE_UP, {"Tenant": "", "ID": 1})], ()),
        (two_keys(WIDE_KEY), [record(MADE_UP)], ()),
        (two_keys(WIDE_KEY), [record(MADE_UP, "1")], ()),
        (two_keys(WIDE_KEY), [record(WHOLE | {"op": "r", "before": None}, OWN)], ()),
        (two_keys(NULLABLE), [record(MADE_UP | {"before": {"tenant": None}}, OWN)], ("tenant",)),
        (two_keys(WIDE_KEY), [record(MADE_UP | {"before": {"tenant": None}}, OWN)], ()),
        (two_keys(ROUTED), [record(MADE_UP, OWN)], ()),
        (table(keys=(), columns=WIDE_KEY), [record(MADE_UP, OWN)], ()),
        (
            two_keys(WIDE_KEY),
            [record(MADE_UP | {"source": {"connector": "mysql", "db": "x"}}, OWN)],
            (),
        ),
    ],
)
def test_keys_that_only_an_old_row_has_are_known_where_its_values_may_be_made_up(
    of: Table, records: list[dict[str, Any]], lacked: tuple[str, ...]
) -> None:
    assert discovered(of, whole(*records))[0].lacked_keys == lacked
    parts = [DebeziumDiscovery(of, discovered(of, [])[0]) for _ in records]
    for part, one in zip(parts, records, strict=True):
        part.look(whole(one)[0], "0")
    for part in parts[1:]:
        parts[0].merge(part)
    assert parts[0].settle()[0].lacked_keys == lacked


@pytest.mark.parametrize(
    "value",
    [0, 0.0, "0.00", False, "", [], "AA==", "1970-01-01T00:00:00Z", {"scale": 0, "value": "AA=="}],
)
def test_every_kind_of_made_up_value_is_known(value: object) -> None:
    deleted = MADE_UP | {"before": {"tenant": value, "id": 1}}
    assert discovered(two_keys(WIDE_KEY), whole(record(deleted, OWN)))[0].lacked_keys


def test_a_later_batch_with_untrue_old_keys_is_looked_at_once() -> None:
    of = two_keys(WIDE_KEY)
    inserted = record(event("c", after={"tenant": "eu", "id": 1, "name": "a"}), OWN)
    seen = replace(discovered(of, whole(inserted))[0], settled=False, order="source")

    def mismatched(columns: Columns, value: object) -> bool:
        return bool(decoded_with(of, columns, whole(record(value, OWN)))[0]["_mismatched"])

    told = replace(seen, lacked_keys=("tenant",))
    full = replace(seen, whole_old_rows=True)
    assert [mismatched(seen, value) for value in (MADE_UP, TRUE, WHOLE, MOVED)] == [
        *(True, False, True, True)
    ]
    assert not mismatched(told, MADE_UP)
    assert [mismatched(full, value) for value in (MADE_UP, WHOLE, MOVED)] == [False, False, True]


SHOWN = [MADE_UP, WHOLE, MOVED, TRUE]


@pytest.mark.parametrize("cuts", [(), (1,), (2,), (1, 2), (1, 2, 3)])
@pytest.mark.parametrize("order", [*permutations(range(len(SHOWN)), 3)])
def test_lacked_keys_are_the_same_in_any_order_and_any_batches(
    order: tuple[int, ...], cuts: tuple[int, ...]
) -> None:
    of, values = two_keys(WIDE_KEY), [SHOWN[at] for at in order]
    remembered: dict[str, str] = {}
    for begin, end in pairwise([0, *cuts, len(values)]):
        batch = DebeziumDiscovery(of, with_shown(known_columns(of, {}), remembered))
        for value in values[begin:end]:
            batch.look(whole(record(value, OWN))[0], "0")
        remembered |= shown_by(batch.settle()[0])

    found = with_shown(known_columns(of, {}), remembered)

    assert found.lacked_keys == (("tenant",) if MOVED in values else ())


@pytest.mark.parametrize(
    "value", [b"\0", b"\0\0", 0.0, {"scale": 0, "value": b"\0"}, b"", 0, False, []]
)
def test_made_up_values_of_avro_are_known(value: object) -> None:
    of = two_keys(WIDE_KEY)
    traits = Traits(of, known_columns(of, {}), lambda record: None)
    envelope = Envelope(before={"tenant": value, "id": 1}, op="d")

    assert traits.look_at_old_keys(envelope, whole(record({}, OWN))[0], None)
    assert traits.lacked_keys == ("tenant",)


class Watched(dict[str, Any]):
    """A row that notes how often all its fields are gone through."""

    looks = 0

    def items(self) -> ItemsView[str, Any]:
        self.looks += 1
        return super().items()

    def __iter__(self) -> Iterator[str]:
        self.looks += 1
        return super().__iter__()


@pytest.mark.parametrize("spelled", ["tenant", "TENANT"])
def test_a_look_at_old_keys_goes_through_the_fields_of_the_first_row_only(spelled: str) -> None:
    of = two_keys(WIDE_KEY)
    traits = Traits(of, known_columns(of, {}), lambda record: None)
    [given] = whole(record({}, OWN))
    rows = [Watched({spelled: "eu", "id": 1, "name": name}) for name in "abcd"]

    shown = [
        traits.look_at_old_keys(Envelope(before=old, after=new, op="u"), given, None)
        for old, new in pairwise(rows)
    ]

    assert shown == [True, False, False]
    assert [row.looks for row in rows] == [int(spelled != "tenant"), 0, 0, 0]
