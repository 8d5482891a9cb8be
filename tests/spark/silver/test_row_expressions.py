"""What the SQL expressions of a table's YAML make of decoded rows."""

import base64
import json
from datetime import date, datetime, timezone
from decimal import Decimal
from typing import Any

import pytest
from pyspark.errors import ParseException
from pyspark.sql import SparkSession
from pyspark.sql import functions as F
from pyspark.sql import types as T

from silver.decode.expressions.sequence_columns import (
    from_column,
    join_columns,
    to_canonical,
    to_section,
)
from silver.decode.values.sequences import canonical_sequence, literal_sequence
from silver.decode.values.sequences import to_section as section_of
from tests.helpers.builders import ARRIVED_AT, Line, at, bronze_rows, decoded, table
from tests.helpers.decoding import to_changes

TEXTS = [
    "0/0/0/0",
    "18f2EBB6480",
    "/".join(["f" * 16] * 4),
    "",
    "/",
    "1/",
    "1//2",
    "G",
    "1/2/3/4/5",
]
NUMBERS = [0, 255, 2**63 - 1, 2**63, 2**64 - 1, 2**64, -1, -(2**63), None]


def test_sequences_of_columns_are_those_of_values(spark: SparkSession) -> None:
    texts = spark.createDataFrame([(one,) for one in [*TEXTS, None]], "value string")
    found = [row[0] for row in texts.select(to_canonical(F.col("value"))).collect()]
    assert found == [*map(canonical_sequence, TEXTS), None]
    numbers = [(one if one is None else Decimal(one),) for one in NUMBERS]
    wide = spark.createDataFrame(numbers, "value decimal(38,0)")
    found = [row[0] for row in wide.select(to_section(F.col("value"))).collect()]
    assert found == [section_of(one) for one in NUMBERS]


def test_a_sequence_is_what_its_columns_type_says(spark: SparkSession) -> None:
    moment = datetime(1970, 1, 1, 0, 0, 1, 5, tzinfo=timezone.utc)
    values: dict[str, tuple[T.DataType, Any, str | None]] = {
        "at": (T.TimestampType(), moment, literal_sequence([1_000_005])),
        "day": (T.DateType(), date(1970, 1, 11), literal_sequence([10])),
        "early": (T.DateType(), date(1969, 1, 1), None),
        "whole": (T.IntegerType(), 7, literal_sequence([7])),
        "text": (T.StringType(), "fff/abc", literal_sequence([0xFFF, 0xABC])),
        "float": (T.DoubleType(), 1.0, None),
        "price": (T.DecimalType(9, 2), Decimal("1.00"), None),
    }
    schema = T.StructType([T.StructField(name, type) for name, (type, _, _) in values.items()])
    frame = spark.createDataFrame([tuple(value for _, value, _ in values.values())], schema)
    each = [from_column(F.col(name), type) for name, (type, _, _) in values.items()]
    both = join_columns(to_section(F.lit(1)), each[3]), join_columns(to_section(F.lit(1)), each[2])
    (row,) = frame.select(*each, *both).collect()
    assert [*row][:-2] == [sequence for _, _, sequence in values.values()]
    assert [*row][-2:] == [literal_sequence([1, 7]), None]


