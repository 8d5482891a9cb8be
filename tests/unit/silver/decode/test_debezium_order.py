"""Where a record stands: sequences by connector, snapshots, times, transactions."""

from dataclasses import replace
from typing import Any

import pytest

from silver.decode.columns import known_columns
from tests.helpers.debezium_records import (
    decoded,
    decoded_with,
    discovered,
    event,
    plain,
    table,
    whole,
)

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
        ({"connector": "postgresql"}, None),
        ({"connector": "mariadb", "file": "bin.000007", "pos": 5, "gtid": "0-1-9"}, text(7, 5, 0)),
        ({"connector": "TiCDC", "file": "", "pos": 0, "commit_ts": 2**58}, text(2**58)),
        ({"connector": "TiCDC", "file": "", "pos": 0}, None),
        ({"connector": "ydb", "step": 7, "txId": 2**63}, text(7, 2**63)),
        ({"connector": "ydb", "step": 7}, None),
        ({"connector": "oracle", "commit_scn": None, "scn": "8"}, text(8, 8, 3)),
        ({"connector": "spanner", "ts_ms": 5, "sequence": "00000002"}, text(5000, 2, 0)),
        (
            {"connector": "spanner", "ts_ms": 5, "ts_us": 5001, "sequence": "2", "mod_number": 1},
            text(5001, 2, 1),
        ),
        ({"connector": "spanner", "ts_ms": 5}, text(5000, 0, 0)),
        ({"connector": "spanner", "sequence": "2"}, None),
        ({"connector": "spanner", "ts_ms": 5, "sequence": "next"}, None),
        ({"ts_hlc": "1760000000000000001.0000000003"}, text(1760000000000000001, 3)),
        ({"ts_hlc": "1760000000000000001"}, text(1760000000000000001, 0)),
        ({"ts_hlc": "soon"}, None),
        (
            {
                "connector": "db2",
                "commit_lsn": "00000000:00001e36:000000000004a1b4",
                "change_lsn": "00000000:00000000:000000000446140f",
            },
            text(0x1E36, 0x4A1B4, 0, 0x446140F),
        ),
        ({"connector": "db2", "commit_lsn": "00000000:00001e36:0004a1b4"}, None),
        ({"connector": "db2", "commit_lsn": "0" * 33}, None),
        ({"connector": "db2", "commit_lsn": "CSN:9"}, None),
        (
            {"connector": "informix", "commit_lsn": "21484679168", "change_lsn": "21484675124"},
            text(21484679168, 21484675124),
        ),
        ({"connector": "informix", "commit_lsn": "99", "change_lsn": "-1"}, text(99, 0)),
        ({"connector": "informix", "commit_lsn": "0000002a:00000d50:0003"}, None),
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


NO_FILE = {"connector": "mysql", "name": "shop", "file": "", "pos": 0, "row": 0, "ts_ms": 0}
NO_PLACE = {"connector": "postgresql", "name": "shop", "lsn": -(2**63), "ts_ms": 0} | {
    "sequence": '[null,"-9223372036854775808"]'
}
NO_LSN = {"connector": "sqlserver", "name": "shop", "commit_lsn": None, "ts_ms": 0}


@pytest.mark.parametrize(
    ("op", "source", "expected"),
    [
        ("r", NO_FILE, text(0, 0)),
        ("r", NO_LSN, text(0, 0)),
        ("r", NO_LSN | {"connector": "postgresql", "lsn": None}, text(0, 0)),
        ("r", NO_PLACE, text(0, 0)),
        ("r", NO_PLACE | {"lsn": -9223372036854776000}, text(0, 0)),
        ("r", NO_FILE | {"file": "bin"}, None),
        ("r", NO_LSN | {"commit_lsn": "soon"}, None),
        *((op, NO_FILE, None) for op in "cud"),
    ],
)
def test_a_read_row_with_an_empty_position_stands_before_everything_streamed(
    op: str, source: dict[str, Any], expected: str | None
) -> None:
    row = {"before": {"id": 1}} if op == "d" else {"after": {"id": 1}}
    [found] = decoded(table(), plain(event(op, source=source, ts_ms=7, **row)))

    assert found["_sequence"] == expected
    assert found["_reason"] == (None if expected else "bad_sequence")
    assert found["_source_time"] == (7_000 if op == "r" else 0)
    assert found["_snapshot"] == (f"shop:{expected}" if expected else None)


@pytest.mark.parametrize(("offset", "reason"), [(0, None), (-1, "bad_sequence")])
def test_no_log_has_a_record_at_a_negative_offset(offset: int, reason: str | None) -> None:
    value = event("c", after={"id": 1})

    [found] = decoded(table(), whole({"topic": "t", "offset": offset, "value": value}))

    assert found["_reason"] == reason
    if reason:
        assert found["_message"] == "found offset -1, expected one from 0"


