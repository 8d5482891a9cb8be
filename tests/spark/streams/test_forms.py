"""A table's changes in every form of Debezium's, as JSON and as Avro: the same rows and history."""

from typing import Any

import pytest
from pyspark.sql import SparkSession

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from tests.conftest import target_at
from tests.helpers.forms import CHANGES, COLUMNS, FORMS, SCHEMAS
from tests.helpers.lakes import arrive_from_kafka, rows, settle
from tests.helpers.landed import apply, land
from tests.helpers.registry import registry

pytestmark = pytest.mark.slow

CUT = 4
SHOWN = ("valid_from", "valid_to", "is_current", *COLUMNS)


def table(form: str, url: str) -> Table:
    kafka = {"topic": f"shop.{form}.t", "bootstrap_servers": "localhost:9"}
    avro = {"value_format": "avro", "schema_registry": {"url": url}}
    source = {"format": "debezium", "kafka": kafka} | (avro if form.endswith("avro") else {})
    given = {"table": form, "keys": ["id"], "source": source, "columns": COLUMNS}
    return Table.model_validate(given | {"stored_as_scd_type": 2})


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Target:
    """All forms in two batches; the second one begins with a delete."""
    target = target_at(tmp_path_factory.mktemp("forms"))
    with registry(SCHEMAS) as server:
        tables = {form: table(form, server.url) for form in FORMS}
        first = {form: len([*FORMS[form](CHANGES[:CUT])]) for form in FORMS}
        for part, changes in enumerate((CHANGES[:CUT], CHANGES[CUT:])):
            for form, of in tables.items():
                offset = part * first[form]
                arrive_from_kafka(
                    Lake(spark, target), of, [*FORMS[form](changes)], part + 1, offset
                )
            settle(Lake(spark, target), [*tables.values()])
    return target


def history(spark: SparkSession, target: Target, form: str) -> list[tuple[Any, ...]]:
    found = rows(Lake(spark, target), f"{form}_history")
    return sorted(tuple(row[name] for name in SHOWN) for row in found)


def test_full_envelopes_give_what_happened(spark: SparkSession, lake: Target) -> None:
    names = {row["id"]: row["name"] for row in rows(Lake(spark, lake), "full")}
    versions = [(row[3], row[4], row[2]) for row in history(spark, lake, "full")]

    assert names == {2: "Bo again", 3: "Cy"}
    assert sorted(versions) == [
        (1, "Ada", False),
        (1, "Ada L", False),
        (2, "Bo", False),
        (2, "Bo again", False),
        (2, "Bo again", True),
        (3, "Cy", False),
        (3, "Cy", True),
    ]


@pytest.mark.parametrize("form", [form for form in FORMS if form != "full"])
def test_every_form_gives_the_rows_and_history_of_full_envelopes(
    spark: SparkSession, lake: Target, form: str
) -> None:
    found, expected = (sorted(rows(Lake(spark, lake), one), key=repr) for one in (form, "full"))

    assert found == expected
    assert history(spark, lake, form) == history(spark, lake, "full")


@pytest.mark.parametrize("group", [None, "shop"])
def test_a_tombstone_that_comes_before_every_row_of_a_flattened_feed_deletes(
    spark: SparkSession, target: Target, group: str | None
) -> None:
    """It says nothing by itself, and is taken in with the first row."""
    source, columns = {"format": "debezium", "path": "t"}, {"id": "int", "name": "string"}
    given = {"table": "t", "keys": ["id"], "source": source, "columns": columns}
    config = Table.model_validate(given | {"consistency_group": group})

    def record(offset: int, key: int, value: object) -> dict[str, Any]:
        place = {"topic": "t", "partition": 0, "offset": offset}
        return place | {"key": {"id": key}, "value": value}

    land(Lake(spark, target), config, 1, [record(5, 1, None)])
    waits = {"waiting": 1} if group is None else {}
    assert [entry.counts for entry in apply(Lake(spark, target), config)] == [waits]
    assert [entry.counts for entry in apply(Lake(spark, target), config)] == [waits]
    late, other = record(4, 1, {"id": 1, "name": "a"}), record(6, 2, {"id": 2, "name": "b"})
    land(Lake(spark, target), config, 2, [late, other])
    (entry,) = apply(Lake(spark, target), config)
    assert (entry.message, entry.counts["records"]) == (None, 3)
    found = spark.table(names.table_name(target, "silver", "t")).where("NOT _deleted").collect()
    assert [row["id"] for row in found] == [2]
