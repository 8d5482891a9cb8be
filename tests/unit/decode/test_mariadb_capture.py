"""Captured events of a real MariaDB, decoded and compared with what it held at the end."""

import pytest

from tests.debezium_records import decoded, whole
from tests.mariadb_capture import HELD, captured, table
from tests.mariadb_truth import Row, gold_rows, in_order


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
    assert HELD[name].rows
    assert replayed(name, blocks) == HELD[name].rows


def test_the_capture_holds_what_a_stream_can_hold() -> None:
    changes = [change for name in HELD for change in captured(name, blocks=False)]
    values = [change["value"] for change in changes if change["value"]]
    sources = [value["source"] for value in values]
    assert {value["op"] for value in values} == {"c", "u", "d", "r", "t"}
    assert {source["snapshot"] for source in sources} >= {"incremental", "last", "false"}
    positions = [(s["file"], s["pos"], s["row"], s["table"]) for s in sources if s["gtid"]]
    assert len(set(positions)) < len(positions)
