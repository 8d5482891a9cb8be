"""Values by encoding."""

import base64
import json
from decimal import Decimal
from typing import Any

import pytest
from pyspark.sql import types as T

from lakehouse.config.source import DebeziumSource
from silver.decode.debezium.events.placeholders import Placeholders
from silver.decode.types import Misfit, parse_type
from silver.decode.values.converters import converter_of, handle_infinity, refuse
from silver.decode.values.encodings import (
    Encoding,
    Field,
    Kind,
    Unit,
    assume_encoding,
    block_fields,
    from_block,
    in_mode,
)
from silver.decode.values.json_values import parse_json
from silver.decode.values.times import date_text, timestamp_text
from tests.helpers.debezium_records import decoded, event, plain, table

CONNECT, TIME, DATA = (
    "org.apache.kafka.connect.data.",
    "io.debezium.time.",
    "io.debezium.data.",
)
WHOLE_NUMBERS = [
    *(0, 1, -1, 127, 128, -128, -129, 2**63 - 1, 2**63, -(2**63), -(2**63) - 1, 2**64),
    *(10**38 - 1, -(10**38), 10**40, -(10**60), 10**300 + 7),
]


def source(**modes: str) -> DebeziumSource:
    return DebeziumSource.model_validate({"format": "debezium", "path": "p", **modes})


def encoding(kind: Kind, type: str, scale: int = 0, unit: Unit = "us") -> Encoding:
    return Encoding(kind, parse_type(type), scale, unit)


def value(of: Encoding, type: str, token: str, sourced: bool = True) -> Any:
    """What a JSON text becomes in a column of the type; "misfit" where it does not fit."""
    try:
        return converter_of(of, parse_type(type), sourced)(parse_json(token))
    except Misfit:
        return "misfit"


