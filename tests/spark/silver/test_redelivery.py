"""What was applied already is delivered again, in one batch with what is new."""

import pytest

from gold.views import agreement
from lakehouse.storage.lake import Lake
from silver.audit.verify import verify
from silver.state.table_state import TableState
from tests.helpers import core, lakes, oracle
from tests.helpers.builders import Line, table
from tests.helpers.oracle import Event
from tests.helpers.sums import sums

pytestmark = pytest.mark.slow

WHOLE = (("a", "a"), ("b", "b"))


@pytest.mark.parametrize("scd", [1, 2])
def test_a_delete_counts_that_comes_with_its_row_s_upsert_once_more(lake: Lake, scd: int) -> None:
    config = core.table(scd)
    upsert, delete = Event("upsert", 1, 1, WHOLE, position=1), Event("delete", 2, 1, position=2)
    done = core.deliver(lake, config, [upsert], 0, 0)
    core.deliver(lake, config, [upsert, delete], 1, done)
    want = oracle.outcome({upsert, delete}, core.COLUMNS, core.COLUMNS)
    assert core.outcome(lake, config).current == want.current == {}


X, Y = ({"id": 1, "seq": 5, "a": text} for text in "xy")
LATER = {"id": 2, "seq": 9, "a": "z"}


@pytest.mark.parametrize(
    "batches",
    [
        [[X, Y, X, LATER]],
        [[X], [Y], [X, LATER]],
        [[X, LATER], [Y, X]],
    ],
    ids=len,
)
@pytest.mark.parametrize("scd", [1, 2])
@pytest.mark.parametrize("wait", [False, True])
def test_of_two_changes_at_one_place_the_second_stands_though_the_first_comes_again(
    lake: Lake, batches: list[list[Line]], scd: int, wait: bool
) -> None:
    columns, more = {"id": "int", "seq": "int", "a": "string"}, {"max_staleness": 0} if wait else {}
    given = {"columns": columns, "sequence_by": "seq", "stored_as_scd_type": scd} | more
    config = table("rows", ["id"], **given)
    for number, batch in enumerate(batches, start=1):
        lakes.arrive(lake, config, batch, number)
        lakes.settle(lake, [config])
    assert {r["id"]: r["a"] for r in lakes.rows(lake, "t")} == {1: "y", 2: "z"}
    notes, classes = sums(lake)
    assert (notes["records"], notes["ties"], classes["duplicate"]) == (4, 1, 1)
    assert sum(classes.values()) == 4 and "late" not in classes
    laws = verify(lake, config, agreement.build_gold_laws(lake, config))
    assert {law.law: law.first for law in laws if not law.holds} == {}


@pytest.mark.parametrize("cut", [1, 0])
def test_so_it_is_in_the_first_pass_with_a_tie_of_a_source_that_has_an_order(
    lake: Lake, cut: int
) -> None:
    config, seen = core.table(1), TableState()
    first, second = (Event("upsert", 5, 1, (("a", text), ("b", "b"))) for text in "xy")
    delivered = [(first, 1), (second, 2), (first, 3)]
    batches = [part for part in (delivered[:cut], delivered[cut:]) if part]
    for batch in batches:
        seen = core.one_pass(lake, config, seen, batch).state
    assert seen.ties
    assert core.outcome(lake, config).current == {1: {"a": "y", "b": "b"}}
