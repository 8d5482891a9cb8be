"""Digests by which snapshot rows are compared with the last state.

Keys and values are each reduced to one SHA-256 of a canonical text. It has every value that is not
null with its column's name, both with their lengths in front, in order of the names: adjacent
texts, null and the empty string, and separators inside values cannot collide, and a column that is
added with nulls changes no digest. A decimal keeps its digest in a wider type. Operational columns
have a digest of their own, which does not count as a change of the row.
"""

from collections.abc import Collection

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F
from pyspark.sql import types as T

from lakehouse.storage.names import quote

KEY_DIGEST, VALUE_DIGEST, OPERATIONAL_DIGEST = "_key_digest", "_value_digest", "_rest_digest"
DIGESTS = (KEY_DIGEST, VALUE_DIGEST, OPERATIONAL_DIGEST)
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

    32 bytes each; `_rest_digest` is that of the operational columns, null without any. Columns with
    an underscore in front are silver's own and are part of no digest.
    """
    fields = {field.name: field for field in rows.schema if not field.name.startswith("_")}
    columns = {
        KEY_DIGEST: fields.keys() & {*keys},
        VALUE_DIGEST: fields.keys() - {*keys, *operational},
        OPERATIONAL_DIGEST: fields.keys() & {*operational},
    }
    digests = {name: _hash_fields([fields[c] for c in of]) for name, of in columns.items()}
    if not columns[OPERATIONAL_DIGEST]:
        digests[OPERATIONAL_DIGEST] = F.lit(None).cast("binary")
    return rows.withColumns(digests)


def _hash_fields(fields: Collection[T.StructField]) -> Column:
    """SHA-256 of the columns' values, the same for equal values in whatever order of columns."""
    parts = (_write_field(field) for field in sorted(fields, key=lambda field: field.name))
    return F.unhex(F.sha2(F.concat(F.lit(""), *parts), 256))


def _write_field(field: T.StructField) -> Column:
    text = _write_canonical(F.col(quote(field.name)), field.dataType)
    head = F.lit(f"{len(field.name)}:{field.name}")
    length = F.length(text).cast("string")
    return F.coalesce(F.concat(head, length, F.lit(":"), text), F.lit(""))


def _write_canonical(value: Column, type: T.DataType) -> Column:
    if isinstance(type, T.DecimalType) and type.scale > 0:
        return F.regexp_replace(value.cast("string"), _ZEROS_AT_THE_END, "")
    if isinstance(type, T.FractionalType) and not isinstance(type, T.DecimalType):
        return (value.cast("double") + F.lit(0.0)).cast("string")
    if isinstance(type, T.TimestampType):
        return F.unix_micros(value).cast("string")
    if isinstance(type, T.BinaryType):
        return F.hex(value)
    return _write_nested(value, type)


def _write_nested(value: Column, type: T.DataType) -> Column:
    if isinstance(type, T.MapType):
        return F.to_json(F.array_sort(F.map_entries(value)), _JSON)
    if isinstance(type, T.ArrayType | T.StructType):
        return F.to_json(value, _JSON)
    return F.to_json(value) if isinstance(type, T.VariantType) else value.cast("string")
