"""What is around a change: the record, the schema block, the envelope with before, after and source.

A raw record is parsed once, whether it is the plain value, a value wrapped with its schema, or a whole
record with either inside. The types of `before` and `after` are the caller's, so that no more is
read of them than is needed. All other values are read as text.
"""

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F

_SOURCE = (
    "connector", "name", "snapshot", "ts_us", "ts_ns", "ts_ms", "txId", "lsn", "sequence", "file",
    "pos", "row", "commit_lsn", "change_lsn", "event_serial_no", "commit_scn", "scn",
)  # fmt: skip
_TEXTS = ("op", "pk", "status", "id", "ddl", "ts_us", "ts_ms")
_PARTS = ("before", "after", "source", "transaction", *_TEXTS)
_BAD = {"columnNameOfCorruptRecord": "_bad"}
_SPACE = " \t\r\n\ufeff"


def opened(raw: DataFrame, before: str, after: str) -> DataFrame:
    """Bronze rows with the parts of their envelope beside them.

    Adds `_text` (the record without surrounding space), `_schema` (text of the schema block), `_whole_bad`
    (whether it is not one JSON object of this shape), `_empty` (no value at all) and a column for
    each part of the envelope, `_before` to `_ts_ms`.

    Args:
        raw: bronze rows.
        before: Spark SQL type to read `before` as.
        after: Spark SQL type to read `after` as.
    """
    text = raw.withColumn("_text", F.trim(F.col("_raw"), F.lit(_SPACE)))
    value = _value_type(before, after)
    whole = F.coalesce(F.col("_whole"), F.lit(False))
    parsed = text.withColumns(
        {
            "_record": F.when(whole, F.from_json("_text", f"value {value}, _bad STRING", _BAD)),
            "_line_value": F.when(~whole, F.from_json("_text", _fields(before, after, True), _BAD)),
        }
    )
    chosen = F.coalesce(F.col("_record.value"), F.col("_line_value"))
    bad = F.coalesce(F.col("_record._bad"), F.col("_line_value._bad"))
    blank = F.col("_text").isNull() | F.col("_text").isin("", "null")
    held = parsed.withColumns({"_value": chosen, "_bad": bad, "_blank": blank})
    return held.select(*raw.columns, "_text", *_parts())


def plain_object(text: Column) -> Column:
    """A key as a map of texts, unwrapped where it comes with a schema block; null when it is none."""
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


def _value_type(before: str, after: str) -> str:
    return f"STRUCT<{_fields(before, after, True)}>"


def _fields(before: str, after: str, wrapper: bool) -> str:
    texts = ", ".join(f"{name} STRING" for name in _TEXTS)
    source = ", ".join(f"{name} STRING" for name in _SOURCE)
    own = (
        f"before {before}, after {after}, source STRUCT<{source}>, "
        f"transaction STRUCT<id STRING, total_order STRING>, {texts}"
    )
    if not wrapper:
        return own
    return f"{own}, schema STRING, payload STRUCT<{_fields(before, after, False)}>, _bad STRING"


def _parts() -> list[Column]:
    value, payload = F.col("_value"), F.col("_value.payload")
    wrapped = payload.isNotNull()
    parts = [
        F.when(wrapped, payload[name]).otherwise(value[name]).alias(f"_{name}") for name in _PARTS
    ]
    ends_well = F.col("_text").endswith("}")
    only_schema = value["schema"].isNotNull() & value["payload"].isNull() & value["op"].isNull()
    no_value = F.col("_blank") | (F.col("_whole") & value.isNull())
    sound = F.col("_bad").isNull() & ends_well
    empty = F.col("_blank") | (sound & F.coalesce(no_value | only_schema, F.lit(False)))
    return [
        value["schema"].alias("_schema"),
        F.coalesce(~F.col("_blank") & ~sound, F.lit(False)).alias("_malformed"),
        empty.alias("_empty"),
        *parts,
    ]