def test_operations_come_from_the_tables_own_conditions(spark: SparkSession) -> None:
    users = table(
        "rows",
        ["id"],
        columns={"id": "int", "qty": "int"},
        sequence_by="seq",
        apply_as_deletes="operation = 'DELETE'",
        apply_as_truncates="operation = 'TRUNCATE'",
    )
    rows: list[tuple[Line, str | None, str | None]] = [
        ({"id": 1, "operation": "INSERT", "seq": 1}, "upsert", None),
        ({"id": 1, "operation": "DELETE", "seq": 2}, "delete", None),
        ({"id": None, "operation": "TRUNCATE", "seq": 3}, "truncate", None),
        ({"id": 2, "operation": None, "seq": 4}, "upsert", None),
        ({"id": 2, "operation": "DELETE", "seq": 5, "qty": "many"}, "delete", None),
        ({"id": 2, "operation": "INSERT", "seq": 5, "qty": "many"}, None, "bad_value"),
        ({"id": None, "operation": "DELETE", "seq": 6}, None, "no_key"),
        ({"id": "x", "operation": "TRUNCATE", "seq": 7}, "truncate", None),
        ({"id": 3, "operation": "DELETE", "seq": None}, None, "bad_sequence"),
        ({"id": None, "operation": "INSERT"}, None, "no_key"),
        ("no JSON", None, "not_json"),
        (None, "none", None),
    ]
    found = to_changes(bronze_rows(spark, [line for line, _, _ in rows]), users)
    assert decoded(found, "_operation", "_reason") == [(op, reason) for _, op, reason in rows]
    absent = [["qty"], None, None, ["qty"], *[None] * 8]
    assert decoded(found, "_absent") == absent
    letters = [raw for raw, reason in decoded(found, "_raw", "_reason") if reason]
    lines = [json.dumps(one) if isinstance(one, dict) else one for one, _, why in rows if why]
    assert letters == lines


OF_TOOL = {"operation": ["meta.op", "Op"], "deletes": ["D"], "upserts": ["I", 4, True]}
KNOWN: dict[str, dict[str, Any]] = {
    "by the YAML": {"apply_as_deletes": "Op = 'D'", "apply_as_upserts": "Op IN ('I', '4', 'true')"},
    "within a record": {"envelope": {"row": ["data", "."], **OF_TOOL}},
    "in the row": {"envelope": OF_TOOL},
}


@pytest.mark.parametrize("way", KNOWN)
def test_an_operation_that_nobody_named_is_a_dead_letter(spark: SparkSession, way: str) -> None:
    source: dict[str, Any] = {"format": "rows", "path": "t", "where": "coalesce(Op, '') <> 'B'"}
    more = dict(KNOWN[way])
    source |= {"envelope": more.pop("envelope")} if "envelope" in more else {}
    users = table("rows", ["id"], source=source, columns={"id": "int"}, sequence_by="seq", **more)
    found: list[tuple[object, str | None]] = [
        ("I", "upsert"), (4, "upsert"), (True, "upsert"), ("D", "delete"), ("B", "filtered"),
        ("R", None), ("d", None), (None, None if "YAML" in way else "upsert"),
    ]  # fmt: skip
    lines: list[Line] = [{"id": 1, "seq": 1, "Op": operation} for operation, _ in found]
    read = to_changes(bronze_rows(spark, lines), users)
    assert decoded(read, "_operation") == [operation for _, operation in found]
    reasons, messages = decoded(read, "_reason"), decoded(read, "_message")
    assert {*reasons[5:7]} == {"unknown_operation"} and {*reasons[:5]} == {None}
    assert messages[5].startswith("found Op R, ")
    assert messages[5].endswith("expected an operation that the table's YAML knows")


@pytest.mark.slow
def test_a_flag_of_a_preset_counts_however_it_is_written(spark: SparkSession) -> None:
    users = table("fivetran", ["id"], columns={"id": "int"})
    row: dict[str, Any] = {"id": 1, "_fivetran_synced": "2023-11-14T22:13:21Z"}
    found: list[tuple[object, str | None]] = [
        (True, "delete"), (1, "delete"), ("T", "delete"), ("YES", "delete"), (False, "upsert"),
        (0, "upsert"), ("F", "upsert"), ("No", "upsert"), ("", "upsert"), ("\\N", "upsert"),
        ("NULL", "upsert"), (None, "upsert"), ("maybe", None), (2, None),
    ]  # fmt: skip
    lines: list[Line] = [row | {"_fivetran_deleted": flag} for flag, _ in found]
    read = to_changes(bronze_rows(spark, lines), users)
    assert decoded(read, "_operation") == [operation for _, operation in found]
    assert decoded(read, "_reason") == [None] * 12 + ["unknown_operation"] * 2
    for flags, operation in (([True, False], "delete"), ([1, 0], "delete"), (["t"], "delete")):
        lines = [row | {"_fivetran_deleted": flag} for flag in flags]
        read = to_changes(bronze_rows(spark, lines), users)
        assert decoded(read, "_operation") == [operation, "upsert"][: len(flags)]


