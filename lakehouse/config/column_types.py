"""The types of columns as YAML and Spark SQL write them: one grammar, read without Spark."""

import re
from difflib import get_close_matches
from typing import NamedTuple

NAMES = {
    **{"tinyint": "byte", "smallint": "short", "int": "integer", "bigint": "long", "real": "float"},
    **{"dec": "decimal", "numeric": "decimal", "timestamp_ltz": "timestamp"},
    **{name: name for name in ("byte", "short", "integer", "long", "float", "double", "decimal")},
    **{name: name for name in ("boolean", "binary", "string", "date", "timestamp")},
    **{name: name for name in ("timestamp_ntz", "variant")},
}
"""By each name of a type, the synonym that Delta's log uses."""
EXPECTED = "a Spark SQL type such as bigint, decimal(12,2), timestamp or array<string>"

OF_OTHERS = {
    **dict.fromkeys(("text", "char", "varchar", "varchar2", "nvarchar", "clob", "uuid"), "string"),
    **dict.fromkeys(("json", "jsonb", "enum", "str"), "string"),
    **dict.fromkeys(("bool", "bit"), "boolean"),
    **dict.fromkeys(("int2", "int16"), "smallint"),
    **dict.fromkeys(("int4", "int32", "serial", "mediumint"), "int"),
    **dict.fromkeys(("int8", "int64", "bigserial"), "bigint"),
    **dict.fromkeys(("float4", "float32"), "float"),
    **dict.fromkeys(("float8", "float64"), "double"),
    **dict.fromkeys(("number", "money", "bignumeric"), "decimal(38,9)"),
    **dict.fromkeys(("datetime", "datetime2", "timestamp without time zone"), "timestamp_ntz"),
    **dict.fromkeys(("timestamptz", "timestamp with time zone"), "timestamp"),
    **dict.fromkeys(("bytea", "blob", "bytes", "varbinary"), "binary"),
}
"""Names of types in other systems, and their names in Spark SQL."""

_SIZED = re.compile(r"(?:char|varchar)\s*\(\s*([1-9]\d*)\s*\)")
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\s*\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.DOTALL | re.IGNORECASE)
_FIELD = re.compile(r"\s*(?:`([^`]+)`|(\w+))\s*(?::|\s)\s*(.+)", re.DOTALL)


_SQL_NAMES = {"long": "bigint", "integer": "int", "short": "smallint", "byte": "tinyint"}
"""The names in Spark SQL of types that Delta's log names in another way."""


class ColumnType(NamedTuple):
    """A type that a Delta column can have.

    `name` is that of Delta's log; `char` and `varchar` are strings, as in Spark. `digits` are a
    decimal's precision and scale. A nested type has `inner` types, a struct also names of `fields`.
    """

    name: str
    digits: tuple[int, int] = (10, 0)
    inner: "tuple[ColumnType, ...]" = ()
    fields: tuple[str, ...] = ()

    def __str__(self) -> str:
        """The type as Delta's log writes one that is not nested."""
        return (
            f"decimal({self.digits[0]},{self.digits[1]})" if self.name == "decimal" else self.name
        )


def to_sql_name(type_of_log: str) -> str:
    """The name in Spark SQL of a type as Delta's log writes it."""
    return _SQL_NAMES.get(type_of_log, type_of_log)


def read_type(text: str) -> ColumnType:
    """Parses a type such as `DECIMAL(12, 2)` or `array<struct<a: int>>`.

    Raises:
        ValueError: the text is no column type of Spark.
    """
    written = text.strip()
    lower = written.lower()
    if lower in NAMES or _SIZED.fullmatch(lower):
        return ColumnType(NAMES.get(lower, "string"))
    decimal, nested = _DECIMAL.fullmatch(lower), _NESTED.fullmatch(written)
    if nested:
        return _read_nested(nested[1].lower(), _split_at_commas(nested[2]))
    digits = (int(decimal[1]), int(decimal[2] or 0)) if decimal else (0, 0)
    if not digits[1] <= digits[0] <= 38 or digits[0] < 1:
        raise ValueError(f"found {text!r}, expected a Spark SQL type")
    return ColumnType("decimal", digits)


def is_type(text: str) -> bool:
    """Whether the text is a column type of Spark."""
    try:
        return bool(read_type(text))
    except ValueError:
        return False


def meant_type(text: str) -> str | None:
    """The type that was probably meant by an invalid text; None if unknown."""
    written = text.strip().lower()
    comma = re.sub(r"(\d)[.;](\d)", r"\1,\2", written)
    if comma != written and is_type(comma):
        return comma
    name = written.partition("(")[0].strip()
    if name in OF_OTHERS:
        return OF_OTHERS[name]
    close = get_close_matches(name, [kind for kind in NAMES if kind not in ("dec", "real")], n=1)
    return close[0] if close and close[0] != name else None


def is_nested(text: str) -> bool:
    """Whether the type is an array, map, struct or variant, which a key cannot have."""
    return text.strip().lower().startswith(("array", "map", "struct", "variant"))


def has_bounds(text: str) -> bool:
    """Whether Delta's log has minimum and maximum of a file for columns of the type."""
    return read_type(text).name not in ("binary", "boolean") and not is_nested(text)


def max_length(text: str) -> int | None:
    """The maximum number of characters of a text type; None if the type has no limit."""
    sized = _SIZED.fullmatch(text.strip().lower())
    return int(sized[1]) if sized else None


def _read_nested(kind: str, parts: list[str]) -> ColumnType:
    fields: list[str] = []
    if kind == "struct":
        matches = [field for part in parts if (field := _FIELD.fullmatch(part))]
        fields = [field[1] or field[2] for field in matches]
        distinct = {name.lower() for name in fields}  # as Delta compares them
        fits, parts = len(distinct) == len(parts), [field[3] for field in matches]
    else:
        fits = len(parts) == (1 if kind == "array" else 2)
    if not fits:
        raise ValueError(f"found {kind}<{', '.join(parts)}>, expected its own number of types")
    return ColumnType(kind, inner=tuple(map(read_type, parts)), fields=tuple(fields))


def _split_at_commas(text: str) -> list[str]:
    """Splits at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
