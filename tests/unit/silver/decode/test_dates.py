"""A column declared `date` holds no time of day, so none is cut off."""

from typing import Any

import pytest

from silver.decode.values.times import date_text
from tests.helpers.builders import table
from tests.helpers.flat_records import Line, decoded

MIDNIGHTS = ["2026-01-15", "2026-01-15 00:00:00", "2026-01-15T00:00:00.000Z"]
TIMES = ["2026-01-15 10:30:00", "2026-01-16T23:30:00-05:00", "2026-01-16T00:00:00-05:00"]
FORMATS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("rows", {"sequence_by": "id"}, {}),
    ("bigquery", {}, {"_CHANGE_TYPE": "UPSERT"}),
    ("snapshot", {"source": {"mode": "full", "path": "t"}}, {}),
]


@pytest.mark.parametrize(("format", "options", "added"), FORMATS)
@pytest.mark.parametrize("others", [[], ["2026-01-14"] * 100], ids=["alone", "among dates"])
def test_a_time_of_day_in_a_date_column_is_no_date_but_midnight_is(
    format: str, options: dict[str, Any], added: dict[str, Any], others: list[str]
) -> None:
    days = table(format, ["id"], columns={"id": "int", "day": "date"}, **options)
    texts = [*others, *MIDNIGHTS, *TIMES]

    rows: list[Line] = [{"id": at, "day": text} | added for at, text in enumerate(texts)]
    found = decoded(days, rows, file="/landing/t/2026-01-17/1.jsonl")

    dates = [None if day is None else date_text(day) for day in found.values("day")]
    assert dates == [*others, *["2026-01-15"] * len(MIDNIGHTS), *[None] * len(TIMES)]
    refused = [f"column day: found '{text}', expected date" for text in TIMES]
    assert found.told("message") == [None] * (len(texts) - len(TIMES)) + refused