def packed(number: int) -> str:
    octets = number.to_bytes(number.bit_length() // 8 + 1, "big", signed=True)
    return base64.b64encode(octets).decode()


def decimal(**parameters: str) -> dict[str, object]:
    return {"type": "bytes", "name": CONNECT + "Decimal", "parameters": parameters}


@pytest.mark.parametrize("number", WHOLE_NUMBERS)
def test_numbers_of_any_length_are_exact(number: int) -> None:
    text = json.dumps(packed(number))

    assert value(encoding("decimal", "string"), "string", text) == str(number)
    assert value(encoding("decimal", "decimal(38,0)"), "decimal(38,0)", text) in (
        (Decimal(number),) if abs(number) < 10**38 else ("misfit",)
    )


@pytest.mark.parametrize(
    ("number", "text"),
    [
        (314159265358979323846, "3.14159265358979323846"),
        (-5, "-0.00000000000000000005"),
        (0, "0." + "0" * 20),
    ],
)
def test_the_point_goes_where_the_scale_says(number: int, text: str) -> None:
    of, token = encoding("decimal", "decimal(38,20)", 20), json.dumps(packed(number))

    assert value(of, "string", token) == text
    assert value(of, "decimal(38,20)", token) == Decimal(text)


@pytest.mark.parametrize(
    ("type", "number", "expected"),
    [
        ("decimal(6,2)", 100300, Decimal("10.03")),
        ("decimal(6,2)", 100301, "misfit"),
        ("decimal(6,2)", 10**12, "misfit"),
        ("decimal(14,4)", 10**14 - 1, Decimal("9999999999.9999")),
        ("decimal(14,4)", 10**14, "misfit"),
        ("decimal(16,6)", -(10**14) + 1, Decimal("-9999999999.9999")),
        ("decimal(16,6)", 10**14, "misfit"),
        ("bigint", 30000, 3),
        ("bigint", 30001, "misfit"),
        ("tinyint", 1280000, "misfit"),
        ("double", 15000, 1.5),
        ("float", 15000, 1.5),
        ("string", 15000, "1.5000"),
    ],
)
def test_a_number_that_would_be_rounded_or_cut_does_not_fit(
    type: str, number: int, expected: object
) -> None:
    of = encoding("decimal", "decimal(14,4)", 4)

    assert value(of, type, json.dumps(packed(number))) == expected


@pytest.mark.parametrize("scale", [-16385, 16385])
def test_a_scale_beyond_all_measure_does_not_fit(scale: int) -> None:
    token = json.dumps({"scale": scale, "value": "Dw=="})

    assert value(encoding("variable", "string"), "string", token) == "misfit"


@pytest.mark.parametrize("kind", ["plain", "precise", "variable"])
@pytest.mark.parametrize(
    ("token", "variable", "expected"),
    [
        ("1.005", (1005, 3), "misfit"),
        ("1.5000", (15000, 4), Decimal("1.5")),
        ("-12345678.90", (-1234567890, 2), Decimal("-12345678.90")),
        ("123456789.12", (12345678912, 2), "misfit"),
        ("0.1234567890123456789", (1234567890123456789, 19), "misfit"),
        ("7", (7, 0), Decimal(7)),
        ("700", (7, -2), Decimal(700)),
        ("1e2", (1, -2), Decimal(100)),
        ("1e9", (1, -9), "misfit"),
    ],
)
def test_plain_and_variable_numbers_fit_exactly_or_not(
    kind: Kind, token: str, variable: tuple[int, int], expected: object
) -> None:
    of = encoding(kind, "decimal(10,2)", 2 if kind == "precise" else 0)
    if kind == "variable":
        token = json.dumps({"scale": variable[1], "value": packed(variable[0])})

    assert value(of, "decimal(10,2)", token) == expected


@pytest.mark.parametrize(
    ("token", "sourced", "expected"),
    [
        ('"1500"', True, Decimal(int.from_bytes(base64.b64decode("1500"), "big", signed=True))),
        ('"1500"', False, Decimal(150000)),
        ("1500", True, Decimal(150000)),
        ('"15.5"', True, Decimal(1550)),
        ('"-500"', True, Decimal(-50000)),
        ('{"scale":1,"value":"Dw=="}', True, Decimal(150)),
        ('{"scale":1}', True, "misfit"),
        ('"NaN"', True, "misfit"),
        ('""', True, "misfit"),
        ("true", True, "misfit"),
        ("[1]", True, "misfit"),
    ],
)
def test_a_number_without_a_schema_in_precise_mode_is_base64_of_variable_scale_or_plain(
    token: str, sourced: bool, expected: object
) -> None:
    of = assume_encoding(T.DecimalType(12, 2), source(decimal_handling_mode="precise"))

    found = value(of, "decimal(12,2)", token, sourced)

    assert found == (expected / 100 if isinstance(expected, Decimal) else expected)


@pytest.mark.parametrize(
    ("shown", "token", "expected"),
    [
        (None, '"1500"', "misfit"),
        (None, '"1E+3"', "misfit"),
        (None, '"Infinity"', "misfit"),
        (None, '"15000"', 15000),
        (None, '"-500"', -500),
        (None, '"15.5"', Decimal("15.5")),
        (None, '"BQ=="', Decimal("0.05")),
        (None, "1500", 1500),
        (None, '{"scale":1,"value":"Dw=="}', Decimal("1.5")),
        ("base64", '"1500"', Decimal("-26467.32")),
        ("base64", '"BQ=="', Decimal("0.05")),
        ("base64", '"15.5"', "misfit"),
        ("base64", "1500", 1500),
        ("base64", '{"scale":1,"value":"Dw=="}', Decimal("1.5")),
        ("plain", '"1500"', 1500),
        ("plain", '"1E+3"', 1000),
        ("plain", '"BQ=="', "misfit"),
        ("plain", '"null"', "misfit"),
        ("plain", '{"scale":1,"value":"Dw=="}', Decimal("1.5")),
    ],
)
@pytest.mark.parametrize("nested", [False, True])
def test_digits_are_taken_for_base64_only_where_other_texts_show_it(
    shown: str | None, token: str, expected: object, nested: bool
) -> None:
    type = "array<decimal(12,2)>" if nested else "decimal(12,2)"
    of = assume_encoding(parse_type(type), source(), shown)

    found = value(of, type, f"[{token}]" if nested else token)

    assert found == ([expected] if nested and expected != "misfit" else expected)


@pytest.mark.parametrize(
    ("type", "token", "expected"),
    [
        ("string", '{"scale":1,"value":"Dw=="}', "1.5"),
        ("string", '{"scale":1,"value":"Dw==","more":1}', '{"scale":1,"value":"Dw==","more":1}'),
        ("string", '"{\\"scale\\":1}"', '{"scale":1}'),
        ("string", "12.340", "12.340"),
        ("string", "true", "true"),
        ("bigint", '"5"', 5),
        ("bigint", "9223372036854775807", 2**63 - 1),
        ("bigint", "9223372036854775808", "misfit"),
        ("int", "2147483648", "misfit"),
        ("int", "1.5", "misfit"),
        ("int", "true", "misfit"),
        ("int", "{}", "misfit"),
        ("double", "1.5", 1.5),
        ("double", '"NaN"', "nan"),
        ("float", "3", 3.0),
        ("boolean", "true", True),
        ("boolean", "1", True),
        ("boolean", "2", "misfit"),
        ("struct<a:int>", '{"a":1}', {"a": 1}),
        ("map<string,int>", '{"a":1}', [("a", 1)]),
        ("map<string,int>", '{"a":"x"}', "misfit"),
        ("struct<a:int>", '{"a":"x"}', "misfit"),
        ("struct<a:int>", '{"a":3000000000}', "misfit"),
        ("struct<a:struct<b:date>>", '{"a":{"b":"soon"}}', "misfit"),
        ("array<int>", '[1,"x"]', "misfit"),
        ("array<struct<a:tinyint>>", '[{"a":1},{"a":300}]', "misfit"),
        ("map<string,array<decimal(3,1)>>", '{"a":[1.25]}', "misfit"),
        ("array<int>", '{"a":1}', "misfit"),
        ("struct<a:int>", "5", "misfit"),
    ],
)
def test_values_without_a_schema_are_read_by_the_column_s_type(
    type: str, token: str, expected: object
) -> None:
    found = value(assume_encoding(parse_type(type), source()), type, token)

    assert (str(found) if expected == "nan" else found) == expected


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ('{"scale":1,"value":"Dw=="}', "1.5"),
        ('{"scale":-2,"value":"Aw=="}', "300"),
        ('{"scale":0,"value":"Aw=="}', "3"),
        ("7", "misfit"),
        ('{"scale":1,"value":""}', "misfit"),
        ('{"scale":1,"value":"?"}', "misfit"),
        ('{"scale":"1","value":"Dw=="}', "misfit"),
    ],
)
def test_variable_scale(token: str, expected: str) -> None:
    assert value(encoding("variable", "string"), "string", token) == expected


