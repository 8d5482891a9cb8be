"""JSON files whose records are not their lines."""

import bz2
import gzip
import json
import lzma
import tarfile
from pathlib import Path

import pyarrow as pa
import pytest

from bronze.files.file_kinds import UnreadableFile
from bronze.files.json_files import has_other_records, read_records, split_files

LONG = b'{"v":"' + b"x" * 5_000 + b'"}'
TWO = [{"id": 1, "tags": [{"id": 7}]}, {"id": 2}]
PRETTY = "\n".join(json.dumps(one, indent=2) for one in TWO).encode()


def dropped(folder: Path, content: bytes, name: str = "a.json") -> Path:
    (folder / name).write_bytes(content)
    return folder / name


def split(content: bytes) -> list[bytes]:
    names = ["value", "_url"]
    batch = pa.RecordBatch.from_arrays([pa.array([content]), pa.array(["file:/a"])], names=names)
    return [raw for part in split_files(iter([batch])) for raw in part.column(0).to_pylist()]


@pytest.mark.parametrize(
    ("content", "expected"),
    [
        (b'{"id":1}\n{"id":2}\n', False),
        (b'\xef\xbb\xbf\r\n {"id":1}\r\n{"id":2}', False),
        (LONG + b'\n{"id":2}', False),
        (b'{"id":1,\n{"id":2}\n{"id":3}\n', False),
        (b'{"id":1},\n{"id":2}', False),
        (b"", False),
        (b'\xef\xbb\xbf\n[{"id":1}]', True),
        (PRETTY, True),
        (json.dumps(TWO[0], indent=2).encode(), True),
        (b'{"id":1}', False),
        (b'{"id":', False),
        (b'{"id":1}{"id":2}', True),
        (LONG + LONG, True),
        (b'{"id":1} {"id":2}', True),
        (b'{"id":1}\t{"op":"c"}\n{"id":1}\tnull\n', False),
    ],
)
def test_the_beginning_of_a_file_shows_whether_its_lines_are_records(
    tmp_path: Path, content: bytes, expected: bool
) -> None:
    assert has_other_records(dropped(tmp_path, content)) is expected
    packed = dropped(tmp_path, gzip.compress(content), "a.json.gz")
    assert has_other_records(packed) is expected
    packed = dropped(tmp_path, bz2.compress(content), "a.json.bz2")
    assert has_other_records(packed) is expected


def test_objects_that_span_lines_are_records_as_a_whole() -> None:
    assert [json.loads(raw) for raw in split(PRETTY)] == TWO


def test_objects_that_share_a_line_are_records_byte_by_byte() -> None:
    content = b'\xef\xbb\xbf{"id":1.10} {"n":"\xc3\xbc"}{"n":"\xff"}'
    assert split(content) == [b'{"id":1.10}', b'{"n":"\xc3\xbc"}', b'{"n":"\xff"}']


def test_what_follows_the_last_whole_object_is_one_record() -> None:
    rest = b'{"id":2,\n"tags":[\n{"id":7}\n'
    assert split(b'{\n"id":1}\n' + rest) == [b'{\n"id":1}', rest]


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"PK\x03\x04\x14\x00\x00\x00", "zip archive"),
        (gzip.compress(b"{}", mtime=0), "ending .gz"),
        (b"PAR1\x15\x04\x15\x00", "file_format: parquet"),
        ('\ufeff{"id": 1}'.encode("utf-16-le"), "in UTF-16, expected JSON in UTF-8"),
        ('{"id": 1}'.encode("utf-16-be"), "in UTF-16BE, expected JSON in UTF-8"),
        (lzma.compress(b"{}"), "compressed with xz"),
        (b"\x04\x22\x4d\x18\x40\x40\xc0", "compressed with LZ4"),
        (b"\xff\x06\x00\x00sNaPpY", "compressed with Snappy"),
        (tarfile.TarInfo("a.json").tobuf(), "tar archive, expected JSON: unpack it"),
    ],
    ids=["zip", "gzip", "parquet", "utf-16", "utf-16-be", "xz", "lz4", "snappy", "tar"],
)
def test_a_file_of_another_kind_is_told_by_name(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(UnreadableFile, match=said):
        has_other_records(dropped(tmp_path, content))


def test_a_file_that_cannot_be_opened_here_has_lines(tmp_path: Path) -> None:
    assert not has_other_records(tmp_path / "none.json")
    assert not has_other_records(dropped(tmp_path, b"BZh91AY&SY\x00", "a.json.bz2"))
    assert not has_other_records(dropped(tmp_path, gzip.compress(b"[1]")[:9], "a.json.gz"))


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (b"\x89PNG\r\n\x1a\n\x00\x00\x00\rIHDR", "a picture"),
        (b"\x7fELF\x02\x01\x01\x00\xff\xfe\x80\x00\x00\n\n", "bytes that no text has"),
    ],
)
def test_a_file_that_is_no_text_is_refused_whole(tmp_path: Path, content: bytes, said: str) -> None:
    with pytest.raises(UnreadableFile, match=said):
        read_records(Path(dropped(tmp_path, content)))


def test_records_are_told_with_their_lines(tmp_path: Path) -> None:
    file = dropped(tmp_path, b'\xef\xbb\xbf{"a": 1}\n\n{"a": 2}\n')
    assert read_records(Path(file)) == [(0, b'{"a": 1}'), (2, b'{"a": 2}')]
