"""A quick answer as texts, JSON or CSV, exactly as Spark writes it.

`cdc_lakehouse.terminal.answers` does the same with Spark.
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


def render_texts(answer: QuickAnswer) -> list[list[str | None]]:
    """Every row as texts.

    Raises:
        NotQuick: Spark would write a value in another way.
    """
    _check_columns(answer)
    return [[*map(_render_text, row, answer.types)] for row in answer.rows]


def csv_lines(answer: QuickAnswer) -> list[str]:
    """A header and a line for each row.

    Raises:
        NotQuick: Spark would write a value in another way.
    """
    return [render_csv_line(answer.columns), *map(render_csv_line, render_texts(answer))]


def json_lines(answer: QuickAnswer) -> list[str]:
    """A JSON object for each row.

    Raises:
        NotQuick: Spark would write a value in another way.
    """
    _check_columns(answer)
    return [_render_object(answer, row) for row in answer.rows]


def _check_columns(answer: QuickAnswer) -> None:
    plain = all(kind in _PLAIN or kind.startswith("DECIMAL") for kind in answer.types)
    if not plain or len({name.lower() for name in answer.columns}) < len(answer.columns):
        raise NotQuick("a column that DuckDB writes in another way")


def _render_text(value: object, kind: str) -> str | None:
    """A value as `cdc_lakehouse.terminal.answers` has it from Spark."""
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


def _render_object(answer: QuickAnswer, row: Sequence[Any]) -> str:
    members = zip(answer.columns, row, answer.types, strict=True)
    inside = (f"{_quote_json(name)}:{_json_value(value, kind)}" for name, value, kind in members)
    return f"{{{','.join(inside)}}}"


def _json_value(value: object, kind: str) -> str:
    if value is None:
        return "null"
    if isinstance(value, (int, Decimal)):
        return str(value).lower() if isinstance(value, bool) else str(value)
    return _quote_json(str(_render_text(value, kind)))


def _quote_json(text: str) -> str:
    """Text as JSON; like Spark, with upper-case hex digits of control characters."""
    written = json.dumps(text, ensure_ascii=False)
    digits = r"(?<!\\)((?:\\\\)*\\u)(00[01][0-9a-f])"
    return re.sub(digits, lambda match: f"{match[1]}{match[2].upper()}", written)


def render_csv_line(fields: Sequence[str | None]) -> str:
    """A line of CSV without its end; None is an empty field."""
    line = io.StringIO()
    csv.writer(line, quoting=csv.QUOTE_MINIMAL, lineterminator="").writerow(fields)
    return line.getvalue()
