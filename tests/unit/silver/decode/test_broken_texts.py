"""A text that is no JSON is a dead letter in every format, whatever became of it.

Records lose, gain and change characters, are torn, and run into each other, as in files that were
cut off or written by two at a time. What counts as JSON is Python's parser's answer.
"""

import json
from random import Random
from typing import Any

import pytest

from silver.decode.change import Record
from silver.decode.columns import known_columns
from silver.decode.expressions.names import FAULT
from silver.decode.protocols.rows import with_fault_column
from tests.helpers.builders import table
from tests.helpers.flat_records import decode_records, record

COLUMNS = {"id": "bigint", "name": "string"}
ODD = '{}[]",:\\0nx \t'
TEXTS = ["a", 'b}"{', "x\\y", "[1]", '{"k": 1}', "},{"]
BLOCK = {"type": "struct", "fields": [{"field": "after", "fields": [{"field": "id"}]}, {}]}
FORMATS = ["debezium", "ydb", "bigquery", "rows"]
WHOLE = ("debezium", "ydb")


def changes(format: str, records: list[Record]) -> list[Any]:
    config = table(format, ["id"], columns=COLUMNS)
    columns = known_columns(config, {})
    read = with_fault_column(columns) if format == "rows" else columns
    assert (FAULT in read.names) is (format == "rows")
    return decode_records(config, read, records)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("format", FORMATS)
def test_a_text_that_is_no_json_is_a_dead_letter(format: str, seed: int) -> None:
    random = Random(seed)
    texts = [text(random, format, at) for at in range(400)]
    torn = [broken(random, one, random.choice(texts)) for one, _ in texts for _ in range(2)]
    wrong = [one for one in torn if one.strip() and not is_json(one)]
    assert len(wrong) > 300
    for whole in (False, True) if format in WHOLE else (False,):
        found = changes(format, [record(one, whole=whole) for one in wrong])
        assert {change.reason for change in found} == {"not_json"}
    sent = [one_record(one, number, whole) for number, (one, whole) in enumerate(texts)]
    for change in changes(format, sent):
        assert (change.reason, change.operation is None) == (None, False)


@pytest.mark.parametrize("format", FORMATS)
def test_no_text_raises(format: str) -> None:
    random = Random(format)
    texts = [text(random, format, at) for at in range(1_000)]
    torn = [broken(random, one, random.choice(texts)) for one, _ in texts]
    for whole in (False, True):
        for change in changes(format, [one_record(one, 0, whole) for one in torn]):
            assert change.operation is not None or change.reason is not None


def one_record(line: str, number: int, whole: bool) -> Record:
    given: dict[str, Any] = {"topic": "t", "partition": 0, "offset": number} if whole else {}
    return record(line, number, whole, **given)


def text(random: Random, format: str, at: int) -> tuple[str, bool]:
    """A change, alone or in a whole record, and whether it is one."""
    given, whole = value(random, format, at), False
    if format in WHOLE and random.random() < 0.6:
        given = {"topic": "t", "partition": 0, "offset": at, "key": None, "value": given}
        whole = True
    return json.dumps(given, separators=random.choice([(",", ":"), (", ", ": ")])), whole


def value(random: Random, format: str, at: int) -> dict[str, Any]:
    row = {"id": at, "name": random.choice(TEXTS)}
    if format == "rows":
        return row
    if format == "bigquery":
        return row | {"_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": f"{at:X}"}
    if format == "ydb":
        change = random.choice([{"update": {"name": row["name"]}}, {"erase": {}}])
        return {"key": [at], **change, "ts": [at, 1]}
    source = {"connector": "postgresql", "lsn": at}
    change = {"before": None, "after": row, "source": source, "op": "c", "ts_ms": at}
    return random.choice([change, {"schema": BLOCK, "payload": change}])


def broken(random: Random, one: str, of: tuple[str, bool]) -> str:
    """The text with one thing done to it; not all of them keep it from being JSON."""
    other = of[0]
    at, odd = random.randrange(len(one)), random.choice(ODD)
    rest = other[random.randrange(len(other)) :]
    return random.choice(
        [
            one[:at] + one[at + 1 :],
            one[:at] + odd + one[at:],
            one[:at] + odd + one[at + 1 :],
            one[:at] + rest,
            one[:at] + other,
            one[at:] + one[:at],
            one + rest,
            one + "," + other,
        ]
    )


def is_json(one: str) -> bool:
    try:
        return isinstance(json.loads(one, strict=False), dict)
    except ValueError:
        return False
