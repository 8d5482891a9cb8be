"""Names that no column can have: the same rows are dead letters, however they were cut."""

from typing import Any

import pytest

from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from tests.helpers import lakes
from tests.helpers.builders import Line, table

Row = dict[str, object]


def event(at: int, row: Row, op: str = "c") -> Line:
    side = "before" if op == "d" else "after"
    return {"op": op, side: row, "source": {"connector": "postgresql", "lsn": at, "ts_ms": at}}


def line(at: int, row: Row) -> Line:
    return row | {"at": at}


FORMATS: dict[str, tuple[dict[str, Any], Any]] = {
    "debezium": ({"format": "debezium"}, event),
    "rows": ({"format": "rows", "sequence_by": "at", "columns": {"id": "bigint"}}, line),
}


def taken(
    lake: Lake, config: Table, cut: list[list[Line]]
) -> tuple[list[list[Any]], list[tuple[str, str]]]:
    """What gold shows of some batches, without the order, and the dead letters."""
    for number, batch in enumerate(cut, start=1):
        lakes.arrive(lake, config, batch, number)
        lakes.settle(lake, [config])
    shown = [sorted((n, v) for n, v in r.items() if n != "at") for r in lakes.rows(lake, "t")]
    letters = lake.spark.table(lake.name("silver", "t_dead_letters")).collect()
    found = sorted((letter["reason"], letter["raw"]) for letter in letters)
    return sorted(shown, key=repr), found


@pytest.mark.slow
@pytest.mark.parametrize("cut", ["one", "each"])
@pytest.mark.parametrize("format", FORMATS)
def test_a_column_renamed_by_case_goes_on_under_its_first_name(
    lake: Lake, format: str, cut: str
) -> None:
    options, made = FORMATS[format]
    both = {"id": 3, "name": "x", "Name": "y"}
    given = [{"id": 1, "name": "a"}, {"id": 2, "Name": "b"}, both, {"ID": 1, "NAME": "c"}]
    lines = [made(at, row) for at, row in enumerate(given, start=1)]
    if format == "debezium":
        lines.append(event(9, {"ID": 2, "NAME": None}, "d"))
    batches = [lines] if cut == "one" else [[one] for one in lines]

    rows, letters = taken(lake, table(keys=["id"], **options), batches)

    kept = [] if format == "debezium" else [[("id", 2), ("name", "b")]]
    assert rows == [[("id", 1), ("name", "c")], *kept]
    assert [reason for reason, _ in letters] == ["incompatible_schema"]
