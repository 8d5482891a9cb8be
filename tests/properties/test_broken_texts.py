"""A text that is no JSON is a dead letter in every format, whatever became of it.

Records lose, gain and change characters, are torn, and run into each other, as in files that were
cut off or written by two at a time. What counts as JSON is Python's parser's answer.
"""

import json
from random import Random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pyspark.sql import SparkSession

from bronze.records import with_origin
from tests.builders import bronze_rows, table
from tests.decoding import to_changes
from tests.properties.budget import budget

ORIGIN = ("_whole", "_topic", "_partition", "_offset", "_timestamp", "_key", "_headers")
COLUMNS = {"id": "bigint", "name": "string"}
ODD = '{}[]",:\\0nx \t'
TEXTS = ["a", 'b}"{', "x\\y", "[1]", '{"k": 1}', "},{"]
BLOCK = {"type": "struct", "fields": [{"field": "after", "fields": [{"field": "id"}]}, {}]}


@pytest.mark.parametrize("format", ["debezium", "ydb", "bigquery"])
@budget(1)
@given(seed=st.integers(0, 2**32))
def test_a_text_that_is_no_json_is_a_dead_letter(
    spark: SparkSession, format: str, seed: int
) -> None:
    random = Random(seed)
    records = [record(random, format, at) for at in range(500)]
    texts = [broken(random, text, random.choice(records)) for text in records] + records
    texts = [text for text in texts if text.strip()]
    raw = with_origin(bronze_rows(spark, texts).drop(*ORIGIN))
    found = to_changes(raw, table(format, ["id"], columns=COLUMNS)).select("_arrival", "_reason")
    rows = found.join(raw.select("_arrival", "_raw"), "_arrival").collect()
    said = {row["_raw"]: row["_reason"] for row in rows}

    wrong = [text for text in texts if not is_json(text) and said[text] != "not_json"]
    assert wrong == []
    assert {said[text] for text in records} == {None}


def record(random: Random, format: str, at: int) -> str:
    """A change, alone or in a whole record."""
    given = value(random, format, at)
    if format != "bigquery" and random.random() < 0.6:
        given = {"topic": "t", "partition": 0, "offset": at, "key": None, "value": given}
    return json.dumps(given, separators=random.choice([(",", ":"), (", ", ": ")]))


def value(random: Random, format: str, at: int) -> dict[str, Any]:
    row = {"id": at, "name": random.choice(TEXTS)}
    if format == "bigquery":
        return row | {"_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": f"{at:X}"}
    if format == "ydb":
        change = random.choice([{"update": {"name": row["name"]}}, {"erase": {}}])
        return {"key": [at], **change, "ts": [at, 1]}
    source = {"connector": "postgresql", "lsn": at}
    change = {"before": None, "after": row, "source": source, "op": "c", "ts_ms": at}
    return random.choice([change, {"schema": BLOCK, "payload": change}])


def broken(random: Random, text: str, other: str) -> str:
    """The text with one thing done to it; not all of them keep it from being JSON."""
    at, odd = random.randrange(len(text)), random.choice(ODD)
    rest = other[random.randrange(len(other)) :]
    return random.choice(
        [
            text[:at] + text[at + 1 :],
            text[:at] + odd + text[at:],
            text[:at] + odd + text[at + 1 :],
            text[:at] + rest,
            text[:at] + other,
            text[at:] + text[:at],
            text + rest,
            text + "," + other,
        ]
    )


def is_json(text: str) -> bool:
    try:
        return isinstance(json.loads(text, strict=False), dict)
    except ValueError:
        return False