@pytest.mark.parametrize(
    ("token", "expected"), [("12.50", "12.50"), ("7", "7"), ("true", "misfit")]
)
def test_decimals_may_be_written_as_numbers(token: str, expected: str) -> None:
    of = encoding("decimal", "decimal(10,2)", 2)

    assert value(of, "string", token) == expected
    assert value(of, "decimal(10,2)", token) == (
        expected if expected == "misfit" else Decimal(expected)
    )


@pytest.mark.parametrize(
    ("unit", "token", "expected"),
    [
        ("us", "1709212455123456", "2024-02-29 13:14:15.123456"),
        ("ms", "1709212455123", "2024-02-29 13:14:15.123"),
        ("ns", "1709212455123456789", "2024-02-29 13:14:15.123456"),
        ("ns", "-1", "1969-12-31 23:59:59.999999"),
        ("guess", "1709212455123456", "2024-02-29 13:14:15.123456"),
        ("guess", "1709212455123", "2024-02-29 13:14:15.123"),
        ("guess", '"1709212455123"', "2024-02-29 13:14:15.123"),
        ("guess", "1709212455123456700", "2024-02-29 13:14:15.123456"),
        ("guess", "-631152000000000000", "1950-01-01 00:00:00"),
        ("guess", "253402300799999", "9999-12-31 23:59:59.999"),
        ("guess", "253402300799999999", "9999-12-31 23:59:59.999999"),
        ("guess", "1709212455123456700", "2024-02-29 13:14:15.123456"),
        ("guess", "-2208988800000000100", "1899-12-31 23:59:59.999999"),
        ("us", "-62135596800000000", "0001-01-01 00:00:00"),
        ("us", "-62135596800000001", "misfit"),
        ("us", "-99999999999999999", "misfit"),
        ("us", '"2024-02-29T13:14:15.123456Z"', "2024-02-29 13:14:15.123456"),
        ("us", '"2024-02-29T13:14:15.123Z"', "2024-02-29 13:14:15.123"),
        ("us", '"2024-02-29T13:14:15Z"', "2024-02-29 13:14:15"),
        ("us", '"2024-02-29T13:14:15.5Z"', "2024-02-29 13:14:15.5"),
        ("us", '"2024-02-29T13:14:15.123456789Z"', "2024-02-29 13:14:15.123456"),
        ("us", '"2024-02-29 13:14:15"', "2024-02-29 13:14:15"),
        ("us", '"2024-02-29"', "2024-02-29 00:00:00"),
        ("us", '"2024-W09-4T13:14:15"', "misfit"),
        ("us", '"2023-02-29T13:14:15Z"', "misfit"),
        ("us", '"2024-02-29T25:14:15Z"', "misfit"),
        ("us", '"0000-01-01T00:00:00Z"', "misfit"),
        ("us", '"now"', "misfit"),
        ("us", '""', "misfit"),
        ("us", "1.5", "misfit"),
        ("us", "true", "misfit"),
        ("us", "12345678901234567890123", "misfit"),
    ],
)
def test_timestamps(unit: Unit, token: str, expected: str) -> None:
    of = encoding("timestamp", "timestamp_ntz", unit=unit)

    found = value(of, "timestamp_ntz", token)

    assert (found if found == "misfit" else timestamp_text(found)) == expected
    assert value(of, "timestamp", token) == found
    assert value(of, "string", token) == expected
    assert value(of, "date", token) == (found if found == "misfit" else found // 86_400_000_000)


@pytest.mark.parametrize(
    ("unit", "token", "clamped"),
    [
        ("guess", "9223372036825200000", "9999-12-31 23:59:59.999999"),
        ("guess", "9223372036825200000", "9999-12-31 23:59:59.999999"),
        ("guess", "-9223372036832400000", "0001-01-01 00:00:00"),
        ("guess", "9223372036825200", "9999-12-31 23:59:59.999999"),
        ("guess", "-9223372036832400", "0001-01-01 00:00:00"),
        ("us", "9223372036825200000", "9999-12-31 23:59:59.999999"),
        ("ms", "9223372036825200", "9999-12-31 23:59:59.999999"),
        ("us", "-9223372036832400000", "0001-01-01 00:00:00"),
        ("us", '"infinity"', "9999-12-31 23:59:59.999999"),
        ("us", '"-infinity"', "0001-01-01 00:00:00"),
        ("us", '"+12024-02-29T13:14:15Z"', "9999-12-31 23:59:59.999999"),
        ("us", '"-290308-12-21T19:59:06.224192Z"', "0001-01-01 00:00:00"),
        ("us", "-62135596800000001", "0001-01-01 00:00:00"),
        ("us", '"0000-01-01T00:00:00Z"', "0001-01-01 00:00:00"),
    ],
)
def test_a_timestamp_outside_of_the_years_1_to_9999_is_taken_as_the_column_declares(
    unit: Unit, token: str, clamped: str
) -> None:
    of = encoding("timestamp", "timestamp_ntz", unit=unit)

    for type in ("timestamp_ntz", "timestamp", "date", "string"):
        assert value(of, type, token) == "misfit"
        convert = converter_of(of, parse_type(type))
        assert handle_infinity(convert, "null")(parse_json(token)) is None
    assert value(of, "timestamp_ntz", '"2024-02-29"') == 1709164800000000
    found = handle_infinity(converter_of(of, parse_type("timestamp_ntz")), "clamp")(
        parse_json(token)
    )
    assert isinstance(found, int)
    assert timestamp_text(found) == clamped


@pytest.mark.parametrize(
    ("token", "clamped"),
    [
        ("-2147472693", "9999-12-31"),
        ("-2147472692", "0001-01-01"),
        ("99999999", "9999-12-31"),
        ('"infinity"', "9999-12-31"),
        ('"-infinity"', "0001-01-01"),
        ("-719163", "0001-01-01"),
    ],
)
def test_a_date_outside_of_the_years_1_to_9999_is_taken_as_the_column_declares(
    token: str, clamped: str
) -> None:
    convert = converter_of(encoding("date", "date"), parse_type("date"))

    assert value(encoding("date", "date"), "date", token) == "misfit"
    assert handle_infinity(convert, "null")(parse_json(token)) is None
    found = handle_infinity(convert, "clamp")(parse_json(token))
    assert isinstance(found, int)
    assert date_text(found) == clamped
    assert handle_infinity(convert, "clamp")(19782) == 19782
    with pytest.raises(Misfit):
        handle_infinity(convert, "clamp")("now")


@pytest.mark.parametrize(
    ("text", "zoned", "local"),
    [
        ("2024-02-29T13:14:15+02:00", "2024-02-29 11:14:15", "2024-02-29 13:14:15"),
        ("2024-02-29T13:14:15.250-05:30", "2024-02-29 18:44:15.25", "2024-02-29 13:14:15.25"),
    ],
)
def test_a_zone_counts_for_a_timestamp_with_one_alone(text: str, zoned: str, local: str) -> None:
    of, token = encoding("timestamp", "timestamp"), json.dumps(text)

    assert timestamp_text(value(of, "timestamp", token)) == zoned
    assert timestamp_text(value(of, "timestamp_ntz", token)) == local
    assert value(of, "string", token) == text


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("19782", "2024-02-29"),
        ('"19782"', "2024-02-29"),
        ("-719162", "0001-01-01"),
        ("-719163", "misfit"),
        ('"2024-02-29Z"', "2024-02-29"),
        ('"2024-02-29"', "2024-02-29"),
        ('"2024-02-29T00:00:00Z"', "2024-02-29"),
        ('"2024-02-29T10:30:00Z"', "misfit"),
        ('"2023-02-29"', "misfit"),
        ("-800000", "misfit"),
        ('"x"', "misfit"),
        ("1704067200000", "misfit"),
    ],
)
def test_dates(token: str, expected: str) -> None:
    of = encoding("date", "date")

    found = value(of, "date", token)

    assert (found if found == "misfit" else date_text(found)) == expected
    assert value(of, "string", token) == expected
    micros = value(of, "timestamp", token)
    assert micros == (found if found == "misfit" else found * 86_400_000_000)