def test_places_in_sql_servers_log_are_ten_bytes_however_they_are_written(
    spark: SparkSession,
) -> None:
    users = table("sqlserver_cdc", ["id"], columns={"id": "int"})
    bare = "0000002700000B80003A"
    row: dict[str, Any] = {"id": 1, "__$operation": 2, "__$seqval": "00000027000001400003"}
    lsns = [bare, bare.lower(), f"0x{bare}", base64.b64encode(bytes.fromhex(bare)).decode()]
    lines: list[Line] = [row | {"__$start_lsn": lsn} for lsn in lsns]
    read = to_changes(bronze_rows(spark, lines), users)
    [sequence] = {*decoded(read, "_sequence")}
    expected = bare + "00000000" + "00000027000001400003"
    parts = "/".join(expected[at : at + 16] for at in (0, 16, 32))
    assert sequence == canonical_sequence(parts)


def test_a_condition_may_be_a_name_that_no_row_of_a_batch_has(spark: SparkSession) -> None:
    users = table("rows", ["id"], sequence_by="seq", apply_as_deletes="_gone")
    row: dict[str, Any] = {"id": 1, "seq": 1}
    without = to_changes(bronze_rows(spark, [row]), users)
    assert decoded(without, "_operation", "_reason") == [("upsert", None)]
    as_text = to_changes(bronze_rows(spark, [row | {"_gone": "true"}, row]), users)
    assert decoded(as_text, "_operation", "_reason") == [("delete", None), ("upsert", None)]


def test_records_for_which_where_is_not_true_are_left_out_whatever_else_they_lack(
    spark: SparkSession,
) -> None:
    source = {"format": "rows", "path": "t", "where": "op <> 'B'"}
    given = {"columns": {"id": "int"}, "sequence_by": "seq", "apply_as_deletes": "op = 'D'"}
    users = table("rows", ["id"], source=source, **given)
    rows: list[tuple[Line, str | None, str | None]] = [
        ({"id": 1, "op": "U", "seq": 1}, "upsert", None),
        ({"id": 1, "op": "B", "seq": 1}, "filtered", None),
        ({"id": 1, "op": None, "seq": 1}, "filtered", None),
        ({"op": "B"}, "filtered", None),
        ({"id": "x", "op": "B"}, "filtered", None),
        ({"id": 1, "op": "D", "seq": 2}, "delete", None),
        ({"op": "D", "seq": 2}, None, "no_key"),
        ("no JSON", None, "not_json"),
        (None, "none", None),
    ]
    found = to_changes(bronze_rows(spark, [line for line, _, _ in rows]), users)
    assert decoded(found, "_operation", "_reason") == [(op, reason) for _, op, reason in rows]


def test_an_order_is_a_column_a_list_or_an_expression_and_a_failing_cast_costs_its_row(
    spark: SparkSession,
) -> None:
    columns = {"o": "int", "day": "date"}
    by = ["day", "o * 2 + 1", "CAST(v AS bigint)"]
    ordered = table("rows", ["id"], columns=columns, sequence_by=by)
    row: dict[str, Any] = {"id": 1, "o": 7, "day": "1970-01-02", "v": "3"}
    lines: list[Line] = [row, row | {"v": "x"}, row | {"o": -1}, row | {"day": None}]
    found = to_changes(bronze_rows(spark, lines), ordered)
    reasons = [None] + ["bad_sequence"] * 3
    assert decoded(found, "_reason") == reasons
    assert decoded(found, "_sequence") == [literal_sequence([1, 15, 3]), None, None, None]
    message = decoded(found, "_message")[2]
    assert message.startswith(
        "sequence_by: found 1970-01-02 (date), -1 (int), 3 (bigint), expected"
    )
    assert "text" not in message.rpartition("or text of 1 to 4 hex sections")[2]


