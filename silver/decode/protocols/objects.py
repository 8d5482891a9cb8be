"""Rows as JSON objects, and why a text is none."""

from typing import NamedTuple

from bronze.contract import avro_schema_id
from lakehouse.config.table import Table
from silver.decode.avro.schemas import UNDECLARED_AVRO
from silver.decode.change import NOT_CSV, NOT_JSON
from silver.decode.values.json_values import NotJson, parse_json
from silver.decode.wrapped import other_form

_OTHERS = {list: "an array", str: "a text", bool: "a boolean", type(None): "null"}
_LONGEST_SHOWN = 100


class Fault(NamedTuple):
    """A dead letter's reason and message."""

    reason: str
    message: str


def row_object(raw: bytes) -> dict[str, object] | None:
    """The JSON object that a row is; None for any other text."""
    try:
        value = parse_json(raw)
    except NotJson:
        return None
    return value if isinstance(value, dict) else None


def broken_row(raw: bytes, table: Table) -> Fault:
    """Why a text is no row of the table; a CSV row that fits its header arrives as an object."""
    if avro_schema_id(raw):
        return Fault(NOT_JSON, UNDECLARED_AVRO)
    if table.feeds[0].file_format != "csv":
        return Fault(NOT_JSON, other_form(raw) or f"the row is no JSON object: {_no_object(raw)}")
    try:
        text = raw.decode()
    except UnicodeError:
        shown = raw[:_LONGEST_SHOWN].decode("utf-8", "replace")
        expected = "expected UTF-8, or source.csv.encoding to name the encoding"
        return Fault(NOT_CSV, f"the CSV row is not in UTF-8: found {shown!r}, {expected}")
    fits = "does not fit the header of its file, is the header again"
    if not table.feeds[0].csv.header:
        fits = "does not have one field for each of `columns`"
    fault = f"{fits}, or has a quote that is not escaped or not closed"
    return Fault(NOT_CSV, f"the CSV row {fault}: found {text[:_LONGEST_SHOWN]!r}")


def _no_object(raw: bytes) -> str:
    """Why a text is no JSON object."""
    try:
        return f"found {_OTHERS.get(type(parse_json(raw)), 'a number')}"
    except NotJson as error:
        return str(error)[:_LONGEST_SHOWN]
