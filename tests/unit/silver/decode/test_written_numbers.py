"""Numbers of CSV files with a decimal comma, or something between thousands."""

import pytest

from lakehouse.config.csv_options import Csv
from silver.decode.values.written_numbers import NumberReader

ODD = "10.5 (see source.csv)"


@pytest.mark.parametrize(
    ("options", "text", "number"),
    [
        ({"decimal_comma": True}, "1234,50", "1234.50"),
        ({"decimal_comma": True}, "-,5", "-0.5"),
        ({"decimal_comma": True}, "7", "7"),
        ({"decimal_comma": True}, "10.5", ODD),
        ({"decimal_comma": True}, "1.234,50", "1.234,50"),
        ({"decimal_comma": True, "thousands": "."}, "-1.234.567,8", "-1234567.8"),
        ({"decimal_comma": True, "thousands": "."}, "10.000", "10000"),
        ({"decimal_comma": True, "thousands": "."}, "10.5", ODD),
        ({"decimal_comma": True, "thousands": "."}, "12.34,5", "12.34,5"),
        ({"thousands": ","}, "1,234.5", "1234.5"),
        ({"thousands": "'"}, "1'234.5", "1234.5"),
        ({"decimal_comma": True}, "", ""),
        ({"decimal_comma": True}, "NaN", "NaN"),
        ({"decimal_comma": True}, None, None),
    ],
)
def test_a_number_is_read_as_sql_writes_it(
    options: dict[str, object], text: str | None, number: str | None
) -> None:
    reader = NumberReader.of(Csv.model_validate(options))
    assert reader is not None
    assert reader.read(text) == number


def test_without_options_nothing_is_read() -> None:
    assert NumberReader.of(Csv(sep=";")) is None
