"""A value of JSON text as a value of its column's type: exact, or null.

Nothing here rounds, wraps around or guesses: a text that the type cannot hold as it is gives null,
which the decoders report as `bad_value`. Texts are what `from_json` gives for a member read as
`reading(type)`: numbers and text alike without quotes, objects and arrays as JSON text.
"""

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

from silver.json_text import elements

_BEGINS_WITH_A_DAY = r"\A\s*[+-]?\d{4,}-\d"
_EXACT_IN_A_DOUBLE = 1 << 53
_MOST_DIGITS = 38


def reading(type: T.DataType) -> T.DataType:
    """How `from_json` must read a member of this type so that no digit is lost.

    Read as a string, a JSON number with a fraction passes through a double; a variant keeps up to
    38 digits of it.
    """
    return T.VariantType() if isinstance(type, T.DecimalType) else T.StringType()


def typed(text: Column, type: T.DataType) -> Column:
    """The text as the type; null for null and for what does not fit.

    Binary is base64 in JSON. Decimals must fit without rounding. A whole number may be written with
    a zero fraction (`1.0`). Dates and timestamps need at least year, month and day.
    """
    if isinstance(type, T.StringType):
        return text
    if isinstance(type, T.IntegralType):
        return F.coalesce(text.try_cast(type), _whole(text, type))
    if isinstance(type, T.DecimalType):
        return _decimal(text, type)
    if isinstance(type, T.TimestampType | T.TimestampNTZType | T.DateType):
        return F.when(text.rlike(_BEGINS_WITH_A_DAY), text.try_cast(type))
    return text.try_cast(type) if isinstance(type, T.BooleanType) else _other(text, type)


def _other(text: Column, type: T.DataType) -> Column:
    if isinstance(type, T.ArrayType):
        return _array(text, type.elementType)
    if isinstance(type, T.BinaryType):
        return F.try_to_binary(text, F.lit("base64"))
    if isinstance(type, T.VariantType):
        return F.try_parse_json(text)
    if isinstance(type, T.StructType | T.MapType):
        return F.from_json(text, type.json())
    return text.try_cast(type)


def _whole(text: Column, type: T.IntegralType) -> Column:
    number = text.try_cast("decimal(38,18)")
    exact = (number % 1 == 0) & (F.abs(number) < _EXACT_IN_A_DOUBLE)
    return F.when(exact, number.try_cast(type))


def _decimal(text: Column, type: T.DecimalType) -> Column:
    whole_digits = type.precision - type.scale
    number = text.try_cast(T.DecimalType(_MOST_DIGITS, _MOST_DIGITS - whole_digits))
    value = number.try_cast(type)
    return F.when(value == number, value)


def _array(text: Column, element: T.DataType) -> Column:
    texts = elements(text, T.StringType())
    values = F.transform(texts, lambda one: typed(one, element))
    return F.when(_nulls(values) == _nulls(texts), values)


def _nulls(array: Column) -> Column:
    return F.size(F.filter(array, lambda one: one.isNull()))
