"""Groups of columns with an order of their own."""

from itertools import permutations
from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.storage.lake import Lake
from silver.decode.values.sequences import literal_sequence as literal
from tests.helpers import flat
from tests.helpers.builders import bronze_rows, decoded, table
from tests.helpers.decoding import to_changes

COLUMNS = {"id": "int", "seq": "int", "price": "int", "stock": "int", "version": "int"}
GROUPS: dict[str, Any] = {
    "columns": COLUMNS,
    "sequence_by": "seq",
    "sequence_groups": [{"sequence_by": "version", "columns": ["stock"]}],
    "apply_as_deletes": "_op = 'D'",
}


def row(id: int, seq: int, price: int, stock: int | None, version: Any) -> dict[str, Any]:
    return {"id": id, "seq": seq, "price": price, "stock": stock, "version": version}


def test_a_change_carries_its_groups_sequence_and_leaves_a_group_without_one_alone(
    spark: SparkSession,
) -> None:
    lines = [
        row(1, 1, 10, 5, 7),
        row(1, 2, 11, 6, None),
        row(1, 3, 12, 6, -1),
        {"id": 1, "seq": 4, "_op": "D"},
    ]
    found = to_changes(bronze_rows(spark, lines), table("rows", ["id"], **GROUPS))
    columns = ("_operation", "_absent", "_group_sequences", "_reason")
    assert decoded(found, *columns) == [
        ("upsert", None, {"stock": literal([7]), "version": literal([7])}, None),
        ("upsert", ["stock", "version"], None, None),
        (None, None, None, "bad_sequence"),
        ("delete", None, None, None),
    ]
    assert decoded(found, "_message")[2].startswith(
        "sequence_groups[0].sequence_by version: found -1 (int), expected"
    )


def gone(seq: int) -> dict[str, Any]:
    return {"seq": seq, "_op": "D"}


STREAMS: list[tuple[list[dict[str, Any]], Any]] = [
    ([row(0, 1, 10, 5, 9), row(0, 2, 11, 4, 3), row(0, 3, 12, 3, None)], (3, 12, 5, 9)),
    ([row(0, 1, 10, 5, 9), gone(2), row(0, 3, 8, 1, 1)], (3, 8, 1, 1)),
    ([row(0, 5, 1, 1, 1), row(0, 4, 2, 2, 1), row(0, 3, 3, 3, 2)], (5, 1, 3, 2)),
    ([row(0, 1, 1, 1, 5), row(0, 4, 2, 2, 4), gone(3)], (4, 2, 2, 4)),
]


@pytest.mark.slow
@pytest.mark.parametrize("scd", [1, 2])
def test_a_group_keeps_its_own_newest_since_the_last_delete_in_any_order(
    lake: Lake, scd: int
) -> None:
    stock = table("rows", ["id"], **GROUPS, stored_as_scd_type=scd)
    batches: list[list[Any]] = [[], [], []]
    want = []
    for number, (lines, outcome) in enumerate(STREAMS):
        for at, order in enumerate(permutations(lines)):
            id = 10 * number + at
            want.append((id, *outcome))
            for batch, line in zip(batches, order, strict=True):
                batch.append({**line, "id": id})
    batches[2] += batches[0][::2]
    for done, batch in enumerate(batches):
        flat.deliver(lake, stock, batch, done)
    names = ["id", "seq", "price", "stock", "version"]
    found = flat.rows(flat.shown(lake, stock).select(*names))
    assert found == sorted(want, key=repr)
    if scd == 2:
        history = flat.shown(lake, stock, "t_history").where("id < 6")
        versions = flat.rows(history.select("id", "seq", "price", "stock", "version"))
        one = [(1, 10, 5, 9), (2, 11, 5, 9), (3, 12, 5, 9)]
        assert versions == [(id, *version) for id in range(6) for version in one]
