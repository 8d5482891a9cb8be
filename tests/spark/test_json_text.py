"""What counts as one JSON object, beside Python's own parser."""

import json

from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from silver.json_text import is_object

OBJECTS = ["{}", '{"a": 1}', '\r\n {"a": {"b": [{}, {"c": "}, {]"}]}}\t', '{"a": "\\"}]"}']
BEHIND = [
    "",
    "\n",
    "}",
    "]",
    " rest}",
    "]}",
    "]{}",
    ",1]}",
    ",{}",
    ', "b": 1}',
    "x{}",
    '"{}',
    ":{}",
]
OTHERS = ["", " ", "{", "}", '{"a": 1', "[1]", "[{}]", "5", '"{}"', "null", "{},", "\ufeff{}"]


def test_an_object_is_one_with_nothing_behind_it(spark: SparkSession) -> None:
    texts = [text + tail for text in OBJECTS for tail in BEHIND] + OTHERS
    rows = spark.createDataFrame(list(enumerate(texts)), "at int, text string")
    found = rows.select("at", is_object(F.col("text")).alias("is"))

    assert {row["at"]: row["is"] for row in found.collect()} == {
        at: _is_object(text) for at, text in enumerate(texts)
    }


def test_no_text_and_bytes_that_are_no_utf8_are_no_object(spark: SparkSession) -> None:
    rows = spark.range(1).select(
        is_object(F.lit(None).cast("string")).alias("none"),
        is_object(F.unhex(F.lit("7B2261223A2022FF227D")).cast("string")).alias("bytes"),
    )

    assert [tuple(row) for row in rows.collect()] == [(False, False)]


def _is_object(text: str) -> bool:
    try:
        return isinstance(json.loads(text), dict)
    except ValueError:
        return False
