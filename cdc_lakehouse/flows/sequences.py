"""Order keys of AUTO CDC's `sequence_by`: bytes that sort as the values do, and the way back.

A value becomes sections of 8 bytes, each after a byte 01 (see `silver.fold.order_key`): whole
numbers, dates and timestamps one section; texts as many as they need, of which the last one alone
ends with a byte 00; decimals the text of their digits; structs the sections of their fields.
"""

from pyspark.sql import types as T

from lakehouse.storage.names import quote

_SIGN = "shiftleft(1L, 63)"
_FROM, _TO = "'0123456789'", "'9876543210'"
_DIGITS = 38
_TEXT = "'^((?:01(?![0-9A-F]{14}00)[0-9A-F]{16})*01[0-9A-F]{16})'"
_WHOLE: dict[type[T.DataType], tuple[str, str]] = {
    T.ByteType: ("CAST({} AS BIGINT)", "CAST({} AS TINYINT)"),
    T.ShortType: ("CAST({} AS BIGINT)", "CAST({} AS SMALLINT)"),
    T.IntegerType: ("CAST({} AS BIGINT)", "CAST({} AS INT)"),
    T.LongType: ("{}", "{}"),
    T.DateType: ("CAST(unix_date({}) AS BIGINT)", "date_from_unix_date(CAST({} AS INT))"),
    T.TimestampType: ("unix_micros({})", "timestamp_micros({})"),
    T.TimestampNTZType: (
        "timestampdiff(MICROSECOND, TIMESTAMP_NTZ'1970-01-01 00:00:00', {})",
        "timestampadd(MICROSECOND, {}, TIMESTAMP_NTZ'1970-01-01 00:00:00')",
    ),
}
"""Types of one section: SQL of the value as a bigint, and of that as the value."""


def is_sortable(type: T.DataType) -> bool:
    """Whether values of a type can be an order."""
    if isinstance(type, T.StructType):
        return bool(type.fields) and all(is_sortable(field.dataType) for field in type.fields)
    return isinstance(type, (*_WHOLE, T.StringType, T.DecimalType))


def sections_sql(value: str, type: T.DataType) -> str:
    """SQL of the sections of a value, as upper-case hex digits; null for null.

    A struct with a null in it is null. A text with a character U+0000 is null: it has no order.
    """
    if isinstance(type, T.StructType):
        parts = [sections_sql(f"{value}.{quote(f.name)}", f.dataType) for f in type.fields]
        return f"concat({', '.join(parts)})"
    if isinstance(type, T.StringType):
        return _text_sections(value)
    if isinstance(type, T.DecimalType):
        digits = f"replace(replace(format_number(abs({value}), {type.scale}), ',', ''), '.', '')"
        padded = f"lpad({digits}, {_DIGITS}, '0')"
        below = f"concat('0', translate({padded}, {_FROM}, {_TO}))"
        return _text_sections(f"if({value} < 0, {below}, concat('1', {padded}))")
    number = _WHOLE[_class_of(type)][0].format(value)
    return f"concat('01', lpad(hex(({number}) ^ {_SIGN}), 16, '0'))"


def value_sql(order: str, type: T.DataType) -> str:
    """SQL of the value whose sections an order key (binary) begins with; null for null."""
    value, _ = _read_value_sql(f"hex({order})", type)
    return value


def _read_value_sql(digits: str, type: T.DataType) -> tuple[str, str]:
    """SQL of the value at the beginning of hex digits, and of the digits after it."""
    if isinstance(type, T.StructType):
        parts = []
        for field in type.fields:
            value, digits = _read_value_sql(digits, field.dataType)
            parts.append(f"'{field.name}', {value}")
        built = f"named_struct({', '.join(parts)})"
        return f"if({digits} IS NULL, NULL, {built})", digits
    if isinstance(type, T.StringType | T.DecimalType):
        sections = f"regexp_extract({digits}, {_TEXT}, 1)"
        plain = (
            f"regexp_replace(regexp_replace({sections}, '01([0-9A-F]{{16}})', '$1'), '(00)+$', '')"
        )
        text = f"decode(unhex({plain}), 'UTF-8')"
        value = text if isinstance(type, T.StringType) else _decimal_sql(text, type)
        return value, f"substr({digits}, length({sections}) + 1)"
    number = f"(CAST(conv(substr({digits}, 3, 16), 16, -10) AS BIGINT) ^ {_SIGN})"
    return _WHOLE[_class_of(type)][1].format(number), f"substr({digits}, 19)"


def _text_sections(text: str) -> str:
    """SQL of a text's sections: its UTF-8 bytes, and at least one byte 00 after them."""
    plain = f"hex(CAST({text} AS BINARY))"
    width = f"CAST((length({plain}) DIV 16 + 1) * 16 AS INT)"
    padded = f"rpad({plain}, {width}, '0')"
    sections = f"regexp_replace({padded}, '([0-9A-F]{{16}})', '01$1')"
    return f"if(instr({text}, '\\0') > 0, NULL, {sections})"


def _decimal_sql(text: str, type: T.DecimalType) -> str:
    digits = f"substr({text}, 2)"
    plain = f"if({text} LIKE '0%', concat('-', translate({digits}, {_TO}, {_FROM})), {digits})"
    if type.scale:
        whole = f"left({plain}, length({plain}) - {type.scale})"
        plain = f"concat({whole}, '.', right({plain}, {type.scale}))"
    return f"CAST({plain} AS {type.simpleString()})"


def _class_of(type: T.DataType) -> type[T.DataType]:
    return next(one for one in _WHOLE if isinstance(type, one))
