"""Where a record stands: sequences by connector, snapshots, times, transactions."""

from typing import Any

import pytest

from tests.debezium_records import decoded, event, plain, table, whole

TRANSACTION = {"id": "4:9", "total_order": 3}


def placed(source: object, **parts: object) -> dict[str, Any]:
    op = str(parts.pop("op", "u"))
    [found] = decoded(table(), plain(event(op, after={"id": 1}, source=source, **parts)))
    return found


def text(*sections: int) -> str:
    return "/".join(f"{number:016X}" for number in sections)


@pytest.mark.parametrize(
    ("source", "expected"),
    [
        ({"lsn": 255}, text(255, 3)),
        ({"lsn": "255"}, text(255, 3)),
        ({"lsn": 2**63}, text(2**63, 3)),
        ({"lsn": 2**64 - 1}, text(2**64 - 1, 3)),
        ({"lsn": 2**64}, None),
        ({"lsn": -1}, None),
        ({"lsn": "soon"}, None),
        ({"lsn": 1.5}, None),
        ({"lsn": [1]}, None),
        ({"lsn": None, "sequence": '[null,"16"]'}, text(16, 3)),
        ({"lsn": None, "sequence": '["16",null]'}, text(16, 3)),
        ({"lsn": None, "sequence": '["15","16"]'}, text(16, 3)),
        ({"lsn": None, "sequence": ["15", "16"]}, text(16, 3)),
        ({"lsn": 7, "sequence": '["15","16"]'}, text(7, 3)),
        ({"lsn": None, "sequence": "[null,null]"}, None),
        ({"lsn": None, "sequence": "junk"}, None),
        ({"file": "bin.000007", "pos": 5, "row": 2}, text(7, 5, 2)),
        ({"file": "bin.000007", "pos": "5"}, text(7, 5, 0)),
        ({"file": "bin.000007"}, text(7, 0, 0)),
        ({"file": "bin", "pos": 5}, None),
        ({"file": "bin.1", "pos": -5}, None),
        ({"commit_scn": "9", "scn": "8"}, text(9, 8, 3)),
        ({"commit_scn": "9"}, text(9, 9, 3)),
        ({"scn": 8}, text(8, 8, 3)),
        ({"scn": "x"}, None),
        (
            {"commit_lsn": "0000002a:00000d50:0003", "change_lsn": "0000002a:00000d50:0002"},
            "0000002A00000D50/00030000002A0000/0D50000200000000",
        ),
        (
            {"commit_lsn": "0000002a:00000d50:0003", "event_serial_no": 2},
            "0000002A00000D50/0003000000000000/0000000000000002",
        ),
        ({"commit_lsn": "0000002a:00000d50:0003", "event_serial_no": 2**32}, None),
        ({"commit_lsn": "0000002a:00000d50:0003", "event_serial_no": -1}, None),
        ({"commit_lsn": "0000002a:00000d50:0003", "change_lsn": "later"}, None),
        ({"commit_lsn": "0000002a0:00000d50:0003"}, None),
        ({"connector": "mongodb", "ord": 1}, None),
        ({}, None),
        (None, text(0)),
    ],
)
def test_sequence_by_connector(source: dict[str, Any] | None, expected: str | None) -> None:
    found = placed(source, transaction=TRANSACTION)

    assert found["_sequence"] == expected
    assert found["_reason"] == (None if expected else "bad_sequence")


@pytest.mark.parametrize(
    ("transaction", "sequence", "id", "order"),
    [
        (None, text(10, 0), "77", None),
        ({"id": "4:9", "total_order": 3}, text(10, 3), "4", 3),
        ({"id": "4:9", "total_order": "3"}, text(10, 3), "4", 3),
        ({"id": "4:9"}, text(10, 0), "4", None),
        ({"id": "gtid:4:9", "total_order": 3}, text(10, 3), "gtid:4:9", 3),
        ({"id": 5, "total_order": 3}, text(10, 3), "5", 3),
        ({"total_order": 3}, text(10, 3), "77", 3),
        ({"id": "4:9", "total_order": "x"}, None, "4", None),
        ({"id": "4:9", "total_order": -3}, None, "4", -3),
    ],
)
def test_the_transaction_and_the_order_in_it(
    transaction: object, sequence: str | None, id: str, order: int | None
) -> None:
    found = placed({"lsn": 10, "txId": 77}, transaction=transaction)

    assert found["_sequence"] == sequence
    assert (found["_transaction"], found["_transaction_order"]) == (id, order)


