"""How a CSV file is written: its options, and the names in its header.

Options that the source's `csv` does not give are detected in the file: the encoding by its byte
order mark, the separator by the table's declared columns, backslashes before quotes by quotes that
would be malformed otherwise, blanks behind separators by the header.
"""

import re
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import NamedTuple

from pyspark.sql import Column, DataFrame, SparkSession
from pyspark.sql import functions as F

from bronze.feeds import Feed
from bronze.files.file_kinds import (
    UnreadableFile,
    check_encoding,
    check_ending,
    check_is_csv,
    encoding_by_mark,
)
from lakehouse.config.csv_options import (
    SEPARATORS,
    clean_name,
    has_blanks,
    split_cells,
    unnamed_column,
)

BYTES = "ISO-8859-1"
"""The encoding with one character for each byte: it keeps bytes that are not UTF-8."""

BLANKS = " \t\r\n\f\x1a"
"""Characters that are ignored at the end of a file; the last one is DOS's end mark."""

_MOST_LINES, _MOST_BYTES = 200, 262_144
_UTF_8 = ("utf-8", "utf8")
_WIDE = ("UTF-16", "UTF-16LE", "UTF-16BE", "UTF-32")
# An empty field is null and "" is empty text: Spark distinguishes them only by a mark for null.
_NULL = "\x00\x00"
# \" inside of a value: behind the closing quote of a value no text follows.
_BACKSLASHED = r'\\" *[^,;|\t\r\n" ]'
_DOUBLED = r'[^,;|\t\r\n"\\]""[^,;|\t\r\n"]'
_BARE = r'(?:^|[,;|\t])"[^"]*[^",;|\t\\]" *[^",;|\t\r\n ]'
# A quoted value whose first character is a quote. Values begin where lines do, or behind the
# separator; a tab counts as one, as blanks may do, and a carriage return as the end of a line.
_QUOTE_FIRST = r'(?:^|[{}\t\r]) *"(?:""|\\")'
# An odd number of quotes at the beginning or the end of a value: one of them opens or closes it.
_EDGE = r'(?:^|[{0}\r]) *"(?:"")*(?!")|(?<!")"(?:"")*(?= *(?:[{1}\r]|$))'
# A value that the end of its line does not close, where pairs of quotes and escapes are taken out.
_PAIRS, _OPEN = r'\\[\\"]|""', r'(?:^|[{}\r]) *"[^"\r]*(?:\r|$)'
_LONGEST_END = 1_024
_NO_QUOTES = str.maketrans("", "", '"\\')


class CsvFile(NamedTuple):
    """How Spark is to read a CSV file.

    Attributes:
        names: the columns in order; none in a file without any text.
        options: options of Spark's reader.
        bytewise: whether some bytes are not UTF-8; Spark then reads one character for each byte.
        bare_quotes: whether quotes inside of quoted values are not escaped; Spark then keeps the
            quotes around such a value, which shows that it is broken.
        odd_quotes: whether some quote that opens a value has no closing quote.
        end: the end of the file's last line, without quotes and backslashes: a value that is not
            closed would end with it. Empty if a quote closes the line, and in a file whose quoted
            values all end on their lines.
        returns: whether a carriage return at the end of a row is a part of the line's end.
    """

    names: tuple[str, ...]
    options: tuple[tuple[str, str], ...]
    bytewise: bool = False
    bare_quotes: bool = False
    odd_quotes: bool = False
    end: str = ""
    returns: bool = False


class _LineCounts(NamedTuple):
    """Counts over the lines of a file.

    Lines that are not UTF-8 (`broken`); lines with quotes inside of values: by backslash, doubled,
    bare; lines with a value that begins with a quote, with any quotes, with a value that continues
    on the next line (`opened`). Quotes that open or close values (`edges`), read without and with
    escapes by backslash. `last` is the end of the last line that is not blank.
    """

    broken: int = 0
    backslashed: int = 0
    doubled: int = 0
    bare: int = 0
    quote_first: int = 0
    quoted: int = 0
    opened: int = 0
    edges: int = 0
    edges_by_backslash: int = 0
    last: bytes = b""

    def has_bare_quotes(self) -> bool:
        """Whether no value may begin with a quote."""
        return self.bare > 0 or (self.quoted > 0 and not self.quote_first)

    def has_odd_quotes(self, escape: str) -> bool:
        """Whether some quote that opens or closes a value has no counterpart."""
        return (
            self.opened > 0 and (self.edges_by_backslash if escape == "\\" else self.edges) % 2 == 1
        )

    def find_open_end(self, escape: str, encoding: str) -> str:
        """The value of `CsvFile.end`."""
        if not self.opened:
            return ""
        line = self.last.decode(encoding, "ignore").rstrip(BLANKS).rpartition("\r")[2]
        plain = re.sub(r"\\.", "", line) if escape == "\\" else line
        closed = (len(plain) - len(plain.rstrip('"'))) % 2 == 1
        return "" if closed else line.translate(_NO_QUOTES)


