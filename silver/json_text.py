"""Reading members out of JSON text without losing digits or the difference of null and absent.

Spark's JSON functions are forgiving: they stop after the first value of a text and take what they
can get from a broken one. Here a text counts as an object only when all of it is one.
"""

from collections.abc import Mapping

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql import types as T

UNREADABLE = "__unreadable"
LENIENT = {"allowUnquotedControlChars": "true", "columnNameOfCorruptRecord": UNREADABLE}
_BEGINS_AS_AN_ARRAY = r"\A\s*\["
_BEGINS_AS_AN_OBJECT = r"\A[ \t\r\n]*\{"


def is_object(text: Column) -> Column:
    """Whether the text, all of it, is one JSON object in UTF-8; false for null."""
    begins = text.rlike(_BEGINS_AS_AN_OBJECT)
    return F.coalesce(begins & F.is_valid_utf8(text) & _is_one_value(text), F.lit(False))


def _is_one_value(text: Column) -> Column:
    """Whether the text is one JSON value with nothing behind it; null where it is no JSON.

    It is put into an object with another member behind it: whatever follows the value, be it what
    closes that object, keeps the two from being its members.
    """
    around = F.concat(F.lit('{"value":'), text, F.lit(',"behind":0}'))
    return F.json_object_keys(around) == F.array(F.lit("value"), F.lit("behind"))


def object_members(text: Column, fields: Mapping[str, T.DataType]) -> Column:
    """The named members as one struct; `__unreadable` in it is set where Spark gave up on some."""
    schema = T.StructType([T.StructField(name, type) for name, type in fields.items()])
    return F.from_json(text, schema.add(UNREADABLE, T.StringType()), LENIENT)


def member(text: Column, name: str) -> Column:
    """One member as text, whatever it is; null when absent or null."""
    return object_members(text, {name: T.StringType()}).getField(name)


def elements(text: Column, type: T.DataType) -> Column:
    """The elements of a JSON array, each read as `type`; null when the text is no array."""
    return F.from_json(F.when(text.rlike(_BEGINS_AS_AN_ARRAY), text), T.ArrayType(type))
