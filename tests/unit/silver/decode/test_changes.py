"""Every batch in `tests/fixtures/decode` gives the columns and the changes that stand beside it."""

import pytest

from silver.decode.columns import shown_by
from tests.helpers.decode_cases import (
    Case,
    build_batch,
    decode_records,
    find_columns,
    load_cases,
    read_columns,
    write_columns,
)

CASES = list(load_cases())


def test_the_cases_are_there() -> None:
    assert len(CASES) > 700


@pytest.mark.parametrize("case", CASES, ids=[case.group for case in CASES])
def test_records_become_the_changes_of_their_case(case: Case) -> None:
    _, table, given = case
    records = build_batch(given["records"])
    if "known" in given:
        columns = read_columns(given["known"])
    else:
        columns, shapes = find_columns(table, records)
        assert write_columns(columns) == given["found"]
        assert shown_by(columns) == given.get("shown", {})
        if "shapes" in given:
            assert [shape.fields for shape in shapes] == given["shapes"]

    assert decode_records(table, columns, records) == given["changes"]
