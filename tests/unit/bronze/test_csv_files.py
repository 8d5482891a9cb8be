"""What a CSV file's first bytes tell."""

import io
import zipfile
from pathlib import Path

import pytest

from bronze.contract import feed_name, folder_columns
from bronze.feeds import list_feeds
from bronze.files.file_kinds import (
    UnreadableFile,
    check_encoding,
    check_ending,
    check_is_csv,
    encoding_by_mark,
)
from bronze.files.json_files import has_other_records
from lakehouse.config.csv_options import Csv
from lakehouse.config.table import Table


def test_an_archive_is_told_as_what_it_is() -> None:
    packed = io.BytesIO()
    with zipfile.ZipFile(packed, "w") as archive:
        archive.writestr("a.csv", "id,name\n")
    with pytest.raises(UnreadableFile, match="zip archive or an Excel workbook"):
        check_is_csv(packed.getvalue())


@pytest.mark.parametrize("ending", [".lz4", ".snappy"])
def test_a_form_that_only_hadoop_unpacks_is_refused_by_its_ending(ending: str) -> None:
    with pytest.raises(UnreadableFile, match=f"the ending {ending} is not read"):
        check_ending(f"/landing/t/a.csv{ending}")
    with pytest.raises(UnreadableFile, match=f"the ending {ending} is not read"):
        has_other_records(Path(f"/landing/t/a.json{ending}"))
    check_ending("/landing/lz4/a.csv.gz")


@pytest.mark.parametrize(
    ("head", "kind"),
    [
        (b"\xd0\xcf\x11\xe0\xa1\xb1", "old Excel workbook"),
        (b"\x1f\x8b\x08\x00", "gzip"),
        (b"PAR1\x15\x04", "Parquet"),
        (b"  <!DOCTYPE html><html>", "HTML"),
        (b'{"id": 1}\n', "JSON"),
        (b'[{"id": 1}]', "JSON"),
        (b"id,name\x00\x01\x02", "no text"),
    ],
)
def test_other_kinds_are_told_too(head: bytes, kind: str) -> None:
    with pytest.raises(UnreadableFile, match=kind):
        check_is_csv(head)


@pytest.mark.parametrize(
    "head", [b"id,name\n", b"ORC,name\n", b"PAR1,x\n", b'"[a]",b\n', "id,n\n".encode("utf-16"), b""]
)
def test_csv_files_are_taken(head: bytes) -> None:
    check_is_csv(head)


@pytest.mark.parametrize(
    ("head", "encoding"),
    [
        ("id".encode("utf-16"), "UTF-16"),
        ("\ufeffid".encode("utf-16-be"), "UTF-16"),
        ("id,name".encode("utf-16-le"), "UTF-16LE"),
        ("id,name".encode("utf-16-be"), "UTF-16BE"),
        ("id".encode("utf-32"), "UTF-32"),
        ("id".encode("utf-8-sig"), "UTF-8"),
        (b"id", None),
    ],
)
def test_an_encoding_is_told_by_its_mark(head: bytes, encoding: str | None) -> None:
    assert encoding_by_mark(head) == encoding


def test_utf8_is_refused_where_letters_of_one_byte_are_declared() -> None:
    with pytest.raises(UnreadableFile, match="the file is in UTF-8, expected windows-1252"):
        check_encoding("id,Lüdenscheidt".encode(), "windows-1252")
    check_encoding("id,Lüdenscheidt".encode("iso-8859-1"), "ISO-8859-1")
    check_encoding("id,Lüdenscheidt".encode(), "UTF-8")
    check_encoding(b"id,name", "ISO-8859-1")


def test_folders_give_columns_as_hive_writes_them() -> None:
    path = "/a/region=e%2Fu/empty=/none=__HIVE_DEFAULT_PARTITION__/=x/plain/file=1.csv"

    assert folder_columns(path) == {"region": "e/u", "empty": "", "none": None}


def test_a_feed_knows_what_its_table_declares() -> None:
    given = {"format": "rows", "path": "p", "file_format": "csv", "csv": {"header": False}}
    table = Table.model_validate(
        {"table": "t", "keys": ["b"], "columns": {"a": "int", "b": "int"}, "sequence_by": "a"}
        | {"source": given}
    )

    (feed,) = list_feeds([table])

    assert (feed.keys, feed.columns, feed.csv.header) == (("b",), ("a", "b"), False)


def test_a_tab_may_be_written_as_spark_takes_it() -> None:
    assert Csv(sep="\\t") == Csv(sep="\t")


@pytest.mark.parametrize(
    ("given", "expected"),
    [("latin-1", "ISO-8859-1"), ("utf8", "UTF-8"), ("ascii", "US-ASCII"), ("UTF-16LE", "UTF-16LE")],
)
def test_encodings_have_the_names_that_spark_knows(given: str, expected: str) -> None:
    assert Csv(encoding=given).encoding == expected


def test_files_that_are_written_differently_are_no_common_feed() -> None:
    def feed(sep: str) -> str:
        source = {"format": "rows", "path": "p", "file_format": "csv", "csv": {"sep": sep}}
        other = {"format": "rows", "path": "q"}
        table = {"table": "t", "keys": ["a"], "sequence_by": "a", "sources": [source, other]}
        made = Table.model_validate(table)
        return feed_name(made, made.feeds[0])

    assert feed(";") != feed("|")
