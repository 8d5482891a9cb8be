import json
from datetime import datetime, timezone
from pathlib import Path
from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.feeds import feeds
from bronze.lines import DroppedFile, lines
from lakehouse.table import Table


def records(spark: SparkSession, file_format: str, *files: Path) -> list[str]:
    return [row[0] for row in read(spark, file_format, *files).select("_raw").collect()]


def hexadecimal(spark: SparkSession, file: Path) -> list[str]:
    return [row[0] for row in read(spark, "csv", file).select(F.hex("_raw")).collect()]


def read(spark: SparkSession, file_format: str, *files: Path) -> DataFrame:
    source = {"format": "rows", "path": "p", "file_format": file_format}
    table = {"table": "t", "keys": ["id"], "sequence_by": "id", "source": source}
    feed = feeds([Table.model_validate(table)])[0]
    now = datetime.now(timezone.utc)
    listed = [DroppedFile(str(file), now, 9, "") for file in files]
    return lines(spark, feed, listed).orderBy("_url", "_block", "_row")


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


def test_csv_files_of_different_headers_go_together(spark: SparkSession, tmp_path: Path) -> None:
    a = csv(tmp_path, "a.csv", "id,x\n1,2\n")
    b = csv(tmp_path, "b.csv", "y.z,id\n3,4\n")
    assert records(spark, "csv", a, b) == ['{"id":"1","x":"2"}', '{"y.z":"3","id":"4"}']


def test_a_csv_row_that_does_not_fit_its_header_is_kept_as_text(
    spark: SparkSession, tmp_path: Path
) -> None:
    file = csv(tmp_path, "a.csv", "id,x\n1,2,3\n4\n5,6\n")
    assert records(spark, "csv", file) == ["1,2,3", "4", '{"id":"5","x":"6"}']


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
