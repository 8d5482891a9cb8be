"""Batches decoded by the columns that are known, and once more where a record shows others."""

from typing import Any

import pytest
from pyspark.sql import DataFrame, SparkSession

from lakehouse.config.table import Table
from lakehouse.run.memory import Memory
from lakehouse.storage.lake import Lake
from silver import job as silver
from silver.changelog import decoded_batch, log
from silver.decode import spark as decode_plan
from tests.helpers.debezium_records import event, table
from tests.helpers.decoding import to_changes
from tests.helpers.lakes import quiet
from tests.helpers.landed import failures, land
from tests.helpers.records import plain_rows

Rows = list[tuple[Any, ...]]


def row(**values: object) -> dict[str, Any]:
    return {"id": 1, "name": "a"} | values


def tick(lake: Lake, one: Table, memory: Memory, batch: int, *records: Any) -> None:
    land(lake, one, batch, records)
    assert failures(silver.apply(lake, [one], "run", quiet, memory)) == []


def shown(lake: Lake, *columns: str) -> Rows:
    rows = lake.spark.read.table(lake.name("silver", "t")).collect()
    return sorted((tuple(r[c] for c in columns) for r in rows if not r["_deleted"]), key=repr)


def logged(lake: Lake) -> DataFrame:
    return lake.spark.read.table(lake.name("silver", "t_changes"))


@pytest.fixture
def looks(monkeypatch: pytest.MonkeyPatch) -> list[int | None]:
    """How many records each look through a batch was for; the first batch's first look is for 2."""
    found, discover = list[int | None](), decoded_batch.discover

    def looked(
        raw: DataFrame, of: Table, known: Any, most: int | None = None, first: Any = None
    ) -> Any:
        found.append(most)
        return discover(raw, of, known, most, first)

    monkeypatch.setattr(decoded_batch, "discover", looked)
    for module in (decoded_batch, decode_plan):
        monkeypatch.setattr(module, "FIRST_RECORDS", 2)
    return found


SAME = [event("c", after=row(id=id)) for id in range(1, 5)]
MORE = event("c", after=row(id=9, more=1))


@pytest.mark.parametrize(
    ("records", "expected"),
    [
        pytest.param(SAME, [2], id="as its first records are", marks=pytest.mark.slow),
        pytest.param([*SAME, MORE], [2, None], id="with another one"),
        pytest.param(
            [MORE, *SAME], [2, None], id="with another one among the first", marks=pytest.mark.slow
        ),
        pytest.param(SAME[:1], [2], id="of one record", marks=pytest.mark.slow),
    ],
)
def test_a_first_batch_is_taken_for_what_its_first_records_are(
    lake: Lake, looks: list[int | None], records: list[Any], expected: list[int | None]
) -> None:
    one, memory = table(), Memory()
    tick(lake, one, memory, 1, *records)
    assert looks == expected
    rows = lake.spark.read.table(lake.name("silver", "t"))
    assert rows.count() == len(records)
    assert ("more" in rows.columns) == (MORE in records)


@pytest.mark.slow
def test_a_batch_of_known_columns_is_not_looked_at_and_another_is_once(
    lake: Lake, looks: list[int | None]
) -> None:
    one, memory = table(), Memory()
    tick(lake, one, memory, 1, SAME[0])
    looks.clear()
    tick(lake, one, memory, 2, event("u", after=row(name="b")), None, "no JSON")
    tick(lake, one, memory, 3, event("d", before={"id": 5}))
    assert looks == []
    tick(lake, one, memory, 4, event("c", after=row(id=2, more=1)))
    assert looks == [None]
    tick(lake, one, memory, 5, event("c", after=row(id=3, more=2)))
    assert looks == [None]
    assert shown(lake, "id", "name", "more") == [(1, "b", None), (2, "a", 1), (3, "a", 2)]
    assert logged(lake).where("_mismatched").isEmpty()
    batches = [r["_batch"] for r in logged(lake).orderBy("_batch").collect()]
    assert batches == [1, 2, 2, 2, 3, 4, 5]


@pytest.mark.slow
def test_members_that_only_expressions_use_are_not_looked_for_again(
    lake: Lake, looks: list[int | None]
) -> None:
    source = {"format": "rows", "path": "t"}
    given = {"table": "t", "keys": ["id"], "source": source, "sequence_by": "_at"}
    one = Table.model_validate(given | {"apply_as_deletes": "_op = 'D'"})
    tick(lake, one, Memory(), 1, {"id": 1, "_at": 1, "_op": "I"}, {"id": 2, "_at": 1})
    looks.clear()
    tick(lake, one, Memory(), 2, {"id": 1, "_at": 2, "_op": "D"}, {"id": 3, "_at": 2})
    assert looks == []
    assert shown(lake, "id") == [(2,), (3,)]
    tick(lake, one, Memory(), 3, {"id": 3, "_at": "0/5", "_op": "D"})
    assert looks == [None], "the order was a number, and is text now"


NUMBERS = [event("c", after={"id": id, "v": id}) for id in range(1, 41)]
TEXT = event("c", after={"id": 41, "v": "text"})
TYPED: list[tuple[Any, ...]] = sorted(
    [(id, str(id)) for id in range(1, 41)] + [(41, "text")], key=repr
)


@pytest.mark.slow
def test_a_type_that_the_first_records_do_not_tell_is_that_of_all_values(
    lake: Lake, looks: list[int | None]
) -> None:
    one = table(columns={"id": "bigint"})
    land(lake, one, 1, NUMBERS)
    tick(lake, one, Memory(), 2, TEXT)
    assert looks == [2, None]
    assert shown(lake, "id", "v") == TYPED


@pytest.mark.slow
@pytest.mark.parametrize(
    "first",
    [pytest.param(False, id="a later batch"), pytest.param(True, id="the first batch")],
)
def test_a_batch_that_a_killed_run_left_without_its_columns_is_written_anew(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, first: bool
) -> None:
    one = table(columns={"id": "bigint"})
    for module in (decoded_batch, decode_plan):
        monkeypatch.setattr(module, "FIRST_RECORDS", 2)
    if first:
        land(lake, one, 1, NUMBERS)
        land(lake, one, 2, [TEXT])
    else:
        tick(lake, one, Memory(), 1, NUMBERS[6])
        more = event("c", after={"id": 2, "v": 2, "more": True})
        land(lake, one, 2, [NUMBERS[0], more])

    def killed(*_: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as patch, pytest.raises(KeyboardInterrupt):
        patch.setattr(log, "rewrite_batch", killed)
        silver.apply(lake, [one], "run", quiet)
    assert not logged(lake).where("_mismatched").isEmpty()
    assert failures(silver.apply(lake, [one], "run", quiet)) == []
    if first:
        assert shown(lake, "id", "v") == TYPED
    else:
        expected = [(1, 1, None), (2, 2, True), (7, 7, None)]
        assert shown(lake, "id", "v", "more") == expected
    assert logged(lake).where("_mismatched").isEmpty()


def test_a_text_that_is_not_utf_8_is_a_dead_letter_with_its_bytes(spark: SparkSession) -> None:
    raw = plain_rows(spark, SAME[:1]).selectExpr("* EXCEPT (_raw)", "string(X'7BFF7D') AS _raw")
    (found,) = to_changes(raw, table()).selectExpr("_reason", "hex(_raw) AS raw").collect()
    assert (found["_reason"], found["raw"]) == ("not_json", "7BFF7D")
