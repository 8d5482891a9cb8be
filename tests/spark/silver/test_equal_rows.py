"""Equal rows that one COPY wrote to a table without a key, cut into batches and sent again."""

from typing import Any

import pytest

from lakehouse.storage.lake import Lake
from silver.audit.verify import verify
from tests.helpers import lakes
from tests.helpers.builders import Line, table
from tests.helpers.sums import sums

URLS = ["/a", "/a", "/b", "/a"]
SOURCE = {"connector": "postgresql", "name": "s", "lsn": 7000, "txId": 7, "ts_ms": 1_000}
AT, RESTART = 1_000_000, 5_000


def copied(first: int = 0, handled: int = AT, **change: Any) -> list[Line]:
    """Whole records of the COPY, from an offset on."""
    return [
        {
            "topic": "s.p.t",
            "partition": 0,
            "offset": first + at,
            "key": None,
            "value": {"after": {"url": url}, "op": "c", "source": SOURCE, "ts_ms": handled + at}
            | change,
        }
        for at, url in enumerate(URLS)
    ]


AGAIN = [copied(4, AT + RESTART), copied(8), copied()]
"""Delivered again: after a restart, as a file of new offsets, and as the same file."""


@pytest.mark.slow
@pytest.mark.parametrize("cuts", [[], [2], [1, 3]])
@pytest.mark.parametrize("wait", [False, True])
def test_the_rows_of_a_copy_are_as_many_as_they_were(
    lake: Lake, cuts: list[int], wait: bool
) -> None:
    promise = {"max_staleness": 0} if wait else {}
    config = table("debezium", [], columns={"url": "string"}, **promise)
    parts = [copied()[a:b] for a, b in zip([0, *cuts], [*cuts, len(URLS)], strict=True)]
    for number, lines in enumerate([*parts, *AGAIN], start=1):
        lakes.arrive(lake, config, lines, number, whole=True)
        lakes.settle(lake, [config])

    assert sorted(row["url"] for row in lakes.rows(lake, "t")) == sorted(URLS)
    notes, classes = sums(lake)
    assert (notes["records"], classes) == (16, {"inserted": 4, "duplicate": 12})
    assert {law.law: law.first for law in verify(lake, config, {}) if not law.holds} == {}


@pytest.mark.slow
def test_deletes_at_one_place_take_as_many_rows_away(lake: Lake) -> None:
    config = table("debezium", [], columns={"url": "string"})
    gone = copied(4, op="d", after=None, before={"url": "/a"}, source=SOURCE | {"lsn": 8000})[:2]
    lakes.arrive(lake, config, [*copied(), *gone], whole=True)
    lakes.settle(lake, [config])
    assert sorted(row["url"] for row in lakes.rows(lake, "t")) == ["/a", "/b"]
