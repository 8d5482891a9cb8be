"""What was applied already is delivered again, in one batch with what is new."""

import pytest
from pyspark.sql import SparkSession

from gold.views import agreement
from lakehouse.config.target import Target
from silver.audit.verify import verify
from silver.state.table_state import TableState
from tests.helpers import core, lake, oracle
from tests.helpers.builders import Line, table
from tests.helpers.oracle import Event
from tests.helpers.sums import sums

WHOLE = (("a", "a"), ("b", "b"))


@pytest.mark.parametrize("scd", [1, pytest.param(2, marks=pytest.mark.slow)])
def test_a_delete_counts_that_comes_with_its_row_s_upsert_once_more(
    spark: SparkSession, target: Target, scd: int
) -> None:
    config = core.table(scd)
    upsert, delete = Event("upsert", 1, 1, WHOLE, position=1), Event("delete", 2, 1, position=2)
    done = core.deliver(spark, target, config, [upsert], 0, 0)
    core.deliver(spark, target, config, [upsert, delete], 1, done)
    want = oracle.outcome({upsert, delete}, core.COLUMNS, core.COLUMNS)
    assert core.outcome(spark, target, config).current == want.current == {}


X, Y = ({"id": 1, "seq": 5, "a": text} for text in "xy")
LATER = {"id": 2, "seq": 9, "a": "z"}


@pytest.mark.parametrize(
    "batches",
    [
        [[X, Y, X, LATER]],
        pytest.param([[X], [Y], [X, LATER]], marks=pytest.mark.slow),
        pytest.param([[X, LATER], [Y, X]], marks=pytest.mark.slow),
    ],
    ids=len,
)
@pytest.mark.parametrize("scd", [1, pytest.param(2, marks=pytest.mark.slow)])
@pytest.mark.parametrize("wait", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_of_two_changes_at_one_place_the_second_stands_though_the_first_comes_again(
    spark: SparkSession, target: Target, batches: list[list[Line]], scd: int, wait: bool
) -> None:
    columns, more = {"id": "int", "seq": "int", "a": "string"}, {"max_staleness": 0} if wait else {}
    given = {"columns": columns, "sequence_by": "seq", "stored_as_scd_type": scd} | more
    config = table("rows", ["id"], **given)
    for number, batch in enumerate(batches, start=1):
        lake.arrive(spark, target, config, batch, number)
        lake.settle(spark, target, [config])
    assert {r["id"]: r["a"] for r in lake.rows(spark, target, "t")} == {1: "y", 2: "z"}
    notes, classes = sums(spark, target)
    assert (notes["records"], notes["ties"], classes["duplicate"]) == (4, 1, 1)
    assert sum(classes.values()) == 4 and "late" not in classes
    laws = verify(spark, target, config, agreement.build_gold_laws(spark, target, config))
    assert {law.law: law.first for law in laws if not law.holds} == {}


@pytest.mark.parametrize("cut", [1, pytest.param(0, marks=pytest.mark.slow)])
def test_so_it_is_in_the_first_pass_with_a_tie_of_a_source_that_has_an_order(
    spark: SparkSession, target: Target, cut: int
) -> None:
    config, seen = core.table(1), TableState()
    first, second = (Event("upsert", 5, 1, (("a", text), ("b", "b"))) for text in "xy")
    delivered = [(first, 1), (second, 2), (first, 3)]
    batches = [part for part in (delivered[:cut], delivered[cut:]) if part]
    for batch in batches:
        seen = core.one_pass(spark, target, config, seen, batch).state
    assert seen.ties
    assert core.outcome(spark, target, config).current == {1: {"a": "y", "b": "b"}}
