"""Whole records in dropped lines: `{"topic":…,"offset":…,"key":…,"value":…}` around the value."""

from pyspark.sql import DataFrame

from lakehouse.config.formats import CHANGE_MEMBERS

# No whole record is without one of these texts, which spares most bare changes the parser. They are
# the members' names without the first quote, as Spark compares the text further wherever it meets a
# first character, and JSON is full of quotes.
SIGNS = ('offset"', 'value"')
_MEMBERS = ("topic", "partition", "offset", "timestamp", "key", "headers")
_SCHEMA = ", ".join(f"`{member}` string" for member in (*_MEMBERS, *CHANGE_MEMBERS))
_MAY_BE_WHOLE = " OR ".join(f"contains(_raw, '{sign}')" for sign in SIGNS)
_OPENED = f"CASE WHEN {_MAY_BE_WHOLE} THEN from_json(_raw, '{_SCHEMA}') END AS _record"
# Null where no record was opened: then the last, costly question is not put.
_IS_CHANGE = f"coalesce({', '.join(f'_record.`{member}`' for member in CHANGE_MEMBERS)})"
_IS_WHOLE = f"""CASE
    WHEN _record IS NULL OR {_IS_CHANGE} IS NOT NULL THEN false
    WHEN _record.offset IS NOT NULL AND coalesce(_record.topic, _record.key) IS NOT NULL THEN true
    ELSE coalesce(array_contains(json_object_keys(_raw), 'value'), false)
END AS _whole"""
# Milliseconds since 1970, as Kafka counts them, or ISO 8601 text; years 1 to 9999.
_TIMESTAMP = """CASE
    WHEN try_cast(_record.timestamp AS bigint) BETWEEN -62135596800000 AND 253402300799999
        THEN timestamp_millis(try_cast(_record.timestamp AS bigint))
    WHEN try_cast(_record.timestamp AS bigint) IS NULL
        AND year(try_cast(_record.timestamp AS timestamp)) BETWEEN 1 AND 9999
        THEN try_cast(_record.timestamp AS timestamp)
END"""
_TAKEN = {
    "_topic": "_record.topic",
    "_partition": "try_cast(_record.partition AS int)",
    "_offset": "try_cast(_record.offset AS bigint)",
    "_timestamp": _TIMESTAMP,
    "_key": "_record.key",
    "_headers": "_record.headers",
}
_ORIGIN = [f"CASE WHEN _whole THEN {taken} END AS {name}" for name, taken in _TAKEN.items()]
_TYPES = ("string", "int", "bigint", "timestamp", "string", "string")
_NOTHING = [f"CAST(NULL AS {kind}) AS {name}" for name, kind in zip(_TAKEN, _TYPES, strict=True)]


def with_origin(lines: DataFrame) -> DataFrame:
    """Add `_topic` … `_headers` and `_whole` to rows of `_raw`; no row fails or goes.

    A line is a whole record when it is a JSON object that has a `value`, or an `offset` beside a
    topic or key, and none of `CHANGE_MEMBERS`. Everything is null but `_whole` (false) on any other
    line, and what does not fit its type is null. Key and headers that are JSON become compact text,
    in which Spark writes fractional numbers as doubles: `_raw` has them as they were.
    """
    opened = lines.selectExpr("*", _OPENED).selectExpr("*", _IS_WHOLE)
    return opened.selectExpr("*", *_ORIGIN).drop("_record")


def without_origin(lines: DataFrame) -> DataFrame:
    """Add the same columns, all null and `_whole` false, for records that carry no origin."""
    return lines.selectExpr("*", "false AS _whole", *_NOTHING)
