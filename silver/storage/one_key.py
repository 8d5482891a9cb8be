"""Conditions that select the rows of one key, whose values are given as texts."""

from collections.abc import Mapping

from pyspark.sql import Column, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import BinaryType, DataType, StructType

from lakehouse.errors import ConfigurationError
from lakehouse.storage.names import quote
from silver.storage.row_columns import all_of, column

Key = Mapping[str, str | None]


def is_key(key: Key, schema: StructType) -> Column:
    """Whether the row's key columns, of the types in `schema`, have the key's values.

    A dead letter whose key columns are all null has no key.
    """
    same = [column(k).eqNullSafe(_cast_text(v, schema[k].dataType)) for k, v in key.items()]
    if "_reason" in schema.names and not any(value is not None for value in key.values()):
        same.append(F.col("_reason").isNull())
    return all_of(same)


def says_key(text: str, key: Key, schema: StructType) -> Column:
    """Whether the column `text`, a JSON object such as `_old_key`, is the key."""
    fields = ", ".join(f"{quote(k)} {schema[k].dataType.simpleString()}" for k in key)
    said = F.from_json(text, fields)
    same = [said[k].eqNullSafe(_cast_text(v, schema[k].dataType)) for k, v in key.items()]
    return F.coalesce(F.col(text).isNotNull() & all_of(same), F.lit(False))


def check_types(spark: SparkSession, key: Key, schema: StructType) -> None:
    """Refuses a key with a value that does not have its column's type; null has every type.

    Raises:
        ConfigurationError: naming the column and its type.
    """
    said = [(k, v) for k, v in key.items() if v is not None]
    values = [_cast_text(v, schema[k].dataType).alias(f"c{at}") for at, (k, v) in enumerate(said)]
    row = spark.range(1).select(*values).first()
    for at, (name, text) in enumerate(said):
        if row is None or row[at] is None:
            kind = schema[name].dataType.simpleString()
            expected = f"a value of type {kind} for {name}"
            raise ConfigurationError("command line", "--key", text, expected, "correct it")


def _cast_text(text: str | None, kind: DataType) -> Column:
    """The value; null where the text does not have that type. Binary is base64."""
    if isinstance(kind, BinaryType):
        return F.try_to_binary(F.lit(text), F.lit("base64"))
    return F.lit(text).try_cast(kind)
