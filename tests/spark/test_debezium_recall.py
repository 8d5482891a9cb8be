"""Batches decoded by what the last one showed: what comes out is what a look through them gives."""

import json
from typing import Any

import pytest
from pyspark.errors import PySparkException
from pyspark.sql import DataFrame, SparkSession
from silver.debezium import to_changes, to_changes_again
from silver.debezium_recall import Recall, is_unlike
from silver.shapes import announced

from lakehouse.memory import Memory
from lakehouse.table import Table
from lakehouse.target import Target
from silver import debezium_recall, layout
from silver import job as silver
from silver.decode import with_learned
from tests.lake import quiet
from tests.landed import failures, land
from tests.records import plain_rows
from tests.spark.test_debezium import event, table


def block(*fields: str, type: str = "int64") -> dict[str, Any]:
    columns = [{"field": f, "type": type if f == "id" else "string"} for f in fields]
    return {"type": "struct", "fields": [{"field": "after", "fields": columns}]}


def wrapped(value: object, *fields: str, **options: str) -> dict[str, Any]:
    return {"schema": block(*fields, **options), "payload": value}


def row(**values: object) -> dict[str, Any]:
    return {"id": 1, "name": "a"} | values


def given(changes: DataFrame) -> tuple[Any, ...]:
    rows = [r.asDict(recursive=True) for r in changes.orderBy("_arrival").collect()]
    fields = [(f.name, f.dataType) for f in changes.schema.fields]
    return fields, announced(changes), rows


def again(spark: SparkSession, of: Table, first: list[Any], then: list[Any]) -> bool:
    """Whether the second batch was decoded by the first; it comes out as by itself."""
    recall: Recall = {}
    of = with_learned(of, layout.business(to_changes(plain_rows(spark, first), of).schema))
    to_changes_again(plain_rows(spark, first), of, recall)
    before, raw = dict(recall), plain_rows(spark, then)
    changes = to_changes_again(raw, of, recall)
    alike = recall == before
    try:
        found = given(changes)
    except PySparkException as failure:
        assert is_unlike(failure)
        recall.clear()
        alike, found = False, given(to_changes_again(raw, of, recall))
    expected = given(to_changes(raw, of))
    if not any(one.fields for one in expected[1]):  # a batch without a row announces nothing
        assert alike or found[1] == expected[1]
        expected, found = (expected[0], None, expected[2]), (found[0], None, found[2])
    assert found == expected
    return alike


PLAIN, BLOCKS = [event("c", after=row())], [wrapped(event("c", after=row()), "id", "name")]
KEYLESS: dict[str, Any] = {"keys": (), "columns": {}}
ROWLESS: list[Any] = [
    None,
    "null",
    "",
    "no JSON",
    event("t"),
    event("m"),
    {"ts_ms": 1},
    {"op": "?"},
]
GONE = [event("d", before={"id": 5}), event("d", before={"id": 6, "name": ""})]
SHUFFLED = event("u", after={"name": "b", "id": 2})
TRAILING = json.dumps(event("c", after=row())) + "{}"


@pytest.mark.parametrize(
    ("first", "then", "options"),
    [
        pytest.param(PLAIN, [*PLAIN, SHUFFLED, *GONE, *ROWLESS, TRAILING], {}, id="all kinds"),
        pytest.param(PLAIN, ROWLESS, {}, id="no rows"),
        pytest.param(PLAIN, [*GONE, None], {}, id="deletes"),
        pytest.param(PLAIN, [event("c", after=row(name=None))], {}, id="a null"),
        pytest.param(PLAIN, [event("c", after=row(id="x"))], {}, id="a misfit"),
        pytest.param(PLAIN, [*PLAIN, event("u", after={})], {"keys": ()}, id="an empty row"),
        pytest.param(PLAIN, [*PLAIN, *ROWLESS, GONE[1]], KEYLESS, id="keyless"),
        pytest.param(PLAIN, PLAIN, {"columns": {"id": "int"}}, id="a learned column"),
        pytest.param(
            [event("c", after=row(_x=1))],
            [event("u", after=row(_x=2))],
            {"schema_changes": {"add_column": "ignore"}},
            id="a layer's name",
        ),
        pytest.param(BLOCKS, [*BLOCKS, *ROWLESS], {}, id="blocks"),
        pytest.param(BLOCKS, ROWLESS, {}, id="blocks, no rows"),
        pytest.param(
            BLOCKS, [wrapped(event("d", before={"id": 5}), "id", "name")], {}, id="deletes' blocks"
        ),
    ],
)
def test_a_batch_of_the_last_ones_shape_is_decoded_by_it(
    spark: SparkSession, first: list[Any], then: list[Any], options: dict[str, Any]
) -> None:
    assert again(spark, table(**options), first, then)


