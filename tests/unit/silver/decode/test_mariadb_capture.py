"""Captured events of a real MariaDB, decoded and compared with what it held at the end."""

import pytest

from tests.helpers.debezium_records import decoded, whole
from tests.helpers.mariadb_capture import HELD, captured, table
from tests.helpers.mariadb_truth import Row, gold_rows, in_order

NEEDS_BLOCKS = {
    "c_dec65": "the scale of a number that no decimal can hold",
    "c_dt": "whether a number counts milliseconds, before 1653",
    "c_dt6": "whether a number counts microseconds, near 1970",
}


def compared(row: Row, blocks: bool) -> Row:
    return {c: text for c, text in row.items() if blocks or c not in NEEDS_BLOCKS}


def replayed(name: str, blocks: bool) -> list[Row]:
    """The table after its changes in order of arrival."""
    held = HELD[name]
    changes = decoded(table(name, blocks), whole(*captured(name, blocks)))
    assert {change["_reason"] for change in changes} == {None}
    rows: dict[tuple[object, ...], dict[str, object]] = {}
    for change in changes:
        key = tuple(change[k] for k in held.keys)
        if change["_operation"] == "upsert":
            rows[key] = change
        elif change["_operation"] == "delete":
            rows.pop(key, None)
        elif change["_operation"] == "truncate":
            rows.clear()
    return in_order(gold_rows(list(rows.values()), held.types))


@pytest.mark.parametrize("blocks", [True, False])
@pytest.mark.parametrize("name", [name for name, held in HELD.items() if held.keys])
def test_a_table_ends_as_mariadb_holds_it(name: str, blocks: bool) -> None:
    want = [compared(row, blocks) for row in HELD[name].rows]
    assert want
    assert [compared(row, blocks) for row in replayed(name, blocks)] == want


def test_the_capture_holds_what_a_stream_can_hold() -> None:
    changes = [change for name in HELD for change in captured(name, blocks=False)]
    values = [change["value"] for change in changes if change["value"]]
    sources = [value["source"] for value in values]
    assert {value["op"] for value in values} == {"c", "u", "d", "r", "t"}
    assert {source["snapshot"] for source in sources} >= {"incremental", "last", "false"}
    positions = [(s["file"], s["pos"], s["row"], s["table"]) for s in sources if s["gtid"]]
    assert len(set(positions)) < len(positions)
