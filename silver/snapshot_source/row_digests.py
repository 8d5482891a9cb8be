"""Full and delta extracts compared with the last state by digests alone.

Keys and values are each reduced to one SHA-256 of a canonical text. Every value that is not null
stands in it with its column's name, both with their lengths in front, in order of the names: texts
that run together, null and the empty string, and separators inside values cannot collide, and a
column that is added with nulls changes no digest. A decimal keeps its digest in a wider type.
Operational columns have a digest of their own, which decides no letter.
"""

from collections.abc import Collection
from typing import Literal

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.storage.names import quote

KEY_DIGEST, VALUE_DIGEST, REST_DIGEST = "_key_digest", "_value_digest", "_rest_digest"
LETTER, REFRESHED = "operation", "_refreshed"
DIGESTS = (KEY_DIGEST, VALUE_DIGEST, REST_DIGEST)
_ZEROS_AT_THE_END = r"\.?0+\z"
_JSON = {
    "ignoreNullFields": "false",
    "timestampFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSSXXX",
    "timestampNTZFormat": "yyyy-MM-dd'T'HH:mm:ss.SSSSSS",
}


def with_digests(
    rows: DataFrame, keys: Collection[str], operational: Collection[str] = ()
) -> DataFrame:
    """The rows with `_key_digest`, `_value_digest` and `_rest_digest` of their business columns.

    32 bytes each; `_rest_digest` is that of the operational columns, null without any. Names with
    an underscore in front are the layer's own and are part of none.
    """
    fields = [field for field in rows.schema if not field.name.startswith("_")]
    values = [f for f in fields if f.name not in keys and f.name not in operational]
    named = [field for field in fields if field.name in keys]
    rest = [field for field in fields if field.name in operational]
    aside = digest(rest) if rest else F.lit(None).cast("binary")
    return rows.withColumns(
        {KEY_DIGEST: digest(named), VALUE_DIGEST: digest(values), REST_DIGEST: aside}
    )


def digest(fields: Collection[T.StructField]) -> Column:
    """SHA-256 of the columns' values, the same for equal values in whatever order of columns."""
    parts = (_part(field) for field in sorted(fields, key=lambda field: field.name))
    return F.unhex(F.sha2(F.concat(F.lit(""), *parts), 256))


def letters(incoming: DataFrame, current: DataFrame, mode: Literal["full", "delta"]) -> DataFrame:
    """What an extract says of every key: `_key_digest`, `operation`, `_refreshed`; a row per key.

    I new, U changed, N unchanged (`_refreshed` when an operational column did change); a key that
    only the current state has is D where the extract is full, else X (not supplied). A key that
    came without a value digest, as none of its rows can be believed, has no letter. Both frames
    have digests and one row per key; nothing else is read.
    """
    came, was = _digests(incoming, "incoming"), _digests(current, "current")
    joined = came.join(was, KEY_DIGEST, "full_outer")
    return joined.select(KEY_DIGEST, *_said("D" if mode == "full" else "X"))


def letters_of_few(incoming: DataFrame, current: DataFrame) -> DataFrame:
    """The letters of the incoming keys only, X left out: the few are broadcast to the state.

    The state is read where it lies; nothing of it moves but what the incoming keys meet.
    """
    came, was = _digests(incoming, "incoming"), _digests(current, "current")
    met = was.join(F.broadcast(came.select(KEY_DIGEST)), KEY_DIGEST)
    return came.join(met, KEY_DIGEST, "left").select(KEY_DIGEST, *_said("X"))


def _digests(rows: DataFrame, side: str) -> DataFrame:
    found = F.struct(F.col(VALUE_DIGEST).alias("values"), F.col(REST_DIGEST).alias("rest"))
    return rows.select(KEY_DIGEST, found.alias(side))


def _said(missing: str) -> list[Column]:
    came, was = F.col("incoming"), F.col("current")
    letter = (
        F.when(came.isNull(), missing)
        .when(came["values"].isNull(), None)
        .when(was.isNull(), "I")
        .when(came["values"] == was["values"], "N")
        .otherwise("U")
    )
    refreshed = (letter == "N") & ~came["rest"].eqNullSafe(was["rest"])
    return [letter.alias(LETTER), F.coalesce(refreshed, F.lit(False)).alias(REFRESHED)]


def _part(field: T.StructField) -> Column:
    text = _canonical(F.col(quote(field.name)), field.dataType)
    head = F.lit(f"{len(field.name)}:{field.name}")
    length = F.length(text).cast("string")
    return F.coalesce(F.concat(head, length, F.lit(":"), text), F.lit(""))


def _canonical(value: Column, type: T.DataType) -> Column:
    if isinstance(type, T.DecimalType) and type.scale > 0:
        return F.regexp_replace(value.cast("string"), _ZEROS_AT_THE_END, "")
    if isinstance(type, T.FractionalType) and not isinstance(type, T.DecimalType):
        return (value.cast("double") + F.lit(0.0)).cast("string")
    if isinstance(type, T.TimestampType):
        return F.unix_micros(value).cast("string")
    if isinstance(type, T.BinaryType):
        return F.hex(value)
    return _nested(value, type)


def _nested(value: Column, type: T.DataType) -> Column:
    if isinstance(type, T.MapType):
        return F.to_json(F.array_sort(F.map_entries(value)), _JSON)
    if isinstance(type, T.ArrayType | T.StructType):
        return F.to_json(value, _JSON)
    return F.to_json(value) if isinstance(type, T.VariantType) else value.cast("string")
