"""Events of each relational connector, made by hand after its documentation: what becomes of them.

A few records of one table go through the decoder; what is left of the table is then found by the
law itself: per key the change with the highest sequence counts.
"""

import base64
from datetime import timezone
from decimal import Decimal
from typing import Any

import pytest

from tests.helpers.debezium_records import decoded, plain, table

MYSQL = {"connector": "mysql", "name": "erp", "db": "erp", "table": "t", "server_id": 101}
SQL_SERVER = {"connector": "sqlserver", "name": "erp", "db": "erp", "schema": "dbo", "table": "t"}
ORACLE = {"connector": "oracle", "name": "ora", "db": "ORCL", "schema": "APP", "table": "T"}
DB2 = {"connector": "db2", "name": "db2", "db": "TESTDB", "schema": "DB2INST1", "table": "T"}
INFORMIX = {"connector": "informix", "name": "ifx", "db": "d", "schema": "informix", "table": "t"}
TICDC = {"connector": "TiCDC", "name": "default", "db": "test", "table": "t2", "file": "", "pos": 0}
YDB = {"connector": "ydb", "version": "1.0.0"}
SPANNER = {"connector": "spanner", "name": "s", "db": "d", "value_capture_type": "NEW_ROW"}
COCKROACHDB = {"origin": "cockroachdb", "database_name": "d", "table_name": "t"}


def sent(op: str, id: int, name: str | None, source: dict[str, Any], **more: Any) -> dict[str, Any]:
    row = {"id": id, "name": name}
    before, after = (row, None) if op == "d" else (None, row)
    return {"op": op, "before": before, "after": after, "source": source | more, "ts_ms": 1}


def left(lines: list[dict[str, Any]]) -> dict[int, str]:
    """The rows of the table after the changes, whatever their order of arrival."""
    found = decoded(table(), plain(*lines))
    assert [row["_reason"] for row in found] == [None] * len(lines)
    newest = {row["id"]: row for row in sorted(found, key=lambda row: row["_sequence"])}
    return {id: row["name"] for id, row in newest.items() if row["_operation"] == "upsert"}


STREAMS: dict[str, list[dict[str, Any]]] = {
    "mysql": [
        sent("c", 1, "a", MYSQL, file="b.000009", pos=900, row=0),
        sent("c", 2, "b", MYSQL, file="b.000009", pos=900, row=1),
        sent("u", 1, "A", MYSQL, file="b.000010", pos=5, row=0),
        sent("d", 2, "b", MYSQL, file="b.000010", pos=5, row=1),
    ],
    "mariadb": [
        sent("c", 1, "a", MYSQL | {"connector": "mariadb"}, file="b.000009", pos=9, gtid="0-1-5"),
        sent("u", 1, "A", MYSQL | {"connector": "mariadb"}, file="b.000010", pos=5, gtid="0-1-6"),
    ],
    "sqlserver": [
        sent("c", 1, "a", SQL_SERVER, commit_lsn="00000027:00000ac0:0002", event_serial_no=1),
        sent("c", 2, "b", SQL_SERVER, commit_lsn="00000027:00000ac0:0002", event_serial_no=2),
        sent("u", 1, "A", SQL_SERVER, commit_lsn="00000027:00000ac1:0001", event_serial_no=2),
        sent("d", 2, "b", SQL_SERVER, commit_lsn="00000028:00000001:0001", event_serial_no=1),
    ],
    "informix": [
        sent("c", 1, "a", INFORMIX, commit_lsn="9999999999", change_lsn="9999999996"),
        sent("c", 2, "b", INFORMIX, commit_lsn="9999999999", change_lsn="9999999998"),
        sent("u", 1, "A", INFORMIX, commit_lsn="10000000100", change_lsn="9999999904"),
        sent("d", 2, "b", INFORMIX, commit_lsn="10000000100", change_lsn="9999999920"),
    ],
    "oracle": [
        sent("c", 1, "a", ORACLE, scn="90", commit_scn="100"),
        sent("c", 2, "b", ORACLE, scn="95", commit_scn="100"),
        sent("u", 1, "A", ORACLE, scn="80", commit_scn="200"),
        sent("d", 2, "b", ORACLE, scn="81", commit_scn="200"),
    ],
    "db2": [
        sent("c", 1, "a", DB2, commit_lsn="00000000:00001e36:00000000ffffffff"),
        sent("c", 2, "b", DB2, commit_lsn="00000000:00001e36:00000000ffffffff"),
        sent("u", 1, "A", DB2, commit_lsn="00000000:00001e37:0000000000000001"),
        sent("d", 2, "b", DB2, commit_lsn="00000000:00001e37:0000000000000002"),
    ],
    "ticdc": [
        sent("c", 1, "a", TICDC, commit_ts=447507027004751877),
        sent("c", 2, "b", TICDC, commit_ts=447507027004751877),
        sent("u", 1, "A", TICDC, commit_ts=447507027004751878),
        sent("d", 2, "b", TICDC, commit_ts=447507027004751879),
    ],
    "ydb": [
        sent("r", 1, "a", YDB, step=9, txId=5, snapshot=True),
        sent("r", 2, "b", YDB, step=9, txId=5, snapshot=True),
        sent("u", 1, "A", YDB, step=10, txId=1, snapshot=False),
        sent("d", 2, "b", YDB, step=10, txId=2, snapshot=False),
    ],
    "spanner": [
        sent("c", 1, "a", SPANNER, ts_ms=9, sequence="00000007", mod_number=0),
        sent("c", 2, "b", SPANNER, ts_ms=9, sequence="00000007", mod_number=1),
        sent("u", 1, "A", SPANNER, ts_ms=10, sequence="00000000", mod_number=0),
        sent("d", 2, "b", SPANNER, ts_ms=10, sequence="00000001", mod_number=0),
    ],
    "cockroachdb": [
        sent("c", 1, "a", COCKROACHDB, ts_hlc="1760000000000000000.0000000002"),
        sent("c", 2, "b", COCKROACHDB, ts_hlc="1760000000000000000.0000000002"),
        sent("u", 1, "A", COCKROACHDB, ts_hlc="1760000000000000000.0000000010"),
        sent("d", 2, "b", COCKROACHDB, ts_hlc="1760000000000000001.0000000000"),
    ],
}