DAY = '"year":2024,"month":2,"day":29'
CLOCK = '"hour":13,"minute":14,"second":15,"nanos":120000000'
NO_DATE = '"years":0,"months":0,"days":0'


@pytest.mark.parametrize(
    ("name", "token", "type", "text"),
    [
        ("Date", f"{{{DAY}}}", "date", "2024-02-29"),
        ("Date", '{"year":0,"month":0,"day":0}', "date", "misfit"),
        ("Date", '{"year":-43,"month":3,"day":15}', "date", "misfit"),
        ("Date", '{"year":null,"specialValue":"POSITIVE_INFINITY"}', "date", "misfit"),
        ("Date", "{}", "date", "misfit"),
        ("Date", '{"year":"2024","month":2,"day":29}', "date", "misfit"),
        ("Timestamp", f"{{{DAY},{CLOCK}}}", "timestamp_ntz", "2024-02-29 13:14:15.12"),
        (
            "Timestamp",
            f'{{{DAY},"hour":1,"minute":2,"second":3,"picoseconds":123456789012,"precision":6}}',
            "timestamp_ntz",
            "2024-02-29 01:02:03.123456",
        ),
        ("Timestamp", '{"year":10000,"month":1,"day":1,"hour":0}', "timestamp_ntz", "misfit"),
        (
            "ZonedTimestamp",
            f'{{{DAY},{CLOCK},"offsetSeconds":-5400,"zoneId":"x"}}',
            "timestamp",
            "2024-02-29 14:44:15.12",
        ),
        ("ZonedTimestamp", f'{{{DAY},{CLOCK},"offsetSeconds":0}}', "timestamp", None),
        ("Time", f"{{{CLOCK}}}", "string", "13:14:15.12"),
        ("Time", '{"hour":24,"minute":0,"second":0,"nanos":0}', "string", "24:00:00"),
        ("ZonedTime", f'{{{CLOCK},"offsetSeconds":19800}}', "string", "13:14:15.12+05:30"),
        (
            "Duration",
            f'{{{NO_DATE},"hours":-838,"minutes":-59,"seconds":-59,"nanos":-500000000}}',
            "string",
            "-838:59:59.5",
        ),
        (
            "Duration",
            '{"years":1,"months":0,"days":2,"hours":4,"minutes":5,"seconds":6,"nanos":0}',
            "string",
            "1 years 2 days 04:05:06",
        ),
    ],
)
def test_dates_and_times_in_parts(name: str, token: str, type: str, text: str | None) -> None:
    of = from_block({"type": "struct", "name": f"{TIME}Structured{name}", "fields": []})
    assert of.type == parse_type(type)

    found = value(of, type, token)

    shown = date_text if type == "date" else timestamp_text
    shown_as = found if isinstance(found, str) else shown(found)
    assert shown_as == (text or "2024-02-29 13:14:15.12")
    assert value(assume_encoding(parse_type(type), source()), type, token) == (
        token if type == "string" else found
    )


