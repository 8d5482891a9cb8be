"""Streams of every kind of source through a whole lake: rows and versions are the source's.

LAKEHOUSE_STREAMS names another number of streams than 300. Some tables share a lake, as the fixed
part of a run is paid once for all of them.
"""

import json
import os
from collections.abc import Iterator
from itertools import islice, zip_longest
from random import Random
from typing import Any, NamedTuple

import pytest

from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from tests.helpers import lakes
from tests.helpers.flat_sources import FLAT, STREAMS, Extracts, source_of
from tests.helpers.source_lake import table_of
from tests.helpers.sources import TOPIC, Sent, Truth
from tests.properties.test_streams import deliveries

pytestmark = pytest.mark.slow

COUNT, OF_A_LAKE = int(os.environ.get("LAKEHOUSE_STREAMS", "300")), 20
KINDS = (*STREAMS, "snapshot")


class File(NamedTuple):
    """A file to drop: its folder below the landing root, and its lines."""

    folder: str
    lines: list[str]


class Stream(NamedTuple):
    """A table, the files of each round, and what comes out in the end."""

    table: Table
    rounds: list[list[File]]
    truth: Truth


def stream(number: int) -> Stream:
    """One of the streams; its table keeps a history more often than not."""
    kind, random = KINDS[number % len(KINDS)], Random(f"spark {number}")
    keeps = kind != "flattened_tombstone" and random.random() < 0.7
    options, name = {"stored_as_scd_type": 2 if keeps else 1}, f"t{number}"
    if kind == "snapshot":
        extracts = Extracts(random)
        extracts.run(random.randint(2, 5))
        random.shuffle(extracts.files)
        files = iter([File(f"{name}/{day}", lines) for day, lines in extracts.files])
        rounds = iter(lambda: [*islice(files, random.randint(1, 4))], [])
        return Stream(table_of(kind, name, **options), [*rounds], extracts.truth)
    source = source_of(random, kind)
    source.run(random.randint(1, 14))
    text = _flat_text if kind in FLAT else _whole_text
    batches = [[File(name, [*map(text, batch)])] for batch in deliveries(random, source.topic)]
    return Stream(table_of(source.format, name, **options), batches, source.truth)


def _flat_text(sent: Sent) -> str:
    return json.dumps(sent.value)


def _whole_text(sent: Sent) -> str:
    origin = {"topic": TOPIC, "partition": 0, "offset": sent.offset, "timestamp": 0}
    return json.dumps(origin | {"key": sent.key, "value": sent.value})


@pytest.mark.parametrize("first", range(0, COUNT, OF_A_LAKE))
def test_streams_through_a_lake_give_their_sources(lake: Lake, first: int) -> None:
    streams = [stream(number) for number in range(first, min(COUNT, first + OF_A_LAKE))]
    rounds = enumerate(zip_longest(*[one.rounds for one in streams], fillvalue=[]))
    for number, parts in rounds:
        for nth, file in enumerate(file for files in parts for file in files):
            lakes.land(lake.target, file.folder, f"{number}-{nth:04}.jsonl", file.lines)
        lakes.run(lake, [one.table for one in streams])
    wrong = [found for one in streams for found in _differences(lake, one)]
    assert wrong == []


def _differences(lake: Lake, one: Stream) -> Iterator[str]:
    name, expected = one.table.table, one.truth
    rows = {row["id"]: {"a": row["a"], "b": row["b"]} for row in _rows(lake, name)}
    if rows != expected.rows:
        yield f"{name}: found {rows}, expected {expected.rows}"
    if one.table.stored_as_scd_type == 2:
        versions = sorted(map(_version, _rows(lake, f"{name}_history")), key=repr)
        if versions != expected.versions:
            yield f"{name}: found {versions}, expected {expected.versions}"


def _rows(lake: Lake, name: str) -> list[dict[str, Any]]:
    return lakes.rows(lake, name)


def _version(row: dict[str, Any]) -> tuple[Any, ...]:
    times = [row[name] and int(row[name].timestamp()) for name in ("valid_from", "valid_to")]
    return (row["id"], *times, row["a"], row["b"])
