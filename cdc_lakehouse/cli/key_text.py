"""A key as people type it: `--key '{"id": 7}'`, checked against the table's keys without Spark."""

import json
import re

from lakehouse.config.table import Table
from lakehouse.errors import ConfigurationError

KEY = "--key"
_FORMS = (
    (
        re.compile(r"(?i)\s*(tiny|small|big)?int|decimal|float|double"),
        re.compile(r"(?i)\s*[+-]?([\d.]|nan|inf)"),
    ),
    (re.compile(r"(?i)\s*(date|timestamp)"), re.compile(r"\s*[+-]?\d")),
    (re.compile(r"(?i)\s*boolean"), re.compile(r"(?i)\s*(t|f|y|n|0|1)")),
)
"""Declared types, and how their values begin; Spark has the last word."""
_LIKE_JSON = re.compile(r'\s*([{\["]|\w+\s*[=:]|$)')


def parse_key(text: str, table: Table) -> dict[str, str | None]:
    """The key's values as texts by column, in the order of `keys`; numbers keep their digits.

    Where the key is one column, its value alone is enough: `--key 7`.

    Raises:
        ConfigurationError: it is not a JSON object, its columns are not the table's keys, a value
            is nested, not of its declared type, or null where the key cannot be, or the table has
            no key.
    """
    if not table.keys:
        expected = "a table with keys"
        raise _to_error(text, expected, "ask `lakehouse sql` for the rows of a table without a key")
    given = _parse_object(text, table)
    if sorted(given) != sorted(table.keys):
        raise _to_error(text, f"exactly the columns {', '.join(table.keys)}", _show_key(table))
    for name, value in given.items():
        is_null = value is None and name not in table.nullable_keys
        if is_null or isinstance(value, (dict, list)):
            raise _to_error(text, f"a text, number or boolean for {name}", _show_key(table))
    key = {name: _to_text(given[name]) for name in table.keys}
    for name, value in key.items():
        kind = table.columns[name].type if name in table.columns else ""
        form = next((form for words, form in _FORMS if words.match(kind)), None)
        if value is not None and form is not None and not form.match(value):
            raise _to_error(value, f"a value of type {kind} for {name}", "correct it")
    return key


def _parse_object(text: str, table: Table) -> dict[str, object]:
    try:
        given = json.loads(text, parse_float=str, parse_int=str)
    except ValueError as wrong:
        if len(table.keys) == 1 and not _LIKE_JSON.match(text):
            return {table.keys[0]: text}
        raise _to_error(text, f"a JSON object ({wrong})", _show_key(table)) from wrong
    if len(table.keys) == 1 and not isinstance(given, (dict, list)):
        return {table.keys[0]: given}
    if not isinstance(given, dict):
        raise _to_error(text, "a JSON object", _show_key(table))
    return given


def _to_text(value: object) -> str | None:
    if value is None:
        return None
    return str(value).lower() if isinstance(value, bool) else str(value)


def _show_key(table: Table) -> str:
    example = ", ".join(f'"{name}": …' for name in table.keys)
    return f"write {KEY} '{{{example}}}'"


def _to_error(problem: str, expected: str, action: str) -> ConfigurationError:
    return ConfigurationError("command line", KEY, problem, expected, action)
