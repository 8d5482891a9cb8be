"""A table's changes in every form of Debezium's are decoded to the same changes."""

import json
from dataclasses import replace
from typing import Any

import pytest

from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import known_columns
from silver.decode.debezium.discovery import DebeziumDiscovery
from tests.helpers.flat_records import decode_records
from tests.helpers.forms import CHANGES, COLUMNS, FORMS, SCHEMAS, Sent

KEPT = {str(id): json.dumps(schema) for id, schema in SCHEMAS.items()}


def record(sent: Sent, offset: int) -> Record:
    headers = {name: value.decode() for name, value in sent.headers or []}
    return Record(
        raw=sent.value,
        key=sent.key,
        headers=json.dumps(headers).encode() if headers else None,
        topic="t",
        partition=0,
        offset=offset,
        timestamp=sent.ms * 1000,
        arrived_at=0,
        arrival=f"{offset:08X}",
    )


def applied(form: str) -> list[Any]:
    """Operation, time and values (of a delete its key) of the changes by their place in order."""
    kafka = {"topic": "t", "bootstrap_servers": "k:9092"}
    registry = {"value_format": "avro", "schema_registry": {"url": "http://registry"}}
    source = {"format": "debezium", "kafka": kafka} | (registry if form.endswith("avro") else {})
    given = {"table": "t", "keys": ["id"], "source": source, "columns": COLUMNS}
    of = Table.model_validate(given)
    known = replace(known_columns(of, {}), schemas=KEPT if form.endswith("avro") else {})
    records = [record(sent, offset) for offset, sent in enumerate(FORMS[form](CHANGES))]
    discovery = DebeziumDiscovery(of, known)
    for one in records:
        discovery.look(replace(one), one.arrival)
    columns, _ = discovery.settle()
    changes = decode_records(of, columns, records)
    assert [change.message for change in changes if change.reason] == []
    told = [change for change in changes if change.operation != "none"]
    told.sort(key=lambda change: change.sequence or "")
    return [
        (c.operation, c.source_time, c.values[0] if c.operation == "delete" else [*c.values])
        for c in told
    ]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "full"])
def test_every_form_gives_the_changes_of_full_envelopes(form: str) -> None:
    found, expected = applied(form), applied("full")
    if form == "flattened_none":  # a delete is there twice
        found = list({repr(change): change for change in found}.values())

    assert len(expected) == len(CHANGES)
    assert found == expected
