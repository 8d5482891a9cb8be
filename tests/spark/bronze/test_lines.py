import gzip
import json
import re
from datetime import time
from decimal import Decimal
from pathlib import Path
from shutil import copy2
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.contract import NOT_TEXT
from bronze.feeds import list_feeds
from bronze.files.file_kinds import UnreadableFile
from bronze.files.lines import read_file_records
from bronze.files.listing import DroppedFile
from lakehouse.config.table import Table


def records(
    spark: SparkSession, file_format: str, *files: Path, columns: dict[str, str] | None = None
) -> list[str]:
    found = read(spark, file_format, *files, columns=columns)
    return [row[0] for row in found.select("_raw").collect()]


def hexadecimal(spark: SparkSession, file: Path) -> list[str]:
    return [row[0] for row in read(spark, "csv", file).select(F.hex("_raw")).collect()]


def read(
    spark: SparkSession, file_format: str, *files: Path, columns: dict[str, str] | None = None
) -> DataFrame:
    source = {"format": "rows", "path": "p", "file_format": file_format}
    table = {"table": "t", "keys": ["id"], "sequence_by": "id", "source": source}
    table["columns"] = columns or {}
    feed = list_feeds([Table.model_validate(table)])[0]
    listed = [DroppedFile(str(file), 0, 9) for file in files]
    return read_file_records(spark, feed, listed).orderBy("_url", "_block", "_row")


def csv(folder: Path, name: str, text: str) -> Path:
    file = folder / name
    file.write_text(text)
    return file


