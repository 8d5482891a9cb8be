"""Which texts are Spark SQL types that a Delta column can have, decided without Spark."""

import re
from difflib import get_close_matches

PLAIN = (
    *("byte", "tinyint", "short", "smallint", "int", "integer", "long", "bigint"),
    *("float", "real", "double", "decimal", "dec", "numeric", "boolean", "binary"),
    *("string", "date", "timestamp", "timestamp_ntz", "timestamp_ltz", "variant"),
)
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
"""Names of types in other systems, and what they are called here."""

_SIZED = re.compile(r"(char|varchar)\(\s*[1-9]\d*\s*\)")
_DECIMAL = re.compile(r"(?:decimal|dec|numeric)\(\s*(\d+)\s*(?:,\s*(\d+)\s*)?\)")
_NESTED = re.compile(r"(array|map|struct)\s*<(.*)>", re.DOTALL)
_FIELD = re.compile(r"\s*(`[^`]+`|\w+)\s*(?::|\s)\s*(.+)", re.DOTALL)


def is_type(text: str) -> bool:
    """Whether Spark would take the text as a column's type."""
    written = text.strip().lower()
    decimal = _DECIMAL.fullmatch(written)
    if decimal:
        return 1 <= int(decimal[1]) <= 38 and int(decimal[2] or 0) <= int(decimal[1])
    nested = _NESTED.fullmatch(written)
    if nested:
        return _is_nested(nested[1], _split(nested[2]))
    return written in PLAIN or bool(_SIZED.fullmatch(written))


def meant_type(text: str) -> str | None:
    """The type that was probably meant by a text that is none."""
    written = text.strip().lower()
    comma = re.sub(r"(\d)[.;](\d)", r"\1,\2", written)
    if comma != written and is_type(comma):
        return comma
    name = written.partition("(")[0].strip()
    if name in OF_OTHERS:
        return OF_OTHERS[name]
    close = get_close_matches(name, [kind for kind in PLAIN if kind not in ("dec", "real")], n=1)
    return close[0] if close and close[0] != name else None


def is_nested(text: str) -> bool:
    """Whether values of the type cannot be compared for a key: arrays, maps, structs, variants."""
    return text.strip().lower().startswith(("array", "map", "struct", "variant"))


def _is_nested(kind: str, inner: list[str]) -> bool:
    if kind == "struct":
        fields = [field for text in inner if (field := _FIELD.fullmatch(text))]
        names = {field[1].strip("`") for field in fields}  # in lower case, as Delta compares them
        return len(names) == len(inner) and all(is_type(field[2]) for field in fields)
    return len(inner) == (1 if kind == "array" else 2) and all(is_type(each) for each in inner)


def _split(text: str) -> list[str]:
    """Cut at commas outside of brackets."""
    parts, depth = [""], 0
    for character in text:
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            parts.append("")
        else:
            parts[-1] += character
    return parts
