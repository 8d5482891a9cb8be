"""Keys: parts that may be null, parts out of the envelope, parts that the table lacks."""

from collections.abc import ItemsView, Iterator
from itertools import pairwise, permutations
from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.columns import known_columns, shown_by, with_shown
from silver.decode.debezium.discovery import DebeziumDiscovery
from silver.decode.debezium.events.envelope import Envelope
from silver.decode.debezium.traits import Traits
from tests.helpers.debezium_records import (
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