def test_a_time_in_a_column_without_a_type_is_told_to_need_one(spark: SparkSession) -> None:
    ordered = table("rows", ["id"], sequence_by="at")
    found = to_changes(bronze_rows(spark, [{"id": 1, "at": "2025-10-09T08:53:20"}]), ordered)
    [message] = decoded(found, "_message")
    assert message.startswith(
        "sequence_by: found 2025-10-09T08:53:20 (string); if this is a time or a number, declare "
        "its type in columns, or CAST it in sequence_by; expected whole numbers"
    )


def test_too_many_sections_are_no_sequence(spark: SparkSession) -> None:
    lines: list[Line] = [{"id": 1, "n": 1, "t": "1/2/3"}, {"id": 1, "n": 1, "t": "1/2/3/4"}]
    found = to_changes(bronze_rows(spark, lines), table("rows", ["id"], sequence_by=["n", "t"]))
    assert decoded(found, "_reason") == [None, "bad_sequence"]


def test_members_may_be_called_like_columns_of_the_layers(spark: SparkSession) -> None:
    users = table(
        "rows",
        ["id"],
        sequence_by="_sequence",
        apply_as_deletes="_operation = 'D' or gone",
        source={"time_column": "_source_time"},
    )
    row: dict[str, Any] = {"id": 1, "_sequence": 5, "_source_time": 1704067201}
    lines: list[Line] = [row | {"_operation": "D"}, row | {"_operation": "U", "_reason": "x"}]
    found = to_changes(bronze_rows(spark, lines), users)
    assert decoded(found, "_operation", "_sequence", "_source_time", "_reason") == [
        ("delete", literal_sequence([5]), at(1704067201), None),
        ("upsert", literal_sequence([5]), at(1704067201), None),
    ]
    assert found.columns[:2] == ["id", "_operation"]


def test_columns_that_the_table_leaves_out_serve_its_expressions(spark: SparkSession) -> None:
    stock = table(
        "rows", ["sku"], sequence_by="seq", apply_as_deletes="op = 'D'",
        except_column_list=["op", "seq"],
    )  # fmt: skip
    lines: list[Line] = [{"sku": "a", "qty": 1, "seq": 2, "op": None}, {"sku": "a", "seq": 3}]
    lines.append({"sku": "a", "seq": 4, "op": "D"})
    found = to_changes(bronze_rows(spark, lines), stock)
    assert found.columns[:3] == ["sku", "qty", "_operation"]
    assert decoded(found, "_operation", "_absent") == [
        ("upsert", None),
        ("upsert", ["qty"]),
        ("delete", None),
    ]


@pytest.mark.parametrize(
    ("format", "order", "source", "time"),
    [
        ("rows", "seq", {}, ARRIVED_AT.timestamp()),
        ("rows", ["seq", "updated"], {}, 1704067200),
        ("rows", "seq", {"time_column": "made"}, 1704067201),
        ("bigquery", None, {"time_column": "text"}, 1704067202),
    ],
)
def test_the_source_time_is_the_time_column_else_a_timestamp_in_the_order_else_arrival(
    spark: SparkSession, format: str, order: Any, source: dict[str, str], time: float
) -> None:
    row: dict[str, Any] = {"id": 1, "seq": 1, "made": 1704067201, "_CHANGE_TYPE": "UPSERT"}
    line = row | {"updated": "2024-01-01T00:00:00Z", "text": "2024-01-01 00:00:02"}
    columns = {"updated": "timestamp"}
    by = {} if order is None else {"sequence_by": order}
    timed = table(format, ["id"], columns=columns, source=source, **by)
    found = to_changes(
        bronze_rows(spark, [line, line | {source.get("time_column", "x"): None}]), timed
    )
    later = time if not source else ARRIVED_AT.timestamp()
    assert decoded(found, "_source_time") == [at(time), at(later)]