def inspect_csv(spark: SparkSession, feed: Feed, path: str, others: Sequence[str] = ()) -> CsvFile:
    """Detects how a CSV file is written; `path` is a path pattern of Spark.

    `others` are columns in the names of the file's folders.

    Raises:
        UnreadableFile: the file is not CSV, or has other columns than the table.
    """
    check_ending(path)
    text = spark.read.text(path, lineSep="\n")
    first = text.select(F.substring(F.col("value").cast("binary"), 1, _MOST_BYTES))
    lines = [bytes(row[0]) for row in first.take(_MOST_LINES)]
    head = b"\n".join(lines)
    check_is_csv(head)
    encoding = feed.csv.given_options().get("encoding") or encoding_by_mark(head) or "UTF-8"
    check_encoding(head, encoding)
    line = _find_header(lines, head, encoding, feed.csv.comment)
    header = line.rstrip("\r").split("\r")[0]
    if not header.strip():
        if len(lines) == _MOST_LINES:
            raise UnreadableFile(f"the first {_MOST_LINES} lines have no header: remove them")
        return CsvFile((), ())
    counts = {len(feed.columns), len(_columns_in_file(feed, others))}
    sep = feed.csv.sep or _choose_separator(header, feed, counts)
    cells = split_cells(header, sep, feed.csv.quote)
    shown = _LineCounts() if encoding in _WIDE else _examine_lines(text, feed.csv.escape, sep)
    detected = {
        "sep": sep,
        "escape": "\\" if shown.backslashed else feed.csv.quote,
        "lineSep": _line_end(line),
        "nullValue": _NULL,
        "ignoreLeadingWhiteSpace": str(has_blanks(cells)).lower(),
        "encoding": encoding,
    }
    file = CsvFile(tuple(_read_names(cells, feed, others)), (), returns=line.endswith("\r\r"))
    return _with_options(file, feed, shown, detected)


def _with_options(
    file: CsvFile, feed: Feed, shown: _LineCounts, detected: Mapping[str, str]
) -> CsvFile:
    """The file with Spark's options, and with the flags for its bytes and quotes."""
    given, encoding = feed.csv.given_options(), detected["encoding"]
    bytewise = shown.broken > 0 and "encoding" not in given
    options = {**detected, **given, "encoding": BYTES if bytewise else encoding}
    is_plain = encoding not in _WIDE and feed.csv.quote == '"' and not shown.quoted
    if is_plain and options["lineSep"] == "\n":
        options["multiLine"] = "false"  # every line is a row: several tasks read the file
    file = file._replace(options=tuple(options.items()), bytewise=bytewise)
    if feed.csv.quote != '"' or "unescapedQuoteHandling" in given:
        return file
    return file._replace(
        bare_quotes=shown.has_bare_quotes(),
        odd_quotes=shown.has_odd_quotes(options["escape"]),
        end=shown.find_open_end(options["escape"], options["encoding"]),
    )


def _find_header(lines: Sequence[bytes], head: bytes, encoding: str, comment: str | None) -> str:
    """The first line that is neither blank nor a comment."""
    try:
        if encoding.lower() in _UTF_8:
            rest = [line.decode("utf-8", "replace") for line in lines[1:]]
            texts = [*(line.decode() for line in lines[:1]), *rest]
        else:
            texts = head.decode(encoding, "ignore").split("\n")
    except UnicodeError:
        raise UnreadableFile(
            "the header is not in UTF-8: say source.csv.encoding, or write the file in UTF-8"
        ) from None
    plain = (text.removeprefix("\ufeff") for text in texts)
    kept = (text for text in plain if text.strip() and not (comment and text.startswith(comment)))
    return next(kept, "")


def _line_end(header: str) -> str:
    r"""How lines end; without the option Spark also ends lines at line feeds within values.

    Spark has no line ends of three characters: of `\r\r\n`, which some programs on Windows write,
    the first one stays at the end of each row.
    """
    if "\r" in header.rstrip("\r"):
        return "\r"
    return "\r\n" if header.endswith("\r") else "\n"


