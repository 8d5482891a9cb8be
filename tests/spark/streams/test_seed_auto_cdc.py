"""The published example of AUTO CDC as a table of a lake: the tables that the example prints."""

from typing import Any

import pytest

from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from tests.helpers import flat
from tests.helpers.builders import table
from tests.spark.flows.flow_examples import COMMON, EXAMPLES, Row

pytestmark = pytest.mark.slow

SOURCE: dict[str, Any] = {
    "sequence_by": "sequenceNum",
    "columns": {"userId": "int", "name": "string", "city": "string", "sequenceNum": "int"},
}


def in_order(changes: list[Row]) -> list[list[Row]]:
    return [changes]


def in_reverse(changes: list[Row]) -> list[list[Row]]:
    return [changes[::-1]]


def one_change_per_run(changes: list[Row]) -> list[list[Row]]:
    return [[change] for change in changes]


@pytest.mark.parametrize("delivery", [in_order, in_reverse, one_change_per_run])
@pytest.mark.parametrize("case", EXAMPLES)
def test_the_published_example_gives_the_printed_table(
    lake: Lake, case: str, delivery: Any
) -> None:
    options, changes, want = EXAMPLES[case]
    users = table("rows", ["userId"], **SOURCE, **COMMON, **options)
    for done, batch in enumerate(delivery(changes)):
        flat.deliver(lake, users, [line(change) for change in batch], done)
    assert printed(lake, users) == want


def line(change: Row) -> dict[str, Any]:
    names = ("userId", "name", "city", "operation", "sequenceNum")
    return dict(zip(names, change, strict=True))


def printed(lake: Lake, users: Table) -> list[Row]:
    columns = ["userId", "name", "city"]
    if users.stored_as_scd_type == 1:
        return flat.rows(flat.shown(lake, users).select(*columns))
    bounds = [f"cast(conv(sequence_{side}, 16, 10) AS int)" for side in ("from", "to")]
    return flat.rows(flat.shown(lake, users, "t_history").selectExpr(*columns, *bounds))