def test_the_ends_of_time_in_parts_are_taken_as_the_column_declares() -> None:
    of = from_block({"type": "struct", "name": f"{TIME}StructuredDate"})
    for end, clamped in (("POSITIVE", "9999-12-31"), ("NEGATIVE", "0001-01-01")):
        convert = handle_infinity(converter_of(of, T.DateType()), "clamp")
        days = convert({"year": None, "specialValue": f"{end}_INFINITY"})
        assert isinstance(days, int) and date_text(days) == clamped


@pytest.mark.parametrize(
    ("unit", "token", "expected"),
    [
        ("us", "0", "00:00:00"),
        ("us", "47655123456", "13:14:15.123456"),
        ("us", "47655120000", "13:14:15.12"),
        ("us", "86400000000", "24:00:00"),
        ("us", "86400000001", "24:00:00.000001"),
        ("us", "-1", "-00:00:00.000001"),
        ("us", "3020399000000", "838:59:59"),
        ("us", "-3020399000000", "-838:59:59"),
        ("us", "3020400000000", "misfit"),
        ("us", "-3020400000000", "misfit"),
        ("ms", "47655123", "13:14:15.123"),
        ("ns", "47655123456700", "13:14:15.1234567"),
        ("us", '"09:59:59.9Z"', "09:59:59.9"),
    ],
)
def test_times_include_the_end_of_the_day_and_mysql_s_durations(
    unit: Unit, token: str, expected: str
) -> None:
    assert value(encoding("time", "string", unit=unit), "string", token) == expected


