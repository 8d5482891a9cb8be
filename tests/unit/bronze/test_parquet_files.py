"""Parquet files that Arrow reads for Spark: each value as the JSON that Spark would write of it."""

import io
import json
import uuid
from collections.abc import Sequence
from datetime import datetime, time
from decimal import Decimal
from pathlib import Path
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import SparkSession

from bronze.contract import NOT_TEXT
from bronze.files.file_kinds import UnreadableFile
from bronze.files.listing import DroppedFile
from bronze.files.parquet_files import files_with_96_bits, json_rows, read_values


def read(table: pa.Table, texts: Sequence[str] = (), **written: Any) -> list[dict[str, Any]]:
    """The rows of a file with this table; `texts` are columns that are declared to be text."""
    file = io.BytesIO()
    pq.write_table(table, file, **written)
    batch = pa.RecordBatch.from_arrays(
        [pa.array([file.getvalue()], pa.binary()), pa.array(["f"])], names=["content", "_url"]
    )
    parts = json_rows(iter([batch]), texts)
    return [json.loads(row, parse_float=Decimal) for found in parts for row in found[0].to_pylist()]


def column(*values: object, type: pa.DataType) -> list[Any]:
    return [row["c"] for row in read(pa.table({"c": pa.array(list(values), type)}))]


def test_a_map_is_an_object_also_where_it_is_empty_or_inside_of_others() -> None:
    names = pa.map_(pa.string(), pa.int32())

    assert column([("a", 1)], [], None, type=names) == [{"a": 1}, {}, None]
    assert column([[]], [], type=pa.list_(names)) == [[{}], []]
    assert column({"m": []}, {"m": None}, type=pa.struct([("m", names)])) == [
        {"m": {}},
        {"m": None},
    ]
    assert column([(7, [])], type=pa.map_(pa.int32(), names)) == [{"7": {}}]


def test_a_moment_is_told_in_utc_whatever_zone_the_file_notes() -> None:
    moment = datetime.fromisoformat("2026-02-02T02:40:00+00:00")

    assert column(moment, type=pa.timestamp("us", "Europe/Berlin")) == [
        "2026-02-02T02:40:00.000000Z"
    ]


def test_a_timestamp_in_96_bits_may_be_older_than_nanoseconds_reach() -> None:
    moments = pa.array(
        [datetime.fromisoformat(day) for day in ("1582-10-10", "2026-02-02")], pa.timestamp("us")
    )

    rows = read(pa.table({"c": moments}), use_deprecated_int96_timestamps=True)

    assert [row["c"] for row in rows] == [
        "1582-10-10T00:00:00.000000",
        "2026-02-02T00:00:00.000000",
    ]


def test_a_duration_is_the_number_that_the_file_stores() -> None:
    assert column(5, None, type=pa.duration("us")) == [5, None]


def test_values_that_spark_refuses_are_read() -> None:
    assert column(time(7, 15, 0, 500), type=pa.time64("ns")) == ["07:15:00.0005"]
    ids = pa.ExtensionArray.from_storage(
        pa.uuid(), pa.array([uuid.UUID(int=5).bytes], pa.binary(16))
    )
    assert read(pa.table({"c": ids})) == [{"c": "00000000-0000-0000-0000-000000000005"}]


def test_numbers_without_a_sign_and_decimals_keep_every_digit() -> None:
    assert column(2**64 - 1, None, type=pa.uint64()) == [2**64 - 1, None]
    prices = [Decimal("1.5000"), Decimal("-0.0001")]
    assert column(*prices, type=pa.decimal128(10, 4)) == prices


def test_a_name_of_two_columns_is_refused() -> None:
    table = pa.Table.from_arrays([pa.array([1]), pa.array([2])], names=["a", "a"])

    with pytest.raises(UnreadableFile, match="column a more than once"):
        read(table)


def test_a_nested_type_that_spark_has_not_is_refused() -> None:
    union = pa.UnionArray.from_dense(
        pa.array([0], pa.int8()), pa.array([0], pa.int32()), [pa.array([7])]
    )

    with pytest.raises(UnreadableFile, match="of type dense_union"):
        read_values(pa.ListArray.from_arrays([0, 1], union))


