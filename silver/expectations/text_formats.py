"""Two checks of texts that Great Expectations makes in Python, written in Spark SQL.

Both agree with Python's `json.loads` and `datetime.strptime`, except that these refuse digits and
spaces outside ASCII.
"""

import re
from collections.abc import Iterator

from silver.expectations.literals import write_literal

_STRING = r'"(?:[^"\\\x00-\x1f]|\\(?:["\\/bfnrt]|u[0-9a-fA-F]{4}))*+"'
_NOT_FINITE = r'(?<![\w.+"-])(?:NaN|-?Infinity)(?![\w."])'
_MONTHS = ["jan", "feb", "mar", "apr", "may", "jun", "jul", "aug", "sep", "oct", "nov", "dec"]
DIRECTIVES = {
    "Y": r"(?!0000)\d{4}",
    "y": r"\d{2}",
    "m": r"1[0-2]|0[1-9]|[1-9]",
    "d": r"3[0-1]|[1-2]\d|0[1-9]|[1-9]| [1-9]",
    "H": r"2[0-3]|[0-1]\d|\d",
    "I": r"1[0-2]|0[1-9]|[1-9]",
    "M": r"[0-5]\d|\d",
    "S": r"[0-5]\d|\d",
    "f": r"[0-9]{1,6}",
    "p": r"am|pm",
    "b": "|".join(_MONTHS),
    "B": "september|february|november|december|january|october|august|march|april|june|july|may",
    "a": "mon|tue|wed|thu|fri|sat|sun",
    "A": "wednesday|thursday|saturday|tuesday|monday|friday|sunday",
    "z": r"[+-](?:[01]\d|2[0-3])"
    r"(?::[0-5]\d(?::[0-5]\d(?:\.\d{1,6})?)?|[0-5]\d(?:[0-5]\d(?:\.\d{1,6})?)?)|(?-i:Z)",
}
_YEAR, _MONTH, _DAY = "Yy", "mbB", "d"


def is_json_sql(column: str) -> str:
    """Whether a text is one JSON value as Python reads it: NaN, Infinity, repeated names included.

    Strings are replaced by a plain one first, as Spark is lax about their contents. The rest is one
    JSON value exactly if it is one element between brackets and one member between braces: anything
    after a first value breaks one of the two.
    """
    string, number, lax = map(write_literal, (_STRING, _NOT_FINITE, """["'/#]"""))
    plain = f"""regexp_replace(regexp_replace({column}, {string}, '"s"'), {number}, '0')"""
    return (
        f"""NOT replace({plain}, '"s"', '0') RLIKE {lax}"""
        f" AND coalesce(json_array_length(concat('[', {plain}, ']')) = 1 AND"
        f""" size(json_object_keys(concat('{{"k":', {plain}, '}}'))) = 1, false)"""
    )


def matches_strftime_sql(column: str, strftime_format: str) -> str:
    """Whether a text is a time in this format, on a day that the calendar has.

    The group is atomic: as in Python, a text that does not match to its end is not matched in
    another way.
    """
    year, month, day = (
        _write_part(column, strftime_format, part) for part in (_YEAR, _MONTH, _DAY)
    )
    number = f"TRY_CAST({year} AS INT)"
    if "y" in _list_directives(strftime_format):
        number = f"({number} + IF({number} <= 68, 2000, 1900))"
    names = ", ".join(map(write_literal, _MONTHS))
    named = f"CAST(array_position(array({names}), lower(substring({month}, 1, 3))) AS INT)"
    if "m" in _list_directives(strftime_format):
        named = f"TRY_CAST({month} AS INT)"
    first = f"make_date(coalesce({number}, 1900), IF({named} BETWEEN 1 AND 12, {named}, 1), 1)"
    is_written = f"{column} RLIKE {write_literal(_write_pattern(strftime_format))}"
    return f"{is_written} AND coalesce(TRY_CAST({day} AS INT), 1) <= dayofmonth(last_day({first}))"


def find_strftime_problem(strftime_format: str) -> str | None:
    """Why a format cannot be checked row by row, in words; None when it can."""
    letters = list(_list_directives(strftime_format))
    unknown = [f"%{letter}" for letter in letters if letter not in DIRECTIVES]
    if unknown:
        return f"{unknown[0]}, expected one of {', '.join('%' + letter for letter in DIRECTIVES)}"
    for parts in (_YEAR, _MONTH, "d", "H", "I", "M", "S", "f", "p", "aA", "z"):
        if sum(letter in parts for letter in letters) > 1:
            return f"{strftime_format!r}, expected each part of the time once"
    return None


def _list_directives(strftime_format: str) -> Iterator[str]:
    for match in re.finditer(r"%(.?)", strftime_format, re.S):
        if match.group(1) != "%":
            yield match.group(1)


def _write_pattern(strftime_format: str) -> str:
    tokens = re.findall(r"%.|\s+|.", strftime_format, re.S)
    return f"(?i)\\A(?>{''.join(_write_token(token) for token in tokens)})\\z"


def _write_token(token: str) -> str:
    if token.isspace():
        return r"\s+"
    if not token.startswith("%") or token == "%%":
        return re.escape(token[-1])
    letter = token[1]
    is_dated = letter in _YEAR + _MONTH + _DAY
    return f"({DIRECTIVES[letter]})" if is_dated else f"(?:{DIRECTIVES[letter]})"


def _write_part(column: str, strftime_format: str, letters: str) -> str:
    """The text of the one directive among these letters; null where the format has none."""
    dated = [x for x in _list_directives(strftime_format) if x in _YEAR + _MONTH + _DAY]
    group = next((place for place, letter in enumerate(dated, 1) if letter in letters), None)
    if group is None:
        return "CAST(NULL AS STRING)"
    pattern = write_literal(_write_pattern(strftime_format))
    return f"trim(regexp_extract({column}, {pattern}, {group}))"