def test_sequence_by_orders_bigquerys_rows_too(spark: SparkSession) -> None:
    row: dict[str, Any] = {"ID": 1, "_CHANGE_TYPE": "UPSERT", "_CHANGE_SEQUENCE_NUMBER": "zz"}
    lines: list[Line] = [row | {"v": 1}, row | {"v": None}, row | {"v": 1, "_CHANGE_TYPE": "x"}]
    found = to_changes(bronze_rows(spark, lines), table("bigquery", ["ID"], sequence_by="v"))
    assert decoded(found, "_operation", "_sequence", "_reason") == [
        ("upsert", literal_sequence([1]), None),
        (None, None, "bad_sequence"),
        (None, literal_sequence([1]), "unknown_operation"),
    ]
    assert decoded(found, "_message")[1].startswith("sequence_by: found null (bigint), expected")


def test_a_change_carries_its_groups_sequence_and_leaves_a_group_without_one_alone(
    spark: SparkSession,
) -> None:
    columns: dict[str, Any] = dict.fromkeys(["id", "seq", "price", "version"], "int")
    stock = table(
        "rows",
        ["id"],
        columns=columns | {"stock": {"type": "int", "nullable": False}},
        sequence_by="seq",
        sequence_groups=[{"sequence_by": "version", "columns": ["stock"]}],
        apply_as_deletes="_op = 'D'",
    )

    def row(seq: int, stock: int | None, version: int | None) -> dict[str, Any]:
        return {"id": 1, "seq": seq, "price": 10, "stock": stock, "version": version}

    lines: list[Line] = [row(1, 5, 7), row(2, None, None), row(3, 6, -1), row(4, None, 8)]
    lines.append({"id": 1, "seq": 5, "_op": "D"})
    found = to_changes(bronze_rows(spark, lines), stock)
    names = ("_operation", "_absent", "_group_sequences", "_reason")
    of_seven = {"stock": literal_sequence([7]), "version": literal_sequence([7])}
    assert decoded(found, *names) == [
        ("upsert", None, of_seven, None),
        ("upsert", ["stock", "version"], None, None),
        (None, None, None, "bad_sequence"),
        (None, None, None, "bad_value"),
        ("delete", None, None, None),
    ]
    messages = decoded(found, "_message")
    assert messages[2].startswith(
        "sequence_groups[0].sequence_by version: found -1 (int), expected"
    )
    assert messages[3] == "column stock: found null, expected a value (nullable: false)"


def test_groups_of_ydbs_columns_have_orders_too(spark: SparkSession) -> None:
    groups = [{"sequence_by": "version", "columns": ["stock"]}]
    columns = {"stock": "int", "version": "int"}
    stock = table("ydb", ["id"], columns=columns, sequence_groups=groups)
    lines: list[Line] = [
        {"key": [1], "update": {"stock": 5, "version": 2}},
        {"key": [1], "update": {"stock": 5}},
        {"key": [1], "erase": {}},
    ]
    found = to_changes(bronze_rows(spark, lines), stock)
    both = {"stock": literal_sequence([2]), "version": literal_sequence([2])}
    assert decoded(found, "_operation", "_absent", "_group_sequences") == [
        ("upsert", None, both),
        ("upsert", ["version", "stock"], None),
        ("delete", None, None),
    ]


def test_numbers_of_up_to_38_digits_stand_in_order(spark: SparkSession) -> None:
    numbers = [0, 5, 10**18, 2**63, 2**64 - 2, 2**64 - 1, 2**64, 2**65 + 7, 10**34 + 9, 10**35]
    given = [(Decimal(one),) for one in [*numbers, 10**38 - 1, -1]]
    wide = spark.createDataFrame(given, "value decimal(38,0)")
    *found, negative = (
        row[0] for row in wide.select(from_column(F.col("value"), T.DecimalType(38, 0))).collect()
    )
    assert negative is None
    assert found == sorted(found) and len({*found}) == len(found)
    assert found[1] == literal_sequence([5])
    listed = [f"{one}/{literal_sequence([behind])}" for one in found for behind in (0, 2**63)]
    assert listed == sorted(listed)