@pytest.mark.parametrize(
    ("op", "source", "id", "last"),
    [
        ("r", {"name": "shop", "lsn": 10, "snapshot": "last"}, "shop:10", True),
        ("r", {"name": "shop", "lsn": 10, "snapshot": "last_in_data_collection"}, "shop:10", True),
        ("r", {"name": "shop", "lsn": 10, "snapshot": "first"}, "shop:10", False),
        ("r", {"name": "shop", "lsn": 10}, "shop:10", False),
        ("r", {"lsn": 10}, ":10", False),
        ("r", {"name": "m", "file": "b.1", "pos": 2}, f"m:{text(1, 2, 0)}", False),
        ("r", {"name": "m"}, None, False),
        ("r", None, None, False),
        ("u", {"name": "shop", "lsn": 10, "snapshot": "true"}, None, False),
        ("u", {"name": "shop", "lsn": 10, "snapshot": "last"}, None, False),
        ("r", {"name": "shop", "lsn": 10, "snapshot": "incremental"}, None, False),
    ],
)
def test_only_op_r_tells_a_snapshot_and_an_incremental_one_has_no_id(
    op: str, source: object, id: str | None, last: bool
) -> None:
    found = placed(source, op=op)

    assert (found["_snapshot"], found["_snapshot_last"]) == (id, last)


@pytest.mark.parametrize(
    ("source", "parts", "expected"),
    [
        ({"lsn": 1, "ts_us": 5, "ts_ns": 7000, "ts_ms": 9}, {}, 5),
        ({"lsn": 1, "ts_ns": 7999, "ts_ms": 9}, {}, 7),
        ({"lsn": 1, "ts_ms": 9}, {}, 9000),
        ({"lsn": 1, "ts_ms": "9"}, {}, 9000),
        ({"lsn": 1, "ts_ms": -9}, {}, None),
        ({"lsn": 1, "ts_ms": 1.5}, {}, None),
        ({"lsn": 1, "ts_ms": 10**17}, {}, None),
        ({"lsn": 1, "ts_us": 10**25}, {}, None),
        ({"lsn": 1, "ts_ms": 253_402_300_799_999}, {}, 253_402_300_799_999_000),
        ({"lsn": 1, "ts_ms": 253_402_300_800_000}, {}, None),
        ({"lsn": 1}, {"ts_ms": 8}, None),
        (None, {"ts_us": 8, "ts_ms": 9}, 8),
        (None, {"ts_ms": 9}, 9000),
    ],
)
def test_the_time_is_that_of_the_commit(
    source: object, parts: dict[str, Any], expected: int | None
) -> None:
    assert placed(source, **parts)["_source_time"] == expected


def test_markers_and_heartbeats_have_a_time_but_no_place() -> None:
    lines = [{"ts_ms": 5}, {"status": "END", "id": "4:9", "ts_ms": 6}, event("m")]

    found = decoded(table(), plain(*lines))

    assert [row["_source_time"] for row in found] == [5000, 6000, 5_000_000]
    assert [row["_sequence"] for row in found] == [None] * 3


@pytest.mark.parametrize(("offset", "reason"), [(0, None), (-1, "bad_sequence")])
def test_no_log_has_a_record_at_a_negative_offset(offset: int, reason: str | None) -> None:
    value = event("c", after={"id": 1})

    [found] = decoded(table(), whole({"topic": "t", "offset": offset, "value": value}))

    assert found["_reason"] == reason
    if reason:
        assert found["_message"] == "found offset -1, expected one from 0"
