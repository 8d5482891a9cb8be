import pytest
from pyspark.sql import types as T

from lakehouse.table import Source
from silver.debezium_encoding import Encoding, assumed, from_block, in_mode
from silver.debezium_toast import forms

DECIMAL = "org.apache.kafka.connect.data.Decimal"


def source(**modes: str) -> Source:
    return Source.model_validate({"format": "debezium", "path": "p", **modes})


def decimal(**parameters: str) -> dict[str, object]:
    return {"type": "bytes", "name": DECIMAL, "parameters": parameters}


@pytest.mark.parametrize(
    ("field", "type"),
    [
        ({"type": "int16"}, "smallint"),
        (decimal(scale="4", **{"connect.decimal.precision": "14"}), "decimal(14,4)"),
        (decimal(scale="4"), "decimal(38,4)"),
        (decimal(scale="odd"), "decimal(38,0)"),
        (decimal(scale="50"), "string"),
        ({"type": "int32", "name": "io.debezium.time.Date"}, "date"),
        ({"type": "int64", "name": "io.debezium.time.MicroTimestamp"}, "timestamp_ntz"),
        ({"type": "string", "name": "io.debezium.time.ZonedTimestamp"}, "timestamp"),
        ({"type": "int64", "name": "io.debezium.time.MicroDuration"}, "bigint"),
        ({"type": "string", "name": "io.debezium.data.Uuid"}, "string"),
        ({"type": "array", "items": {"type": "int64"}}, "array<bigint>"),
        ({"type": "struct", "name": "io.debezium.data.geometry.Point"}, "string"),
        ({}, "string"),
    ],
)  # fmt: skip
def test_types_of_schema_block_fields(field: dict[str, object], type: str) -> None:
    assert from_block(field).type == type


def test_a_declared_number_is_read_by_the_decimal_handling_mode() -> None:
    type = T.DecimalType(12, 2)

    assert assumed(type, source()) == Encoding("precise", "decimal(12,2)", 2)
    assert assumed(type, source(decimal_handling_mode="string")).kind == "plain"


@pytest.mark.parametrize(
    ("mode", "unit"), [("adaptive", "guess"), ("connect", "ms"), ("nanoseconds", "ns")]
)
def test_a_declared_timestamp_is_read_by_the_time_precision_mode(mode: str, unit: str) -> None:
    assert assumed(T.TimestampType(), source(time_precision_mode=mode)).unit == unit


def test_text_in_a_schema_block_that_is_declared_binary_is_read_by_the_binary_handling_mode() -> (
    None
):
    text = from_block({"type": "string"})

    assert in_mode(text, T.BinaryType(), source(binary_handling_mode="hex")).kind == "hex"
    assert in_mode(text, T.StringType(), source(binary_handling_mode="hex")) == text


def test_the_placeholder_may_be_given_as_hex() -> None:
    assert forms("hex:6e6f") == forms("no")


def test_the_placeholder_has_a_form_for_text_bytes_arrays_and_maps() -> None:
    found = forms("no")

    assert {"no", "bm8=", "6e6f", '["no"]', '["bm8="]', "[110,111]", '{"no":"no"}'} < set(found)