MOMENTS = ["00.1234567890000001Z", "00.123456", "00.123456001", "00.1234569", "00.123457Z", "01"]


def test_digits_behind_the_sixth_of_a_second_count(spark: SparkSession) -> None:
    lines = [{"id": 1, "At": f"2025-01-01T10:00:{second}", "n": 1} for second in MOMENTS]
    ordered = to_changes(
        bronze_rows(spark, lines),
        table("rows", ["id"], columns={"at": "timestamp", "n": "int"}, sequence_by=["n", "at"]),
    )
    found = decoded(ordered, "_sequence")
    assert None not in found
    order = [1, 2, 0, 3, 4, 5]
    assert [found[at] for at in order] == sorted(found)
    assert len(found[1].split("/")) == 2

    first = table("rows", ["id"], columns={"at": "timestamp", "n": "int"}, sequence_by=["at", "n"])
    told = decoded(to_changes(bronze_rows(spark, lines), first), "_reason", "_message")
    assert [reason for reason, _ in told] == [
        "bad_sequence",
        None,
        *["bad_sequence"] * 2,
        None,
        None,
    ]
    assert "the last of several columns" in told[0][1]


@pytest.mark.slow
def test_digits_behind_the_sixth_count_in_an_expression(spark: SparkSession) -> None:
    day, late, later = "2025-01-01T10:00:00.", "123456001", "123456789"
    lines: list[Line] = [
        {"id": 1, "at": f"{day}{late}", "made": f"{day}5"},
        {"id": 1, "at": f"{day}{later}", "made": None},
        {"id": 1, "at": None, "made": f"{day}1234561"},
        {"id": 1, "at": f"{day}{late}", "made": f"{day}{later}"},
        {"id": 1, "at": f"{day}5", "made": None},
    ]

    def told(order: str) -> list[Any]:
        of = table("rows", ["id"], columns={"at": "timestamp"}, sequence_by=order)
        return decoded(to_changes(bronze_rows(spark, lines), of), "_sequence", "_message")

    found = [sequence for sequence, _ in told("coalesce(at, to_timestamp(made))")]
    assert found[3] is None, "both columns have its value, and other digits"
    assert found[0] < found[2] < found[1] < found[4]
    shifted = told("at + interval 1 day")
    assert [sequence is None for sequence, _ in shifted] == [True, True, True, True, False]
    assert "name that column in sequence_by" in shifted[0][1]


@pytest.mark.parametrize("condition", ["op = 'd' AND", "op = 'd' gone", "op = 'd'), (true"])
def test_a_condition_is_one_expression_and_no_name_of_one(
    spark: SparkSession, condition: str
) -> None:
    of = table("rows", ["id"], columns={"op": "string"}, sequence_by="id")
    with pytest.raises(ParseException):
        to_changes(
            bronze_rows(spark, [{"id": 1, "op": "d"}]),
            of.model_copy(update={"apply_as_deletes": condition}),
        )


def test_digits_behind_the_sixth_count_in_a_group(spark: SparkSession) -> None:
    lines = [{"id": 1, "seq": 1, "at": f"2025-01-01T10:00:{second}", "a": 1} for second in MOMENTS]
    grouped = table(
        "rows",
        ["id"],
        columns={"seq": "int", "at": "timestamp", "a": "int"},
        sequence_by="seq",
        sequence_groups=[{"sequence_by": "at", "columns": ["a"]}],
    )
    found = decoded(to_changes(bronze_rows(spark, lines), grouped), "_group_sequences")
    orders = [groups["a"] for groups in found]
    assert [orders[at] for at in [1, 2, 0, 3, 4, 5]] == sorted(orders)
