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


def is_object(text: Column) -> Column:
    """Whether the text, all of it, is one JSON object in UTF-8; false for null."""
    alone = F.json_array_length(F.concat(F.lit("["), text, F.lit("]"))) == 1
    named = F.json_object_keys(text).isNotNull()
    return F.coalesce(F.is_valid_utf8(text) & alone & named, F.lit(False))


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