def _choose_separator(header: str, feed: Feed, counts: Collection[int]) -> str:
    """The separator with the most declared columns in the header; of equal ones the first.

    Without a header: one with a number of fields that is in `counts`.
    """
    declared = {name.lower() for name in (*feed.keys, *feed.columns)}

    def fitting(sep: str) -> int:
        cells = split_cells(header, sep, feed.csv.quote)
        if not feed.csv.header:
            return int(len(cells) in counts)
        return len({clean_name(cell, feed.csv.quote).lower() for cell in cells} & declared)

    return max(SEPARATORS, key=fitting)


def _examine_lines(text: DataFrame, escape: str | None, sep: str) -> _LineCounts:
    """Counts over the lines of a file; quotes are examined only in lines that have one."""
    value = F.col("value")
    quoted = value.contains('"')
    begin, end = re.escape(sep[-1]), re.escape(sep[0])
    edge = F.lit(_EDGE.format(begin, end))
    plain = F.regexp_replace(value, r"\\.", "x")
    opened = F.regexp_replace(value, _PAIRS, "").rlike(_OPEN.format(begin))
    place = F.struct(F.col("_metadata.file_block_start"), F.monotonically_increasing_id())
    last = F.substring(value.cast("binary"), -_LONGEST_END, _LONGEST_END)

    def edges(line: Column) -> Column:
        return F.coalesce(F.sum(F.when(quoted, F.regexp_count(line, edge))), F.lit(0))

    row = (
        text.select("value", place.alias("place"))
        .agg(
            F.count_if(~F.is_valid_utf8(value)),
            F.count_if(quoted & value.rlike(_BACKSLASHED)),
            F.count_if(quoted & value.rlike(_DOUBLED)),
            F.count_if(quoted & value.rlike(_BARE)),
            F.count_if(quoted & value.rlike(_QUOTE_FIRST.format(begin))),
            F.count_if(quoted),
            F.count_if(quoted & opened),
            edges(value),
            edges(plain),
            F.coalesce(
                F.max_by(last, F.when(value.rlike(r"[^\s\x1a]"), F.col("place"))), F.lit(b"")
            ),
        )
        .head()
    )
    shown = _LineCounts(*(row or ()))
    if shown.backslashed and shown.doubled and not escape:
        raise UnreadableFile(
            'the file has both \\" and "" inside of values, expected one way to write a quote: '
            "say source.csv.escape"
        )
    return shown


def _read_names(cells: Sequence[str], feed: Feed, others: Sequence[str]) -> list[str]:
    """The names of the header without blanks around them; without a header the declared columns.

    Raises:
        UnreadableFile: a name is there twice; a key is missing; or a snapshot lacks a declared
            column and has an undeclared one, which may be the same renamed.
    """
    if not feed.csv.header:
        columns = _columns_in_file(feed, others)
        return columns if len(cells) == len(columns) else list(feed.columns)
    quote = feed.csv.quote
    names = [clean_name(cell, quote) or unnamed_column(at) for at, cell in enumerate(cells)]
    doubled = [name for name, count in Counter(n.lower() for n in names).items() if count > 1]
    if doubled:
        raise UnreadableFile(f"the header has {doubled[0]} more than once, expected it once")
    _check_declared(names, feed, others)
    return names


def _check_declared(names: Sequence[str], feed: Feed, others: Sequence[str]) -> None:
    declared = {name.lower(): name for name in (*feed.keys, *feed.columns)}
    present = {name.lower() for name in (*names, *others)}
    missing = [name for lower, name in declared.items() if lower not in present]
    keys = {key.lower() for key in feed.keys}
    lost = [name for name in missing if name.lower() in keys]
    undeclared = {name.lower() for name in names if name[:1] != "_"} - declared.keys()
    if feed.format == "snapshot" and undeclared:
        lost = lost or missing
    if lost:
        shown = ", ".join(re.sub(r"\s+", " ", name)[:40] for name in names[:10])
        raise UnreadableFile(
            f"the header has {shown}, expected the declared {', '.join(lost)} too: "
            "mend the header, source.csv or columns"
        )


def _columns_in_file(feed: Feed, others: Sequence[str]) -> list[str]:
    """The declared columns without those in the names of the folders."""
    given_by_folders = {name.lower() for name in others}
    return [name for name in feed.columns if name.lower() not in given_by_folders]