@pytest.mark.parametrize(
    ("first", "then", "options"),
    [
        pytest.param(PLAIN, [event("c", after=row(more=1)), *PLAIN], {}, id="a new column"),
        pytest.param(PLAIN, [*PLAIN, event("c", after={"id": 2})], {}, id="a dropped column"),
        pytest.param(PLAIN, [event("c", after={"ID": 2, "name": "b"})], {}, id="another case"),
        pytest.param(PLAIN, [event("d", before={"ID": 2})], {}, id="a delete in another case"),
        pytest.param(PLAIN, [event("c", after=row(id=None))], {}, id="no key"),
        pytest.param(PLAIN, [*PLAIN, *BLOCKS], {}, id="a block among plain ones"),
        pytest.param(BLOCKS, [*BLOCKS, *PLAIN], {}, id="a plain one among blocks"),
        pytest.param(BLOCKS, [event("d", before={"id": 5})], {}, id="a plain delete"),
        pytest.param(
            BLOCKS,
            [*BLOCKS, wrapped(event("c", after=row(x="b")), "id", "name", "x")],
            {},
            id="a new block",
        ),
        pytest.param(
            BLOCKS,
            [wrapped(event("c", after=row()), "id", "name", type="int32")],
            {},
            id="another type",
        ),
        pytest.param([*PLAIN, *BLOCKS], PLAIN, {}, id="two shapes before"),
        pytest.param(ROWLESS, PLAIN, {}, id="no shape before"),
        pytest.param(PLAIN, [event("d", before=row(more=1))], {"keys": ()}, id="an old row's"),
    ],
)
def test_a_batch_of_another_shape_is_looked_through(
    spark: SparkSession, first: list[Any], then: list[Any], options: dict[str, Any]
) -> None:
    assert not again(spark, table(**options), first, then)


def test_a_field_that_is_there_twice_is_looked_at(spark: SparkSession) -> None:
    twice = json.dumps(event("c", after=row())).replace('"name"', '"id": 2, "name"')
    assert not again(spark, table(), PLAIN, [twice])


def test_another_configuration_is_decoded_by_nothing(spark: SparkSession) -> None:
    recall: Recall = {}
    to_changes_again(plain_rows(spark, PLAIN), table(), recall)
    other = table(columns={"id": "int", "name": "string"})
    to_changes_again(plain_rows(spark, PLAIN), other, recall)
    assert recall["t"].table == other


def test_a_run_looks_through_no_batch_of_a_known_shape(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    one, memory = table(), Memory()

    def tick(batch: int, *records: Any) -> None:
        land(spark, target, one, batch, records)
        assert failures(silver.apply(spark, target, [one], "run", quiet, memory)) == []

    def looked(*_: object, **__: object) -> None:
        raise AssertionError("a batch was looked through")

    tick(1, *PLAIN)
    with monkeypatch.context() as patch:
        patch.setattr(debezium_recall, "survey", looked)
        tick(2, event("u", after=row(name="b")))
    tick(3, event("c", after=row(id=2, more=1)))
    rows = spark.read.table(layout.names.name(target, "silver", "t")).collect()
    assert sorted((r["id"], r["name"], r["more"]) for r in rows) == [(1, "b", None), (2, "a", 1)]
    memory.tables.clear()
    tick(4, *GONE)
    assert not memory.shown["t"].seen.shapes


SAME = [event("c", after=row(id=id)) for id in range(1, 5)]
ODD = event("c", after=row(id=9, more=1))


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(SAME, id="as its first records are"),
        pytest.param([*SAME, ODD], id="with another one"),
        pytest.param([ODD, *SAME], id="with another one among the first"),
    ],
)
def test_a_first_batch_is_taken_for_what_its_first_records_are(
    spark: SparkSession, target: Target, monkeypatch: pytest.MonkeyPatch, records: list[Any]
) -> None:
    one, memory, looks = table(), Memory(), list[int | None]()
    look, alike = debezium_recall.survey, ODD not in records

    def looked(raw: DataFrame, keyed: bool, most: int | None = None) -> Any:
        looks.append(most)
        return look(raw, keyed, most)

    monkeypatch.setattr(debezium_recall, "survey", looked)
    monkeypatch.setattr(debezium_recall, "_FIRST_RECORDS", 2)
    land(spark, target, one, 1, records)
    assert failures(silver.apply(spark, target, [one], "run", quiet, memory)) == []
    assert looks == ([2] if alike else [2, None])
    rows = spark.read.table(layout.names.name(target, "silver", "t"))
    assert rows.count() == len(records)
    assert ("more" in rows.columns) != alike
    land(spark, target, one, 2, [event("u", after=row(name="b"))])
    assert failures(silver.apply(spark, target, [one], "run", quiet, memory)) == []
    assert looks == ([2] if alike else [2, None, None])


def test_the_plan_of_a_known_shape_is_made_once_and_reads_what_is_new(
    spark: SparkSession,
    target: Target,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    one, memory = table(), Memory()

    def tick(batch: int, *records: Any) -> None:
        land(spark, target, one, batch, records)
        assert failures(silver.apply(spark, target, [one], "run", quiet, memory)) == []

    def decoded(*_: object, **__: object) -> None:
        raise AssertionError("a plan was made")

    tick(1, *PLAIN)
    tick(2, event("u", after=row(name="b")))
    with monkeypatch.context() as patch:
        patch.setattr("silver.extension.decode", decoded)
        tick(3, event("u", after=row(name="c")))
        tick(4, event("c", after=row(id=3, name="d")))
    memory.shown["t"].plan.where("_feed_batch > 3").explain("formatted")
    assert "GreaterThan(_batch,3)" in capsys.readouterr().out
    tick(5, event("c", after=row(id=4, more=1)))
    tick(6, event("c", after=row(id=5, more=2)))
    rows = spark.read.table(layout.names.name(target, "silver", "t")).collect()
    found = sorted((r["id"], r["name"], r["more"]) for r in rows)
    assert found == [(1, "c", None), (3, "d", None), (4, "a", 1), (5, "a", 2)]