FLINK = {"db": "shop", "table": "t"}


def by_offset(partition: int, offset: int, source: object) -> dict[str, Any]:
    value = {"op": "u", "after": {"id": 1}, "source": source}
    return {"topic": "t", "partition": partition, "offset": offset, "value": value}


@pytest.mark.parametrize("source", [None, {}, FLINK, {"connector": "cassandra"}])
def test_records_without_a_position_are_in_order_of_partition_and_offset(source: object) -> None:
    records = whole(by_offset(1, 0, source), by_offset(0, 12, source), by_offset(0, 9, source))

    found = decoded(table(), records)

    assert [row["_reason"] for row in found] == [None] * 3
    assert [row["_sequence"] for row in found] == [text(0, 1, 0), text(0, 0, 12), text(0, 0, 9)]


def test_dropped_records_without_a_position_are_in_order_of_arrival() -> None:
    found = decoded(table(), plain(*[event("u", after={"id": 1}, source=FLINK)] * 3))

    sequences = [row["_sequence"] for row in found]
    assert sequences == sorted(set(sequences))
    assert all(sequence.startswith(text(0)) for sequence in sequences)


@pytest.mark.parametrize("source", [None, {}, FLINK])
def test_a_record_without_a_position_among_others_that_have_one_is_a_dead_letter(
    source: object,
) -> None:
    lines = [event("u", after={"id": 1}, source=source), event("u", after={"id": 1})]

    found = decoded(table(), plain(*lines))

    assert [row["_reason"] for row in found] == ["bad_sequence", None]
    assert "as other records of the feed have" in found[0]["_message"]


@pytest.mark.parametrize(
    ("known", "source", "reason", "mismatched"),
    [
        (None, FLINK, None, True),
        ("arrival", FLINK, None, False),
        ("source", FLINK, "bad_sequence", False),
        (None, {"lsn": 5}, None, False),
        ("arrival", {"lsn": 5}, None, True),
        ("source", {"lsn": 5}, None, False),
    ],
)
def test_what_is_known_of_the_feed_s_order_counts(
    known: str | None, source: object, reason: str | None, mismatched: bool
) -> None:
    columns = replace(known_columns(table(), {}), order=known)

    [found] = decoded_with(
        table(), columns, plain(event("u", after={"id": 1, "name": "a"}, source=source))
    )

    assert (found["_reason"], found["_mismatched"]) == (reason, mismatched)


POSTGRESQL = {"connector": "postgresql", "name": "s", "lsn": 9, "txId": 5, "ts_ms": 1}


@pytest.mark.parametrize(
    ("lines", "order"),
    [
        ([event("u", after={"id": 1}, source=POSTGRESQL)], "change"),
        ([{"id": 1, "name": "a", "__op": "u", "__lsn": 9, "__txId": 5}], "change"),
        ([event("u", after={"id": 1}, source=POSTGRESQL | {"sequence": '["8","9"]'})], "source"),
        ([{"id": 1, "name": "a", "__lsn": 9, "__txId": 5, "__sequence": '["8","9"]'}], None),
        ([event("u", after={"id": 1}, source=NO_LSN | {"commit_lsn": "5"})], "source"),
    ],
)
def test_postgresql_s_changes_without_their_commits_are_told(
    lines: list[dict[str, Any]], order: str | None
) -> None:
    columns = discovered(table(), plain(*lines))[0]

    assert columns.order == order
    assert decoded(table(), plain(*lines))[0]["_reason"] is None


def test_markers_show_nothing_of_the_order() -> None:
    lines = [{"ts_ms": 1}, {"status": "END", "id": "1:2"}, event("m"), event("x")]

    assert discovered(table(), plain(*lines))[0].order is None
    assert discovered(table(), plain(*lines, event("t", source=FLINK)))[0].order == "arrival"


def test_an_initial_scan_of_cockroachdb_is_no_full_snapshot() -> None:
    found = placed({"ts_hlc": "5.0000000000", "snapshot": "true"}, op="r")

    assert (found["_snapshot"], found["_snapshot_last"]) == (None, False)


def test_an_initial_scan_of_ydb_is_no_full_snapshot() -> None:
    source = {"connector": "ydb", "step": 7, "txId": 5, "snapshot": True, "ts_ms": 9}

    found = placed(source, op="r")

    assert (found["_snapshot"], found["_snapshot_last"]) == (None, False)


def test_decimals_of_ydb_are_numbers_as_people_write_them() -> None:
    of = table(columns={"id": "decimal(12,0)"})
    source = {"connector": "ydb", "step": 7, "txId": 5}

    assert decoded(of, plain(event("u", after={"id": "1234"}, source=source)))[0]["id"] == 1234
