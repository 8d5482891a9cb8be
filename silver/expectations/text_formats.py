"""Two checks of texts that Great Expectations makes in Python, said as Spark expressions.

Both agree with Python's `json.loads` and `datetime.strptime`, but for digits and spaces outside
ASCII, which `strptime` takes and these do not.
"""

import re
from collections.abc import Iterator

from pyspark.sql import Column
from pyspark.sql import functions as F

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


def is_json(column: Column) -> Column:
    """Whether a text is one JSON value as Python reads it: NaN, Infinity, repeated names included.

    Strings are first made plain, as Spark is lax about what is in them. What is left is one JSON
    value exactly if it is one element between brackets and one member between braces: whatever
    follows a first value would break one of the two.
    """
    plain = F.regexp_replace(F.regexp_replace(column, _STRING, '"s"'), _NOT_FINITE, "0")
    lax = F.replace(plain, F.lit('"s"'), F.lit("0")).rlike(r"""["'/#]""")
    elements = F.json_array_length(F.concat(F.lit("["), plain, F.lit("]")))
    members = F.json_object_keys(F.concat(F.lit('{"k":'), plain, F.lit("}")))
    return ~lax & F.coalesce((elements == 1) & (F.size(members) == 1), F.lit(False))


def matches_strftime(column: Column, strftime_format: str) -> Column:
    """Whether a text is a time in this format, on a day that the calendar has.

    The group is atomic, so that, as in Python, a text is not tried again another way when
    something is left over at its end.
    """
    pattern = _pattern(strftime_format)
    days = F.dayofmonth(
        F.last_day(
            F.make_date(_year(column, strftime_format), _month(column, strftime_format), F.lit(1))
        )
    )
    day = F.coalesce(_part(column, strftime_format, _DAY).try_cast("int"), F.lit(1))
    return column.rlike(pattern) & (day <= days)


def strftime_problem(strftime_format: str) -> str | None:
    """What of a format cannot be checked row by row, in words; None when all of it can."""
    letters = list(_directives(strftime_format))
    unknown = [f"%{letter}" for letter in letters if letter not in DIRECTIVES]
    if unknown:
        return f"{unknown[0]}, expected one of {', '.join('%' + letter for letter in DIRECTIVES)}"
    for parts in (_YEAR, _MONTH, "d", "H", "I", "M", "S", "f", "p", "aA", "z"):
        if sum(letter in parts for letter in letters) > 1:
            return f"{strftime_format!r}, expected each part of the time once"
    return None


def _directives(strftime_format: str) -> Iterator[str]:
    for match in re.finditer(r"%(.?)", strftime_format, re.S):
        if match.group(1) != "%":
            yield match.group(1)


def _pattern(strftime_format: str) -> str:
    tokens = re.findall(r"%.|\s+|.", strftime_format, re.S)
    return f"(?i)\\A(?>{''.join(_token(token) for token in tokens)})\\z"


def _token(token: str) -> str:
    if token.isspace():
        return r"\s+"
    if not token.startswith("%") or token == "%%":
        return re.escape(token[-1])
    letter = token[1]
    return (
        f"({DIRECTIVES[letter]})"
        if letter in _YEAR + _MONTH + _DAY
        else f"(?:{DIRECTIVES[letter]})"
    )


def _part(column: Column, strftime_format: str, letters: str) -> Column:
    """The text of the one directive among these letters; null where the format has none."""
    dated = [letter for letter in _directives(strftime_format) if letter in _YEAR + _MONTH + _DAY]
    found = [place for place, letter in enumerate(dated, start=1) if letter in letters]
    if not found:
        return F.lit(None).cast("string")
    return F.trim(F.regexp_extract(column, _pattern(strftime_format), found[0]))


def _year(column: Column, strftime_format: str) -> Column:
    year = _part(column, strftime_format, _YEAR).try_cast("int")
    if "y" in _directives(strftime_format):
        year = F.when(year <= F.lit(68), year + 2000).otherwise(year + 1900)
    return F.coalesce(year, F.lit(1900))


def _month(column: Column, strftime_format: str) -> Column:
    month = _part(column, strftime_format, _MONTH)
    named = F.array_position(
        F.array(*[F.lit(name) for name in _MONTHS]), F.lower(F.substring(month, 1, 3))
    )
    number = month.try_cast("int") if "m" in _directives(strftime_format) else named.cast("int")
    return F.when(number.between(1, 12), number).otherwise(F.lit(1))
