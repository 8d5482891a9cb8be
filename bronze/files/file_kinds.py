"""Detects files of another kind than the source's `file_format`, by their first bytes."""

from codecs import getincrementaldecoder
from contextlib import suppress

from lakehouse.errors import LakehouseError

_ENCODINGS = (
    (b"\xef\xbb\xbf", "UTF-8"),
    (b"\xff\xfe\x00\x00", "UTF-32"),
    (b"\x00\x00\xfe\xff", "UTF-32"),
    (b"\xff\xfe", "UTF-16"),
    (b"\xfe\xff", "UTF-16"),
)
_KINDS = (
    (b"PK\x03\x04", "a zip archive or an Excel workbook (.xlsx)", "unpack it, or export it as {}"),
    (b"PK\x05\x06", "an empty zip archive", "remove it"),
    (b"\xd0\xcf\x11\xe0", "an old Excel workbook (.xls)", "export it as {}"),
    (b"\x1f\x8b", "compressed with gzip", "give its name the ending .gz"),
    (b"BZh", "compressed with bzip2", "give its name the ending .bz2"),
    (b"\x28\xb5\x2f\xfd", "compressed with zstd", "give its name the ending .zst"),
    (b"\xfd7zXZ\x00", "compressed with xz", "unpack it, or compress it with gzip"),
    (b"\x04\x22\x4d\x18", "compressed with LZ4", "unpack it, or compress it with gzip"),
    (b"\xff\x06\x00\x00sNaPpY", "compressed with Snappy", "unpack it, or compress it with gzip"),
    (b"7z\xbc\xaf", "a 7-Zip archive", "unpack it"),
    (b"Rar!\x1a", "a RAR archive", "unpack it"),
    (b"PAR1", "a Parquet file", "say file_format: parquet"),
    (b"Obj\x01", "an Avro file", "export it as {} or Parquet"),
    (b"ORC", "an ORC file", "export it as {} or Parquet"),
    (b"\x89PNG", "a picture (PNG)", "remove it"),
    (b"\xff\xd8\xff", "a picture (JPEG)", "remove it"),
    (b"GIF8", "a picture (GIF)", "remove it"),
    (b"SQLite format 3\x00", "an SQLite database", "export it as {}"),
    (b"%PDF", "a PDF", "export it as {}"),
)
_OF_ONE_BYTE = ("ISO-8859", "WINDOWS-125", "CP125")
_OF_HADOOP = (".lz4", ".snappy")
_TAR, _PLACE_IN_TAR = b"ustar", 257
_SPACE = b" \t\r\n"
_MARKUP = (b"<!doctype", b"<html", b"<?xml")


class UnreadableFile(LakehouseError):
    """A dropped file cannot be read in its format; the message says why and what to do."""


def encoding_by_mark(head: bytes) -> str | None:
    """The encoding by the byte order mark at a file's beginning; None without one.

    UTF-16 without a mark is detected by zeros in every second byte.
    """
    for mark, encoding in _ENCODINGS:
        if head.startswith(mark):
            return encoding
    if len(head) >= 4 and set(head[1:20:2]) == {0} and 0 not in head[0:20:2]:
        return "UTF-16LE"
    if len(head) >= 4 and set(head[0:20:2]) == {0} and 0 not in head[1:20:2]:
        return "UTF-16BE"
    return None


def check_ending(path: str) -> None:
    """Refuses `.lz4` and `.snappy` files, of which Spark reads only those that Hadoop wrote.

    Files that other programs wrote crash Java.

    Raises:
        UnreadableFile: the name has one of these endings.
    """
    if path.endswith(_OF_HADOOP):
        problem = f"the ending {path[path.rindex('.') :]} is not read"
        raise UnreadableFile(f"{problem}: unpack the file, or compress it with gzip")


def check_is_json(head: bytes) -> None:
    """Refuses a file whose first bytes are not those of JSON in UTF-8.

    Raises:
        UnreadableFile: the file is of another kind, which the message names.
    """
    _check_kind(head, "JSON")
    broken = "\ufffd" in head[:-4].decode("utf-8", "replace")
    encoding = encoding_by_mark(head) or "UTF-8"
    if encoding != "UTF-8":
        raise UnreadableFile(f"the file is in {encoding}, expected JSON in UTF-8: convert it")
    if broken and b"\x00" in head and head.lstrip(_SPACE)[:1] not in (b"{", b"["):
        raise UnreadableFile("the file holds bytes that no text has, expected JSON: remove it")


def check_is_csv(head: bytes) -> None:
    """Refuses a file whose first bytes are not those of CSV.

    Raises:
        UnreadableFile: the file is of another kind, which the message names.
    """
    _check_kind(head, "CSV")
    text = head.lstrip(_SPACE).lower()
    if text.startswith(_MARKUP):
        raise UnreadableFile("the file is HTML or XML, expected CSV: export it as CSV")
    if text[:1] == b"{" or text[:2] in (b"[{", b"[\n", b"[\r"):
        raise UnreadableFile("the file is JSON, expected CSV: say file_format: json")
    if b"\x00" in head and encoding_by_mark(head) is None:
        raise UnreadableFile("the file holds bytes that no text has, expected CSV")


def check_encoding(head: bytes, encoding: str) -> None:
    """Refuses UTF-8 where an encoding of one byte a letter is declared, which reads any bytes.

    Raises:
        UnreadableFile: letters beyond ASCII are those of UTF-8.
    """
    if head.isascii() or not encoding.upper().startswith(_OF_ONE_BYTE):
        return
    with suppress(UnicodeDecodeError):
        getincrementaldecoder("utf-8")().decode(head)
        action = "write it so, or leave out source.csv.encoding"
        raise UnreadableFile(f"the file is in UTF-8, expected {encoding}: {action}")


def _check_kind(head: bytes, expected: str) -> None:
    if head[_PLACE_IN_TAR:].startswith(_TAR) and not _is_text(head[:_PLACE_IN_TAR]):
        raise UnreadableFile(f"the file is a tar archive, expected {expected}: unpack it")
    for mark, kind, action in _KINDS:
        if head.startswith(mark) and not _is_text(head):
            problem = f"the file is {kind}, expected {expected}: {action.format(expected)}"
            raise UnreadableFile(problem)


def _is_text(head: bytes) -> bool:
    """Whether a file that begins like a binary format is text: `ORC,name` may be a header."""
    return head.isascii() and all(byte >= 0x20 or byte in _SPACE for byte in head)
