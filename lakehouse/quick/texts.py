"""A quick answer as texts, JSON or CSV: to the letter what Spark writes.

`cdc_lakehouse.terminal.answers` has Spark do so.
"""

import base64
import csv
import io
import json
import re
from collections.abc import Sequence
from datetime import date, datetime
from decimal import Decimal
from typing import Any

from lakehouse.quick.lake import NotQuick, QuickAnswer

_PLAIN = (
    "BIGINT", "INTEGER", "SMALLINT", "TINYINT", "VARCHAR", "BOOLEAN", "DATE", "TIMESTAMP",
    "TIMESTAMP WITH TIME ZONE", "BLOB",
)  # fmt: skip


def texts(found: QuickAnswer) -> list[list[str | None]]:
    """Every row as texts.

    Raises:
        NotQuick: Spark would write a value in another way.
    """
    _check(found)
    return [[*map(_text, row, found.types)] for row in found.rows]


def csv_lines(found: QuickAnswer) -> list[str]:
    """A header and a line for each row.

    Raises:
        NotQuick: Spark would write a value in another way.
    """
    return [_csv(found.columns), *map(_csv, texts(found))]


def json_lines(found: QuickAnswer) -> list[str]:
    """A JSON object for each row.

    Raises:
        NotQuick: Spark would write a value in another way.
    """
    _check(found)
    return [_json(found, row) for row in found.rows]


def _check(found: QuickAnswer) -> None:
    plain = all(kind in _PLAIN or kind.startswith("DECIMAL") for kind in found.types)
    if not plain or len({name.lower() for name in found.columns}) < len(found.columns):
        raise NotQuick("a column that DuckDB writes in another way")


def _text(value: object, kind: str) -> str | None:
    """A value as `cdc_lakehouse.terminal.answers` has Spark write it.

    Raises:
        NotQuick: it is beyond what Python's times can hold.
    """
    if value is None:
        return None
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, bytes):
        return base64.b64encode(value).decode()
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, datetime):
        zone = "Z" if kind == "TIMESTAMP WITH TIME ZONE" else ""
        return value.isoformat(timespec="microseconds") + zone
    if kind.startswith(("DATE", "TIMESTAMP")) and not isinstance(value, date):
        raise NotQuick("a time beyond the year 9999")
    return str(value)


def _json(found: QuickAnswer, row: Sequence[Any]) -> str:
    members = zip(found.columns, row, found.types, strict=True)
    inside = (f"{_quoted(name)}:{_json_value(value, kind)}" for name, value, kind in members)
    return f"{{{','.join(inside)}}}"


def _json_value(value: object, kind: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, (int, Decimal)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return _quoted(str(_text(value, kind)))


def _quoted(text: str) -> str:
    """Text as JSON, in which Spark writes the hex digits of control characters in capitals."""
    written = json.dumps(text, ensure_ascii=False)
    return re.sub(r"(?<!\\)((?:\\\\)*\\u)(00[01][0-9a-f])", _in_capitals, written)


def _in_capitals(found: re.Match[str]) -> str:
    return f"{found[1]}{found[2].upper()}"


def _csv(fields: Sequence[str | None]) -> str:
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_MINIMAL, lineterminator="").writerow(fields)
    return line.getvalue()