@pytest.mark.parametrize("connector", STREAMS)
def test_the_connector_s_positions_are_the_order(connector: str) -> None:
    lines = STREAMS[connector]
    expected = {1: "A"}

    assert left(lines) == expected
    assert left(lines[::-1]) == expected


def captured(kind: str, before: Any, after: Any) -> dict[str, Any]:
    columns = {"id": "bigint", "name": "string", "city": "string"}
    source = SPANNER | {"ts_ms": 9, "sequence": "1", "value_capture_type": kind}
    update = {"op": "u", "before": before, "after": after, "source": source}
    [found] = decoded(table(columns=columns), plain(update))
    return found


@pytest.mark.parametrize("after", [{"id": 1, "name": "b"}, {"id": 1, "name": "b", "city": None}])
def test_an_update_of_spanner_with_old_values_keeps_the_columns_that_it_did_not_change(
    after: dict[str, Any],
) -> None:
    found = captured("OLD_AND_NEW_VALUES", {"id": 1, "name": "a"}, after)

    assert (found["name"], found["_absent"], found["_reason"]) == ("b", ["city"], None)


def test_an_update_of_spanner_with_old_values_tells_a_null_that_was_written() -> None:
    found = captured("OLD_AND_NEW_VALUES", {"id": 1, "city": "Ulm"}, {"id": 1, "city": None})

    assert (found["city"], found["_absent"]) == (None, ["name"])


def test_an_update_of_spanner_with_new_values_alone_does_not_tell_nulls() -> None:
    told = captured("NEW_VALUES", None, {"id": 1, "name": "b"})
    assert (told["_absent"], told["_reason"]) == (["city"], None)

    untold = captured("NEW_VALUES", None, {"id": 1, "name": "b", "city": None})
    assert (untold["_reason"], untold["id"]) == ("illegal_change", 1)
    assert "NEW_ROW" in untold["_message"]


@pytest.mark.parametrize("kind", ["NEW_ROW", "NEW_ROW_AND_OLD_VALUES"])
def test_whole_rows_of_spanner_are_whole(kind: str) -> None:
    found = captured(kind, None, {"id": 1, "name": "b", "city": None})

    assert (found["_absent"], found["_reason"]) == (None, None)


@pytest.mark.parametrize(
    ("source", "position"),
    [
        (MYSQL | {"file": "binlog.000008", "pos": 3693, "row": 0}, (8, 3693, 0)),
        (ORACLE | {"scn": "2044", "commit_scn": None}, (2044, 2044, 0)),
        (DB2 | {"commit_lsn": "00000000:00001e36:000000000004a1b4"}, (0x1E36, 0x4A1B4, 0, 0)),
        (SQL_SERVER | {"commit_lsn": f"{5:08x}:{0:08x}:0000"}, (5 << 32, 0, 0)),
    ],
)
def test_a_full_snapshot_is_named_by_the_connector_s_position(
    source: dict[str, Any], position: tuple[int, ...]
) -> None:
    marks = ("first", "true", "last")

    found = decoded(table(), plain(*[sent("r", 1, "a", source, snapshot=m) for m in marks]))

    place = "/".join(f"{number:016X}" for number in position)
    table_of = ".".join(source[part] for part in ("db", "schema", "table") if source.get(part))
    assert [row["_snapshot"] for row in found] == [f"{source['name']}:{place}@{table_of}"] * 3
    assert [row["_snapshot_last"] for row in found] == [False, False, True]


def test_the_rows_of_an_incremental_snapshot_stand_where_the_stream_had_come() -> None:
    lines = [
        sent("u", 1, "before", MYSQL, file="b.000001", pos=100),
        sent("r", 1, "shown", MYSQL, file="b.000001", pos=200, snapshot="incremental"),
        sent("r", 2, "shown", MYSQL, file="b.000001", pos=200, snapshot="incremental"),
        sent("u", 2, "after", MYSQL, file="b.000001", pos=300),
    ]

    assert left(lines) == left(lines[::-1]) == {1: "shown", 2: "after"}
    assert {row["_snapshot"] for row in decoded(table(), plain(*lines))} == {None}