def test_csv_keeps_empty_text_nulls_and_quoted_line_ends_apart(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = csv(tmp_path, "a.csv", 'id,note\n1,""\n2,\n3,"two\nlines, ""quoted"" \\"\n')
    assert [json.loads(text) for text in records(spark, "csv", file)] == [
        {"id": "1", "note": ""},
        {"id": "2", "note": None},
        {"id": "3", "note": 'two\nlines, "quoted" \\'},
    ]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_line_ends_within_csv_values_stay_whatever_the_files_own_are(
    spark: SparkSession, tmp_path: Path, end: str
) -> None:
    file = tmp_path / "a.csv"
    rows = ["id,note", '1,"a\nb"', '2,"a\r\nb\r\n"', '"3\r",x', '4,"\n\r"', '5,""']
    file.write_bytes(end.join([*rows, ""]).encode())
    assert [json.loads(text) for text in records(spark, "csv", file)] == [
        {"id": "1", "note": "a\nb"},
        {"id": "2", "note": "a\r\nb\r\n"},
        {"id": "3\r", "note": "x"},
        {"id": "4", "note": "\n\r"},
        {"id": "5", "note": ""},
    ]


def test_a_csv_row_with_bytes_that_are_no_utf8_keeps_them(
    spark: SparkSession, tmp_path: Path
) -> None:
    """The others of its file come as they are, be it with the mark that Spark puts there."""
    file = tmp_path / "a.csv"
    file.write_bytes("\ufeffid,nöte\n1,é\n2,\ufffd\n".encode() + b'3,"caf\xe9, x"\n4,\n5,"",\xff\n')
    assert [bytes.fromhex(text) for text in hexadecimal(spark, file)] == [
        '{"id":"1","nöte":"é"}'.encode(),
        '{"id":"2","nöte":"\ufffd"}'.encode(),
        '{"id":"3","nöte":"caf?, x"}'.encode().replace(b"?", b"\xe9"),
        '{"id":"4","nöte":null}'.encode(),
        b'5,"",\xff',
    ]


def test_a_csv_file_without_quotes_is_read_in_several_parts(
    spark: SparkSession, tmp_path: Path
) -> None:
    rows = [f"{at},{'x' * 50}" for at in range(1_000)]
    file = csv(tmp_path, "a.csv", "\n".join(["id,note", *rows, ""]))
    parts = "spark.sql.files.maxPartitionBytes"
    usual = spark.conf.get(parts)
    spark.conf.set(parts, "16384")
    try:
        found = read(spark, "csv", file).select("_raw", "_block").collect()
    finally:
        spark.conf.set(parts, usual)
    assert len({row["_block"] for row in found}) > 1
    assert [json.loads(row["_raw"])["id"] for row in found] == [str(at) for at in range(1_000)]


@pytest.mark.parametrize(
    "text",
    [
        "1,a\n\n2,b",
        "1,a\n  \n2,b\n \t\n",
        "1,a\r\n2,b\r\n3,c\r\n",
        "1,a\rb\n2,\n",
        "1,a,b\n2\n,\n3,c\n",
        "id,note\n1, a \n\ufeff2,b\n",
        "1,a\\\n2,\\\n\x1a",
        "1,\x85\u2028b\n2,ä",
    ],
)
def test_a_csv_file_without_quotes_has_the_rows_that_it_has_with_some(
    spark: SparkSession, tmp_path: Path, text: str
) -> None:
    plain = tmp_path / "plain.csv"
    plain.write_bytes(b"id,note\n" + text.encode())
    quoted = tmp_path / "quoted.csv"
    quoted.write_bytes(b'"id",note\n' + text.encode())
    assert records(spark, "csv", plain) == records(spark, "csv", quoted)


def test_csv_files_of_different_headers_go_together(spark: SparkSession, tmp_path: Path) -> None:
    a = csv(tmp_path, "a.csv", "id,x\n1,2\n")
    b = csv(tmp_path, "b.csv", "y.z,id\n3,4\n")
    assert records(spark, "csv", a, b) == ['{"id":"1","x":"2"}', '{"y.z":"3","id":"4"}']


def test_a_csv_row_that_does_not_fit_its_header_is_kept_as_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = csv(tmp_path, "a.csv", "id,x\n1,2,3\n4\n5,6\n")
    assert records(spark, "csv", file) == ["1,2,3", "4", '{"id":"5","x":"6"}']


def test_of_files_that_are_read_at_once_only_the_one_with_an_open_quote_is_broken(
    spark: SparkSession, tmp_path: Path
) -> None:
    a = csv(tmp_path, "a.csv", 'id,x\n1,"a\nb"\n2,c\n')
    b = csv(tmp_path, "b.csv", 'id,x\n1,"a\nb"\n2,"c\n3,d\n')
    assert records(spark, "csv", a, b) == [
        '{"id":"1","x":"a\\nb"}',
        '{"id":"2","x":"c"}',
        '{"id":"1","x":"a\\nb"}',
        '2,"c\n3,d\n',
    ]


def test_a_csv_file_of_nothing_gives_nothing(spark: SparkSession, tmp_path: Path) -> None:
    assert records(spark, "csv", csv(tmp_path, "a.csv", "\n")) == []


def parquet(spark: SparkSession, folder: Path, name: str, *columns: str) -> Path:
    spark.sql("SELECT " + ", ".join(columns)).coalesce(1).write.parquet(str(folder / name))
    (file,) = (folder / name).glob("part-*.parquet")
    return file


def test_parquet_values_are_exact(spark: SparkSession, tmp_path: Path) -> None:
    columns: dict[str, Any] = {
        "12345678901234567890.10": "CAST('12345678901234567890.10' AS decimal(38,2)) AS `a.b`",
        "9223372036854775807": "9223372036854775807 AS big",
        '"2026-01-02T03:04:05.123456Z"': "timestamp'2026-01-02 03:04:05.123456' AS at",
        '"2026-01-02"': "date'2026-01-02' AS day",
        "null": "CAST(NULL AS int) AS nothing",
    }
    (record,) = records(spark, "parquet", parquet(spark, tmp_path, "p", *columns.values()))
    names = ["a.b", "big", "at", "day", "nothing"]
    pairs = [f'"{name}":{text}' for name, text in zip(names, columns, strict=True)]
    assert record == "{" + ",".join(pairs) + "}"


def test_parquet_files_of_different_columns_go_together(
    spark: SparkSession, tmp_path: Path
) -> None:
    a = parquet(spark, tmp_path, "a", "1 AS id", "2 AS x")
    b = parquet(spark, tmp_path, "b", "'3' AS id")
    assert records(spark, "parquet", a, b) == ['{"id":1,"x":2}', '{"id":"3"}']


def csv_records(
    spark: SparkSession, file: Path, columns: tuple[str, ...] = (), **options: Any
) -> list[dict[str, Any] | str]:
    """The records of a CSV file of a table that declares these columns."""
    source = {"format": "snapshot", "mode": "full", "path": "p", "file_format": "csv"}
    table = {
        "table": "t",
        "keys": ["id"],
        "source": source | {"csv": options},
        "columns": dict.fromkeys(columns, "string"),
    }
    feed = list_feeds([Table.model_validate(table)])[0]
    day = file.parent / "p" / "2026-01-31"
    day.mkdir(parents=True, exist_ok=True)
    dropped = DroppedFile(str(copy2(file, day)), 0, 9)
    found = (
        read_file_records(spark, feed, [dropped]).orderBy("_url", "_block", "_row").select("_raw")
    )
    texts = [row[0] for row in found.collect()]
    return [json.loads(text) if text.startswith("{") else text for text in texts]


def test_blanks_around_the_names_of_a_header_do_not_count(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = csv(tmp_path, "a.csv", 'id, name, note \n1, Ada, "x, y"\n2, Bo,\n')
    assert csv_records(spark, file) == [
        {"id": "1", "name": "Ada", "note": "x, y"},
        {"id": "2", "name": "Bo", "note": None},
    ]


def test_a_backslash_before_quotes_is_seen(spark: SparkSession, tmp_path: Path) -> None:
    file = csv(tmp_path, "a.csv", 'id,name\n1,"TV 50\\" black"\n2,"say \\"hi, you\\" now"\n3,x\n')
    assert [r["name"] for r in csv_records(spark, file) if isinstance(r, dict)] == [
        'TV 50" black',
        'say "hi, you" now',
        "x",
    ]


def test_a_row_with_a_quote_inside_of_quotes_is_kept_as_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    text = 'id,name\n1,"say "hi" now"\n2,"TV 50" black"\n3,5" pipe\n4,"say ""hi"" now"\n'
    assert csv_records(spark, csv(tmp_path, "a.csv", text)) == [
        '1,"say "hi" now"',
        '2,"TV 50" black"',
        {"id": "3", "name": '5" pipe'},
        {"id": "4", "name": 'say "hi" now'},
    ]
    text = 'id,name\n1,"""Hi"" she said"\n2,"a, ""b"""\n3,"x" \n4,"two\n""lines"""\n'
    found = csv_records(spark, csv(tmp_path, "b.csv", text))
    assert [row["name"] for row in found if isinstance(row, dict)] == [
        '"Hi" she said', 'a, "b"', "x", 'two\n"lines"',
    ]  # fmt: skip


@pytest.mark.parametrize("encoding", ["utf-16", "utf-16-le", "utf-8-sig"])
@pytest.mark.parametrize("sep", ["\t", ";"])
def test_encoding_and_separator_are_found_where_the_file_proves_them(
    spark: SparkSession, tmp_path: Path, encoding: str, sep: str
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(f"id{sep}name\r\n1{sep}Zoë\r\n2{sep}\r\n".encode(encoding))
    assert csv_records(spark, file, ("id", "name")) == [
        {"id": "1", "name": "Zoë"},
        {"id": "2", "name": None},
    ]


def test_options_have_the_names_of_sparks_own(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes("# made by x\n1|'Zoë|a'|\\N\n2||b\n".encode("latin-1"))
    options = {"sep": "|", "header": False, "quote": "'", "comment": "#", "nullValue": "\\N"}
    columns = ("id", "name", "note")
    assert csv_records(spark, file, columns, encoding="ISO-8859-1", **options) == [
        {"id": "1", "name": "Zoë|a", "note": None},
        {"id": "2", "name": None, "note": "b"},
    ]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # A quote that is not closed, in the last column and in two rows.
        ('id,name\n1,a\n2,"b\n3,c\n', [{"id": "1", "name": "a"}, '2,"b\n3,c\n']),
        ('id,name\n1,"b\n2,"c\n3,d\n', ['1,"b\n2,"c', {"id": "3", "name": "d"}]),
        ('id,name\n1,"""a"" b"\n2,"c\nd"\n', [("1", '"a" b'), ("2", "c\nd")]),
        ('id,name\n1,5" pipe\n2,b\n', [("1", '5" pipe'), ("2", "b")]),
        # Quotes that neither open nor close a value say nothing of one that is.
        ('id,name\n1,5" pipe\n2,"c\nd"\n', [("1", '5" pipe'), ("2", "c\nd")]),
        ('id,name\n1,TV 50"\n2,"c\nd"\n3,e', [("1", 'TV 50"'), ("2", "c\nd"), ("3", "e")]),
        ('id,name\n1,50"\n2,"c ""d""\n3,""e""\n \x1a', [("1", '50"'), '2,"c "d"\n3,"e"\n \x1a']),
        ('id,name\n"""1""",a\n2,"b\n3,"c"\n', [('"1"', "a"), '2,"b\n3,"c"']),
        (
            'id,name\n1,"C:\\\\"\n2,"a \\"b\\" c"\n3,"c\nd"\n',
            [("1", "C:\\"), ("2", 'a "b" c'), ("3", "c\nd")],
        ),
        ('id,name\n1,"a \\"b"\n2,"c\n3,d\n', [("1", 'a "b'), '2,"c\n3,d\n']),
        ('id,name\r1,"c\nd"\r2,"e\r3,f\r', [("1", "c\nd"), '2,"e\r3,f\r']),
        # A row that does not fit its header stays whole.
        ('id,name\n1,"a"b,c,d\n2,e\n', ['1,"a"b,c,d', ("2", "e")]),
        # Files one behind the other.
        ("\ufeffid,name\n1,a\n\ufeffid,name\n2,b\n", [("1", "a"), "id,name", ("2", "b")]),
        ("\ufeffid,name\n1,a\n\ufeff2,b\n", [("1", "a"), ("2", "b")]),
        (",id\n0,1\n,id\n", [{"_c0": "0", "id": "1"}, ",id"]),
        # Line ends that were made twice.
        ("id,name\r\r\n1,a\r\r\n2,\r\r\n", [("1", "a"), {"id": "2", "name": None}]),
        # Lines of blanks, and DOS's end of a file.
        ("id,name\n\n1,a\n   \n2,b\n\x1a", [("1", "a"), ("2", "b")]),
    ],
)
def test_of_a_csv_file_every_row_is_taken_and_no_other_text(
    spark: SparkSession, tmp_path: Path, text: str, expected: list[Any]
) -> None:
    rows = [
        dict(zip(("id", "name"), row, strict=True)) if isinstance(row, tuple) else row
        for row in expected
    ]
    assert csv_records(spark, csv(tmp_path, "a.csv", text)) == rows


def test_names_in_quotes_may_have_blanks_around_the_quotes(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = csv(tmp_path, "a.csv", '"ID" ; "Name" ; "the ""note"""\n1;a;b\n')
    assert csv_records(spark, file, ("id", "name")) == [{"ID": "1", "Name": "a", 'the "note"': "b"}]


def test_a_part_of_a_parquet_file_is_told_as_that(spark: SparkSession, tmp_path: Path) -> None:
    part = tmp_path / "a.parquet"
    pq.write_table(pa.table({"id": [1]}), part)
    part.write_bytes(part.read_bytes()[:-20])
    with pytest.raises(UnreadableFile, match="a part of one"):
        records(spark, "parquet", part)


def test_a_header_may_stand_below_many_comments(spark: SparkSession, tmp_path: Path) -> None:
    file = csv(tmp_path, "a.csv", "# x\n" * 100 + "id,name\n1,a\n")
    assert csv_records(spark, file, comment="#") == [{"id": "1", "name": "a"}]
    file = csv(tmp_path, "b.csv", "# x\n" * 1_000 + "id,name\n1,a\n")
    with pytest.raises(UnreadableFile, match="no header"):
        csv_records(spark, file, comment="#")


def test_columns_of_folders_are_no_fields_of_files_without_a_header(
    spark: SparkSession, tmp_path: Path
) -> None:
    folder = tmp_path / "Region=eu"
    folder.mkdir()
    file = csv(folder, "a.csv", "1;a\n2;b\n")
    assert csv_records(spark, file, ("region", "id", "name"), header=False) == [
        {"id": "1", "name": "a"},
        {"id": "2", "name": "b"},
    ]


@pytest.mark.parametrize(
    ("text", "columns", "message"),
    [
        ("id,x,ID\n1,2,3\n", (), "id more than once"),
        ("nr,name\n1,a\n", ("name",), "expected the declared id too"),
        ("id,nmae\n1,a\n", ("name",), "expected the declared name too"),
        ('id,a\n1,"x\\"y"\n2,"x""y"\n', (), "source.csv.escape"),
        ("PK\x03\x04\x00\x01", (), "zip archive"),
        ("id,na\udceb\n1,2\n", (), "not in UTF-8"),
    ],
)
def test_a_file_that_is_not_what_was_declared_cannot_be_read(
    spark: SparkSession, tmp_path: Path, text: str, columns: tuple[str, ...], message: str
) -> None:
    file = tmp_path / "a.csv"
    file.write_bytes(text.encode("utf-8", "surrogateescape"))
    with pytest.raises(UnreadableFile, match=re.escape(message)):
        csv_records(spark, file, columns)


@pytest.mark.parametrize("name", ["a.json", "a.json.gz"])
def test_the_elements_of_an_array_are_records(
    spark: SparkSession, tmp_path: Path, name: str
) -> None:
    text = b'\n[\n  {"id": 1.10, "a": [1]},\n  {"id":\n 2}\n]\n'
    file = tmp_path / name
    file.write_bytes(gzip.compress(text) if name.endswith("gz") else text)
    (tmp_path / "b.json").write_text('{"id":3}\n')
    assert records(spark, "json", file, tmp_path / "b.json") == [
        '{"id": 1.10, "a": [1]}',
        '{"id":\n 2}',
        '{"id":3}',
    ]


def test_objects_that_share_or_span_lines_are_records(spark: SparkSession, tmp_path: Path) -> None:
    a, b = tmp_path / "a.json", tmp_path / "b.json"
    a.write_text('{\n "id": 1,\n "a": [\n{"id": 7}\n]}\n')
    b.write_text('{"id": 2}{"id": 3}')
    assert records(spark, "json", a, b) == [
        '{\n "id": 1,\n "a": [\n{"id": 7}\n]}',
        '{"id": 2}',
        '{"id": 3}',
    ]


def test_of_a_broken_array_nothing_is_taken_by_halves(spark: SparkSession, tmp_path: Path) -> None:
    file = tmp_path / "a.json"
    file.write_text('[{"id":1},\n{"id":2')
    assert records(spark, "json", file) == ['[{"id":1},\n{"id":2']


def test_parquet_types_that_spark_cannot_read_are_read(spark: SparkSession, tmp_path: Path) -> None:
    at = pa.array([1767323045123456789, None], pa.timestamp("ns"))
    utc = pa.array([1767323045123456789, -1], pa.timestamp("ns", "UTC"))
    columns = {
        "id": pa.array([2**64 - 1, 2], pa.uint64()),
        "at": at,
        "utc": utc,
        "opens": pa.array([time(8, 30), None], pa.time32("ms")),
        "shuts": pa.array([time(8, 30, 0, 500_000), None], pa.time64("ns")),
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "raw": pa.array([b"\xff\x00", b""]),
        "ratio": pa.array([float("nan"), 0.5]),
    }
    pq.write_table(pa.table(columns), tmp_path / "a.parquet")
    first, second = records(spark, "parquet", tmp_path / "a.parquet")
    assert first == (
        '{"id":18446744073709551615,"at":"2026-01-02T03:04:05.123456789",'
        '"utc":"2026-01-02T03:04:05.123456789Z","opens":"08:30:00","shuts":"08:30:00.5",'
        '"price":1.50,"raw":"/wA=","ratio":"NaN"}'
    )
    assert json.loads(second)["utc"] == "1969-12-31T23:59:59.999999999Z"


def test_bytes_of_a_parquet_column_are_text_where_the_table_declares_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    bytes_ = ["CAST('Zoë' AS binary) AS S", "X'FF' AS b", "CAST(NULL AS binary) AS n"]
    file = parquet(spark, tmp_path, "a", "1 AS id", *bytes_)
    columns = {"s": "string", "b": "binary", "n": "varchar(9)"}
    assert records(spark, "parquet", file, columns=columns) == [
        '{"id":1,"S":"Zoë","b":"/w==","n":null}'
    ]


def test_bytes_that_are_no_text_are_told_in_their_row_alone(
    spark: SparkSession, tmp_path: Path
) -> None:
    s, t = pa.array([b"\xff" * 60, b"a", None]), pa.array([b"\xfe", b"b", b"\xfd"])
    pq.write_table(pa.table({"S": s, "t": t}), tmp_path / "a")
    columns = {"s": "string", "t": "string"}
    assert [json.loads(r) for r in records(spark, "parquet", tmp_path / "a", columns=columns)] == [
        {"S": "/" * 80, "t": "/g==", NOT_TEXT: ["S", "t"]},
        {"S": "a", "t": "b"},
        {"S": None, "t": "/Q==", NOT_TEXT: ["t"]},
    ]


def test_parquet_times_of_day_are_text(spark: SparkSession, tmp_path: Path) -> None:
    opens = pa.array([time(8, 30), None], pa.time64("us"))
    pq.write_table(pa.table({"id": pa.array([1, 2], pa.uint32()), "opens": opens}), tmp_path / "a")
    assert records(spark, "parquet", tmp_path / "a") == [
        '{"id":1,"opens":"08:30:00"}',
        '{"id":2,"opens":null}',
    ]


@pytest.mark.parametrize("kind", ["json", "csv", "parquet"])
def test_rows_count_from_the_beginning_of_their_own_file(
    spark: SparkSession, tmp_path: Path, kind: str
) -> None:
    """A task reads several files: one number must not run on through all."""
    files = [tmp_path / f"{name}.{kind}" for name in "abc"]
    for file in files:
        if kind == "json":
            file.write_text('{"id": 1}\n\n{"id": 2}\n')
        elif kind == "csv":
            file.write_text('id,note\n1,"two\nlines"\n2,x\n')
        else:
            pq.write_table(pa.table({"id": [1, 2]}), file)
    found = read(spark, kind, *files).select("_url", "_row").collect()
    second = 2 if kind == "json" else 1
    named = sorted((Path(row["_url"]).name, row["_row"]) for row in found)
    assert named == [(file.name, at) for file in files for at in (0, second)]


def test_of_several_large_files_each_part_counts_from_its_own_beginning(
    spark: SparkSession, tmp_path: Path
) -> None:
    files = [tmp_path / f"{name}.json" for name in "abc"]
    for file in files:
        file.write_text("".join(f'{{"id": "{at:06}"}}\n' for at in range(2_000)))
    sizes = {"spark.sql.files.maxPartitionBytes": "13000", "spark.sql.files.openCostInBytes": "0"}
    usual = {name: spark.conf.get(name) for name in sizes}
    try:
        for name, size in sizes.items():
            spark.conf.set(name, size)
        found = read(spark, "json", *files).collect()
    finally:
        for name, size in usual.items():
            spark.conf.set(name, str(size))
    ids = [int(json.loads(row["_raw"])["id"]) for row in found]
    assert ids == [*range(2_000)] * 3
    parts: dict[tuple[str, int], list[int]] = {}
    for row in found:
        parts.setdefault((row["_url"], row["_block"]), []).append(row["_row"])
    assert len(parts) > len(files)
    assert all(rows == [*range(len(rows))] for rows in parts.values())