@pytest.mark.parametrize(
    ("token", "expected"),
    [
        ("[1,null,3]", [1, None, 3]),
        ("[]", []),
        ('"[1]"', [1]),
        ('["x"]', "misfit"),
        ("7", "misfit"),
        ('{"a":1}', "misfit"),
        ('"["', "misfit"),
    ],
)
def test_an_array_is_read_element_by_element_or_not_at_all(token: str, expected: object) -> None:
    of = from_block({"type": "array", "items": {"type": "int32"}})

    assert value(of, "array<int>", token) == expected


def test_an_array_of_numbers_in_base64() -> None:
    of = from_block({"type": "array", "items": decimal(scale="1")})

    assert value(of, "array<decimal(5,1)>", f'["{packed(15)}",null]') == [Decimal("1.5"), None]
    assert value(of, "array<string>", f'["{packed(15)}",null]') == ["1.5", None]


@pytest.mark.parametrize(
    ("kind", "token", "expected"),
    [
        ("base64", "+/8=", b"\xfb\xff"),
        ("base64", "+/8", b"\xfb\xff"),
        ("base64", "", b""),
        ("base64", "+/ 8=\n", b"\xfb\xff"),
        ("base64", "-_8=", "misfit"),
        ("base64", "?", "misfit"),
        ("base64url", "-_8=", b"\xfb\xff"),
        ("octets", "+/8=", b"\xfb\xff"),
        ("octets", "fbff", b"}\xb7\xdf"),
        ("octets", "fbff0a", "misfit"),
        ("octets", "fbff0a00", "misfit"),
        ("octets", "fbff0A00", b"}\xb7\xdf\xd0\r4"),
        ("hex", "fbff", b"\xfb\xff"),
        ("hex", "fbf", "misfit"),
        ("hex", "xx", "misfit"),
    ],
)
def test_bytes_by_handling_mode(kind: Kind, token: str, expected: object) -> None:
    assert value(encoding(kind, "binary"), "binary", json.dumps(token)) == expected


@pytest.mark.parametrize("token", ["5", "[1]", "true"])
def test_bytes_are_texts(token: str) -> None:
    assert value(encoding("base64", "binary"), "binary", token) == "misfit"


