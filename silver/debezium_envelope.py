"""What is around a change: the record, its schema block, the envelope of before and after.

A raw record is parsed once, whether it is the plain value, a value wrapped with its schema, or a
whole record with either inside. The types of `before` and `after` are the caller's, so that no more
is read of them than is needed. All other values are read as text.
"""

from collections.abc import Mapping

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_SOURCE = (
    "connector", "name", "snapshot", "ts_us", "ts_ns", "ts_ms", "txId", "lsn", "sequence", "file",
    "pos", "row", "commit_lsn", "change_lsn", "event_serial_no", "commit_scn", "scn",
)  # fmt: skip
_TEXTS = ("op", "pk", "status", "ddl", "ts_us", "ts_ms")
_BEHIND = ',"behind":{}}}'
_STRICT = {
    "columnNameOfCorruptRecord": "_bad",
    "allowSingleQuotes": "false",
    "allowNonNumericNumbers": "false",
}
_SPACE = " \t\r\n\ufeff"
_BEFORE_PAYLOAD, _BEFORE_SCHEMA = ',"payload":{"before"', '"value":{"schema":'
_SCHEMA_FIRST = '{"schema":'


def whole_envelope(before: str, after: str) -> dict[str, str]:
    """Every part of the envelope that is read, with its Spark SQL type."""
    source = ", ".join(f"{name} STRING" for name in _SOURCE)
    return {
        "before": before,
        "after": after,
        "source": f"STRUCT<{source}>",
        "transaction": "STRUCT<id STRING, total_order STRING>",
        **dict.fromkeys(_TEXTS, "STRING"),
    }


def opened(raw: DataFrame, parts: Mapping[str, str]) -> DataFrame:
    """Bronze rows with parts of their envelope beside them, each record parsed once.

    Adds `_text` (the record without surrounding space), `_schema` (text of its schema block),
    `_malformed` (whether it is not one JSON object of this shape), `_empty` (whether it has no
    value at all) and a column for each part, named like it with `_` in front.

    Args:
        raw: bronze rows.
        parts: the parts to read and the Spark SQL types to read them as.
    """
    value = f"STRUCT<{_fields(parts)}>"
    whole = F.coalesce(F.col("_whole"), F.lit(False))
    parsed = raw.withColumn("_text", _trimmed()).withColumns(
        {
            "_record": F.when(whole, _members(f"STRUCT<value {value}>")),
            "_line_value": F.when(~whole, _members(value)),
        }
    )
    record, line = F.col("_record.one"), F.col("_line_value.one")
    chosen = F.coalesce(_first(record)["value"], _first(line))
    bad = F.coalesce(F.col("_record._bad"), F.col("_line_value._bad"))
    members = F.coalesce(F.map_keys(record), F.map_keys(line))
    alone = members == F.array(F.lit("value"), F.lit("behind"))
    blank = F.col("_text").isNull() | F.col("_text").isin("", "null")
    sound = bad.isNull() & F.coalesce(alone, F.lit(False))
    held = parsed.withColumns({"_value": chosen, "_sound": sound, "_blank": blank})
    cut = held.withColumn("_ahead", _ahead())
    return cut.select(*raw.columns, "_text", *_state(), *_parts(parts))


def plain_object(text: Column) -> Column:
    """A key as a map of texts, unwrapped where it comes with a schema block; else null."""
    outer = F.from_json(text, "map<string,string>")
    wrapped = F.map_contains_key(outer, F.lit("schema")) & F.map_contains_key(
        outer, F.lit("payload")
    )
    inner = F.from_json(outer["payload"], "map<string,string>")
    return F.when(wrapped & (F.size(outer) == 2), inner).otherwise(outer)


def position() -> Column:
    """Where the raw record lies: topic/partition/offset, else file and line in it."""
    split = F.shiftright("_line", 33)
    line = (F.col("_line") - F.shiftleft(split, 33)).cast("string")
    within = F.when(split == 0, line).otherwise(F.concat_ws("+", split.cast("string"), line))
    logged = F.concat_ws(
        "/", "_topic", F.col("_partition").cast("string"), F.col("_offset").cast("string")
    )
    return F.when(F.col("_offset").isNotNull(), logged).otherwise(
        F.concat(F.col("_file"), F.lit(":"), within)
    )


def _trimmed() -> Column:
    """The record without space around it; trimming is slow, so only where it is needed."""
    bare = F.col("_raw").startswith("{") & F.col("_raw").endswith("}")
    return F.when(bare, F.col("_raw")).otherwise(F.trim(F.col("_raw"), F.lit(_SPACE)))


def _members(type: str) -> Column:
    """The record as a member of an object that has another one behind it.

    Spark stops after the first value of a text. Whatever follows the record, be it what closes the
    object, keeps the two from being its members.
    """
    around = F.concat(F.lit('{"one":{"value":'), F.col("_text"), F.lit(_BEHIND))
    return F.from_json(around, f"one MAP<STRING, {type}>, _bad STRING", _STRICT)


def _first(members: Column) -> Column:
    return F.get(F.map_values(members), F.lit(0))


def _fields(parts: Mapping[str, str]) -> str:
    own = ", ".join(f"{name} {type}" for name, type in parts.items())
    return f"{own}, schema STRUCT<type STRING>, payload STRUCT<{own}>"


def _parts(parts: Mapping[str, str]) -> list[Column]:
    value, payload = F.col("_value"), F.col("_value.payload")
    return [
        F.when(payload.isNotNull(), payload[part]).otherwise(value[part]).alias(f"_{part}")
        for part in parts
    ]


def _state() -> list[Column]:
    value, blank = F.col("_value"), F.col("_blank")
    sound = F.col("_sound") & F.is_valid_utf8("_text") & F.col("_text").endswith("}")
    has_block = value["schema"].isNotNull()
    tombstone = (F.col("_whole") & value.isNull()) | (has_block & value["payload"].isNull())
    return [
        _block().alias("_schema"),
        F.coalesce(~blank & ~sound, F.lit(False)).alias("_malformed"),
        F.coalesce(blank | (sound & tombstone), F.lit(False)).alias("_empty"),
    ]


def _ahead() -> Column:
    """The record's text up to its payload, where it comes with a schema block."""
    wrapped = F.col("_value.schema").isNotNull() & F.col("_value.payload").isNotNull()
    return F.when(wrapped, F.substring_index("_text", _BEFORE_PAYLOAD, 1))


def _block() -> Column:
    """The schema block: cut out where the record is written as Debezium does, else parsed."""
    found = F.col("_ahead") != F.col("_text")
    inside = F.substring_index("_ahead", _BEFORE_SCHEMA, -1)
    alone = F.substring("_ahead", len(_SCHEMA_FIRST) + 1, 2**31 - 1)
    whole, text = F.col("_whole"), F.col("_text")
    return (
        F.when(F.col("_ahead").isNull(), F.lit(None))
        .when(found & whole & F.col("_ahead").contains(_BEFORE_SCHEMA), inside)
        .when(whole, F.get_json_object(text, "$.value.schema"))
        .when(found & text.startswith(_SCHEMA_FIRST), alone)
        .otherwise(F.get_json_object(text, "$.schema"))
    )
