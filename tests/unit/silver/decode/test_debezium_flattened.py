"""Flattened events: what ExtractNewRecordState leaves of an envelope, in its delete modes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import known_columns
from silver.decode.debezium.events.opening import FULL, REWRITTEN, waits_for_form
from silver.decode.wrapped import value_inside
from tests.helpers.debezium_records import discovered, event, table

Given = dict[str, Any]


def flat(columns: Given | None = None, **source: object) -> Table:
    return table(columns=columns or {"id": "bigint", "name": "string"}, source=source)


def sent(offset: int | None, key: object, value: object, headers: object = None) -> Record:
    """A record of a Kafka topic."""
    return Record(
        raw=None if value is None else json.dumps(value).encode(),
        key=None if key is None else json.dumps(key).encode(),
        headers=None if headers is None else json.dumps(headers).encode(),
        topic="shop.t",
        partition=0,
        offset=offset,
        timestamp=9_000_000,
        arrived_at=10_000_000,
        arrival=f"{offset or 0:08X}",
    )


def test_members_of_the_envelope_are_no_columns() -> None:
    row = {"id": 1, "name": "a", "__op": "c", "__deleted": "false", "__lsn": 7, "__table": "t"}

    columns, shapes = discovered(flat(), [sent(1, None, row)])

    assert columns.names == ["id", "name"]
    assert [set(shape.fields) for shape in shapes] == [{"id", "name"}]
    assert columns.envelope == REWRITTEN


GONE, WHOLE_GONE = sent(1, {"id": 1}, None), '{"topic":"t","key":{"id":1},"value":null}'
ROW = sent(2, {"id": 2}, {"id": 2, "name": "a"})


@pytest.mark.parametrize(
    ("records", "waits"),
    [
        ([GONE], True),
        ([GONE, sent(2, None, None)], True),
        ([replace(GONE, raw=value_inside(WHOLE_GONE.encode()))], True),
        ([GONE, ROW], False),
        ([GONE, replace(ROW, raw=b"no JSON")], True),
        ([replace(ROW, raw=b"no JSON"), sent(2, None, {"ts_ms": 5}), GONE], True),
        ([GONE, sent(2, None, {"ts_ms": 5}), ROW], False),
        ([GONE, sent(2, None, event("c", after={"id": 2}))], False),
        ([replace(ROW, raw=b"no JSON")], False),
        ([sent(2, None, None)], False),
        ([], False),
    ],
)
def test_tombstones_alone_wait_for_the_form_of_their_feed(
    records: list[Record], waits: bool
) -> None:
    unknown = known_columns(flat(), {})
    assert waits_for_form(flat(), unknown, records) is waits
    assert not waits_for_form(flat(envelope="flattened"), unknown, records)
    assert not waits_for_form(flat(), replace(unknown, envelope=FULL), records)
    assert not waits_for_form(table(keys=()), unknown, records)