def test_values_inside_of_others_are_read_like_values_of_a_column() -> None:
    moment = pa.array(["2026-02-02T02:40:00.123456789", None]).cast(pa.timestamp("ns"))
    inner = {"at": moment, "for": pa.array([5, None], pa.duration("s")), "b": pa.array([b"a", b""])}
    structs = pa.StructArray.from_arrays(list(inner.values()), names=list(inner))
    expected = [
        {"at": "2026-02-02T02:40:00.123456789", "for": 5, "b": "YQ=="},
        {"at": None, "for": None, "b": ""},
    ]
    lists = pa.ListArray.from_arrays([0, 2, None, 2], structs)
    keys = pa.map_(pa.bool_(), pa.time64("ns"))

    assert [row["c"] for row in read(pa.table({"c": structs}))] == expected
    assert [row["c"] for row in read(pa.table({"c": lists}))] == [expected, [], None]
    assert column([(True, time(7, 15)), (False, None)], type=keys) == [
        {"true": "07:15:00", "false": None}
    ]
    assert column([1, 2], None, [3, None], type=pa.list_(pa.int32(), 2)) == [
        [1, 2],
        None,
        [3, None],
    ]


def test_values_of_a_dictionary_are_read_like_others() -> None:
    names = pa.array([b"Zo\xc3\xab", b"b", b"b"]).dictionary_encode()
    spans = pa.array([5], pa.duration("s")).dictionary_encode()

    assert [row["s"] for row in read(pa.table({"s": names}), ["s"])] == ["Zoë", "b", "b"]
    assert read(pa.table({"d": spans})) == [{"d": 5}]


def test_rows_of_later_batches_have_values_of_their_own() -> None:
    lists = pa.array([[n, n + 1] if n % 3 else None for n in range(10_005)])

    assert [row["c"] for row in read(pa.table({"c": lists}))] == lists.to_pylist()


def test_bytes_of_a_column_that_is_declared_to_be_text_are_text() -> None:
    values = pa.table({"S": pa.array(["Zoë".encode(), None]), "b": pa.array([b"ab", b""])})

    assert read(values, ["s"]) == [{"S": "Zoë", "b": "YWI="}, {"S": None, "b": ""}]
    assert read(pa.table({"s": pa.array([b"ab", b"\xffb"], pa.binary(2))}), ["s"]) == [
        {"s": "ab"},
        {"s": "/2I=", NOT_TEXT: ["s"]},
    ]


def test_bytes_that_are_no_text_are_told_in_their_row_alone() -> None:
    s, t = pa.array([b"\xff", b"a", None]), pa.array([b"\xfe", b"b", b"\xfd"])

    assert read(pa.table({"S": s, "t": t}), ["s", "t"]) == [
        {"S": "/w==", "t": "/g==", NOT_TEXT: ["S", "t"]},
        {"S": "a", "t": "b"},
        {"S": None, "t": "/Q==", NOT_TEXT: ["t"]},
    ]


def test_nanoseconds_of_a_timestamp_in_96_bits_are_kept() -> None:
    texts = ["2026-02-02T02:40:00.123456789", "2026-02-02T02:40:00.5", None]
    moments = pa.array(texts).cast(pa.timestamp("ns"))

    rows = read(pa.table({"c": moments, "d": moments}), use_deprecated_int96_timestamps=True)

    assert [row["c"] for row in rows] == [
        "2026-02-02T02:40:00.123456789",
        "2026-02-02T02:40:00.500000",
        None,
    ]
    assert [row["d"] for row in rows] == [row["c"] for row in rows]


def test_files_with_timestamps_of_96_bits_are_told_by_their_footers(tmp_path: Path) -> None:
    moments = pa.array(["2026-02-02T02:40:00.5"]).cast(pa.timestamp("ns"))
    nested = pa.array([{"c": 1}], pa.struct([("c", pa.int64())]))
    files = []
    for name, bits in (("old", True), ("new", False)):
        place = tmp_path / f"{name} 50%.parquet"
        table = pa.table({"c": moments, "s": nested})
        pq.write_table(table, place, use_deprecated_int96_timestamps=bits)
        files.append(DroppedFile(f"file:{place}", 0, place.stat().st_size))
    unused = cast(SparkSession, None)

    assert files_with_96_bits(unused, files, {"c", "x"}) == files[:1]
    assert files_with_96_bits(unused, files, {"s", "x"}) == []


def test_nanoseconds_of_a_timestamp_are_kept() -> None:
    texts = [
        "2026-02-02T02:40:00.000000001",
        "2026-02-02T02:40:00.5",
        "1677-09-22T00:00:00.1234567",
    ]
    moments = pa.array(texts).cast(pa.timestamp("ns"))

    assert column(*moments.to_pylist(), None, type=pa.timestamp("ns")) == [
        "2026-02-02T02:40:00.000000001",
        "2026-02-02T02:40:00.500000",
        "1677-09-22T00:00:00.123456700",
        None,
    ]