@pytest.mark.parametrize("of", ["date", "timestamp", "timestamp_ntz"])
@pytest.mark.parametrize(
    "field", [{"type": "int32"}, {"type": "int64", "name": f"{TIME}MicroTime"}]
)
def test_numbers_that_are_no_ticks_and_times_of_day_are_no_moments(field: Field, of: str) -> None:
    assert value(from_block(field), of, "1760000000") == "misfit"
    assert value(from_block({"type": "string"}), of, '"2025-10-09"') != "misfit"


def test_a_date_written_as_a_number_is_no_count_of_days() -> None:
    assert value(encoding("date", "date"), "date", "20251009") == "misfit"


def test_a_column_of_another_kind_refuses_every_value() -> None:
    with pytest.raises(Misfit):
        refuse(1)


@pytest.mark.parametrize(
    ("field", "type"),
    [
        ({"type": "int8"}, "tinyint"),
        ({"type": "int16"}, "smallint"),
        ({"type": "float32"}, "float"),
        ({"type": "double"}, "double"),
        ({"type": "boolean"}, "boolean"),
        ({"type": "bytes"}, "binary"),
        (decimal(scale="4", **{"connect.decimal.precision": "14"}), "decimal(14,4)"),
        (decimal(scale="4"), "decimal(38,4)"),
        (decimal(scale="odd"), "decimal(38,0)"),
        (decimal(scale="50"), "string"),
        ({"name": CONNECT + "Decimal"}, "decimal(38,0)"),
        ({"type": "int32", "name": TIME + "Date"}, "date"),
        ({"type": "int32", "name": CONNECT + "Date"}, "date"),
        ({"type": "string", "name": TIME + "IsoDate"}, "date"),
        ({"type": "int64", "name": TIME + "MicroTime"}, "string"),
        ({"type": "int64", "name": TIME + "MicroTimestamp"}, "timestamp_ntz"),
        ({"type": "int64", "name": CONNECT + "Timestamp"}, "timestamp_ntz"),
        ({"type": "string", "name": TIME + "ZonedTimestamp"}, "timestamp"),
        ({"type": "int64", "name": TIME + "MicroDuration"}, "bigint"),
        ({"type": "struct", "name": DATA + "VariableScaleDecimal"}, "string"),
        ({"type": "string", "name": DATA + "Uuid"}, "string"),
        ({"type": "array", "items": {"type": "int64"}}, "array<bigint>"),
        ({"type": "array", "items": {"type": "array", "items": {}}}, "array<array<string>>"),
        ({"type": "array"}, "string"),
        ({"type": "struct", "name": DATA + "geometry.Point"}, "string"),
        ({}, "string"),
    ],
)  # fmt: skip
def test_types_of_schema_block_fields(field: Field, type: str) -> None:
    assert from_block(field).type.simpleString() == type


def test_a_declared_number_is_read_by_the_decimal_handling_mode() -> None:
    type = T.DecimalType(12, 2)

    precise = source(decimal_handling_mode="precise")
    assert assume_encoding(type, precise) == Encoding("precise", type, 2)
    assert assume_encoding(type, source()) == Encoding("unsure", type, 2)
    assert assume_encoding(type, source(decimal_handling_mode="string")).kind == "plain"
    assert assume_encoding(T.StringType(), source(decimal_handling_mode="double")).kind == "plain"


@pytest.mark.parametrize(
    ("mode", "unit"),
    [
        ("adaptive", "guess"),
        ("adaptive_time_microseconds", "guess"),
        ("connect", "ms"),
        ("microseconds", "us"),
        ("nanoseconds", "ns"),
        ("isostring", "us"),
    ],
)
def test_a_declared_timestamp_is_read_by_the_time_precision_mode(mode: str, unit: str) -> None:
    assert assume_encoding(T.TimestampType(), source(time_precision_mode=mode)).unit == unit


@pytest.mark.parametrize(
    ("mode", "kind"),
    [("bytes", "base64"), ("base64", "base64"), ("base64-url-safe", "base64url"), ("hex", "hex")],
)
def test_declared_bytes_are_read_by_the_binary_handling_mode(mode: str, kind: str) -> None:
    given = source(binary_handling_mode=mode)
    text = from_block({"type": "string"})

    assert assume_encoding(T.BinaryType(), given).kind == kind
    assert in_mode(text, T.BinaryType(), given).kind == kind
    assert in_mode(text, T.StringType(), given) == text


