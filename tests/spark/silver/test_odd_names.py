"""Columns of any name, in every shape of table, over several batches."""

import pytest

from lakehouse.storage.lake import Lake
from tests.helpers import lakes
from tests.helpers.builders import table

KEYS = ["a.b", "k `y"]
ODD = [
    "x`y",
    "select",
    "ümlaut",
    'q"q',
    "back\\slash",
    "$d",
    "{x}",
    "%s",
    "a,b",
    "a;b=(c)",
    "-",
    "1",
]


def line(key: int, text: str, at: int) -> dict[str, object]:
    return {"a.b": key, "k `y": "'", "when at": at} | dict.fromkeys(ODD, text)


@pytest.mark.slow
@pytest.mark.parametrize(
    ("keys", "scd", "wait"),
    [
        pytest.param(KEYS, 1, False, marks=pytest.mark.slow),
        (KEYS, 2, False),
        pytest.param([], 1, False, marks=pytest.mark.slow),
        pytest.param(KEYS, 1, True, marks=pytest.mark.slow),
        pytest.param(KEYS, 2, True, marks=pytest.mark.slow),
        pytest.param([], 1, True, marks=pytest.mark.slow),
    ],
)
def test_a_table_takes_columns_of_any_name(
    lake: Lake, keys: list[str], scd: int, wait: bool
) -> None:
    more = {"max_staleness": 0} if wait else {}
    given = {"sequence_by": "when at", "stored_as_scd_type": scd} | more
    config = table("rows", keys, **given)
    batches = [[line(1, "old", 1), line(2, "kept", 1)], [line(1, "new", 2), line(3, "kept", 2)]]
    for number, batch in enumerate(batches, start=1):
        lakes.arrive(lake, config, batch, number)
        lakes.settle(lake, [config])
    shown = sorted((r["a.b"], *[r[c] for c in ODD]) for r in lakes.rows(lake, "t"))
    texts = (
        [(1, "new"), (2, "kept"), (3, "kept")]
        if keys
        else [(1, "new"), (1, "old"), (2, "kept"), (3, "kept")]
    )
    assert shown == [(key, *[text] * len(ODD)) for key, text in texts]