def packed(number: int) -> str:
    octets = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    return base64.b64encode(octets).decode()


def decimal(scale: int, precision: int) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return {
        "type": "bytes",
        "name": "org.apache.kafka.connect.data.Decimal",
        "parameters": parameters,
    }


def of(type: str, name: str | None = None) -> dict[str, Any]:
    return {"type": type, "name": name}


TIME, DATA = "io.debezium.time.", "io.debezium.data."
NUMBER = of("struct", DATA + "VariableScaleDecimal")


@pytest.mark.parametrize(
    ("field", "value", "type", "expected"),
    [
        pytest.param(decimal(0, 20), packed(2**64 - 1), None, Decimal(2**64 - 1), id="unsigned"),
        pytest.param(of("int16"), 2, None, 2, id="tinyint(1)"),
        pytest.param(of("int16"), 1, "boolean", True, id="tinyint(1) as boolean"),
        pytest.param(of("int16"), 2, "boolean", "bad_value", id="2 is no boolean"),
        pytest.param(of("int32", TIME + "Year"), 2025, None, 2025, id="year"),
        pytest.param(of("string", DATA + "EnumSet"), "a,c", None, "a,c", id="set"),
        pytest.param(of("string", DATA + "Enum"), "a", None, "a", id="enum"),
        pytest.param(of("bytes", DATA + "Bits"), "BQI=", None, b"\x05\x02", id="bit(10)"),
        pytest.param(of("boolean"), True, None, True, id="bit(1)"),
        pytest.param(of("int64", TIME + "MicroTime"), 3020399000000, None, "838:59:59", id="time"),
        pytest.param(of("int64", TIME + "MicroTime"), -1500000, None, "-00:00:01.5", id="-time"),
        pytest.param(of("string", DATA + "Json"), '{"n":1.10}', None, '{"n":1.10}', id="json"),
        pytest.param(
            of("string", TIME + "ZonedTimestamp"),
            "2025-10-09T10:53:20.1234567+02:00",
            None,
            1_760_000_000_123_456,
            id="datetimeoffset",
        ),
        pytest.param(decimal(4, 19), packed(-1234500), None, Decimal("-123.4500"), id="money"),
        pytest.param(
            of("int64", TIME + "NanoTime"), 47655123456700, None, "13:14:15.1234567", id="time(7)"
        ),
        pytest.param(
            of("int64", TIME + "NanoTimestamp"),
            1_760_000_000_123_456_700,
            None,
            1_760_000_000_123_456,
            id="datetime2",
        ),
        pytest.param(NUMBER, {"scale": 3, "value": packed(12345)}, None, "12.345", id="number"),
        pytest.param(NUMBER, {"scale": -3, "value": packed(-7)}, None, "-7000", id="number(*,-3)"),
        pytest.param(
            NUMBER,
            {"scale": 3, "value": packed(12345)},
            "decimal(20,6)",
            Decimal("12.345"),
            id="number as decimal",
        ),
        pytest.param(
            NUMBER, {"scale": 3, "value": packed(12345)}, "bigint", "bad_value", id="number cut"
        ),
    ],
)
def test_types_of_connectors(
    field: dict[str, Any], value: object, type: str | None, expected: object
) -> None:
    fields = [{"field": "id", "type": "int64"}, field | {"field": "v"}]
    block = {"type": "struct", "fields": [{"field": "after", "fields": fields}]}
    payload = sent("c", 1, None, MYSQL, file="b.1", pos=1) | {"after": {"id": 1, "v": value}}
    columns = {"id": "bigint"} | ({} if type is None else {"v": type})

    [found] = decoded(table(columns=columns), plain({"schema": block, "payload": payload}))

    if expected == "bad_value":
        assert found["_reason"] == expected
    else:
        assert (_plain(found["v"]), found["_reason"]) == (expected, None)


def _plain(value: Any) -> object:
    """A timestamp as microseconds since 1970."""
    if not hasattr(value, "timestamp"):
        return value
    return round(value.replace(tzinfo=timezone.utc).timestamp() * 1_000_000)


def test_numbers_of_oracle_are_keys_too() -> None:
    of = table(keys=("ID",), columns={"ID": "decimal(38,0)", "N": "decimal(20,6)"})
    source = ORACLE | {"scn": "9", "commit_scn": "20"}
    number = {"scale": -1, "value": packed(25)}
    lines = [
        {"op": "c", "after": {"ID": number, "N": {"scale": 3, "value": "MDk="}}, "source": source},
        {"op": "d", "before": {"ID": number, "N": None}, "source": source},
    ]

    found = decoded(of, plain(*lines))

    assert [row["ID"] for row in found] == [Decimal(250)] * 2
    assert found[0]["N"] == Decimal("12.345")