@pytest.mark.parametrize(
    "text", [b"", b"5", b"{", b'{"fields":5}', b'{"fields":[{"field":"after"}]}', b"[" * 5000]
)
def test_text_that_is_no_schema_block_has_no_fields(text: bytes) -> None:
    assert block_fields(text) == {}


def test_the_placeholder_may_be_given_as_hex() -> None:
    one, other = Placeholders("hex:6e6f"), Placeholders("no")

    assert (one.texts, one.lists, one.map) == (other.texts, other.lists, other.map)


def test_the_placeholder_has_a_form_for_text_bytes_arrays_and_maps() -> None:
    found = Placeholders("no")

    assert {"no", "bm8=", "6e6f", '["no"]', '["bm8="]', "[110,111]", '{"no":"no"}'} < found.texts
    for value in ("no", ["no"], ["bm8="], [110, 111], {"no": "no"}):
        assert found.match(value)
    for value in ("yes", [], ["no", "no"], 5, True, {"no": "yes"}):
        assert not found.match(value)


def test_octets_above_127_count_as_signed() -> None:
    assert Placeholders("hex:ff01").match([-1, 1])


OUTSIDE: dict[str, tuple[str, object, str, str]] = {
    "a year before Christ as PostgreSQL prints it": ("date", "0044-03-15 BC", "years 1", "0001"),
    "a time before Christ": ("timestamp", "4713-01-01 00:00:00 BC", "years 1", "0001"),
    "MySQL's zero date": ("date", "0000-00-00", "`infinity: clamp`", "0001"),
    "MySQL's zero time": ("timestamp", "0000-00-00 00:00:00", "`infinity: clamp`", "0001"),
    "a year after SQL Server's last": ("timestamp", "10000-01-01T00:00:00Z", "years 1", "9999"),
    "a time of 24 hours in a timestamp": ("timestamp", "2025-01-01T24:00:00Z", "timestamp", ""),
    "NaN of a numeric": ("decimal(10,2)", "NaN", "declare double, float or string", ""),
    "NaN as Debezium writes it": ("decimal(10,2)", "NAN", "declare double, float or string", ""),
    "NaN among whole numbers": ("bigint", "NaN", "declare double, float or string", ""),
    "a number beyond the digits": ("decimal(38,0)", 10**38, "expected decimal(38,0)", ""),
}


@pytest.mark.parametrize("name", OUTSIDE)
def test_a_value_outside_of_its_type_is_told_or_what_the_column_declares(name: str) -> None:
    type, value, said, clamped = OUTSIDE[name]
    records = plain(event("c", after={"id": 1, "v": value}))

    [refused] = decoded(table(columns={"id": "bigint", "v": type}), records)
    assert (refused["_reason"], refused["v"]) == ("bad_value", None)
    assert said in refused["_message"]
    if clamped:
        for infinity, expected in (("null", "None"), ("clamp", clamped)):
            column = {"type": type, "infinity": infinity}
            [found] = decoded(table(columns={"id": "bigint", "v": column}), records)
            assert (found["_reason"], str(found["v"])[:4]) == (None, expected)


@pytest.mark.parametrize(
    ("type", "value", "expected"),
    [
        ("double", "POSITIVE_INFINITY", "inf"),
        ("double", "NEGATIVE_INFINITY", "-inf"),
        ("float", "NAN", "nan"),
        ("string", "24:00:00Z", "24:00:00Z"),
        ("string", "P1Y2M3DT4H5M6.78S", "P1Y2M3DT4H5M6.78S"),
        ("timestamp", "0001-01-01T00:00:00Z", "0001-01-01 00:00:00"),
        ("timestamp", "9999-12-31T23:59:59.9999999Z", "9999-12-31 23:59:59.999999"),
    ],
)
def test_the_ends_of_what_a_type_holds_are_values(type: str, value: str, expected: str) -> None:
    [found] = decoded(
        table(columns={"id": "bigint", "v": type}), plain(event("c", after={"id": 1, "v": value}))
    )
    assert (found["_reason"], str(found["v"])) == (None, expected)
