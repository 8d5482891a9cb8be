"""Nested values on their way through Arrow: null and empty ones stay what they are."""

from collections.abc import Iterator
from functools import partial

import pyarrow as pa
import pytest
from pyspark.sql import SparkSession
from pyspark.sql import functions as F

from silver.fold.nested import mark_nulls, restore_nulls

SCHEMA = "id int, a array<string>, m map<string, string>, s struct<n: int, l: array<int>>, t string"
ROWS = [
    (1, None, None, None, None),
    (2, [], {}, (None, None), ""),
    (3, [None, "x"], {"k": None}, (1, []), "x"),
    (4, None, {"k": "v"}, (None, [None, 2]), None),
]


def restored(names: tuple[str, ...], batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        named = batch.rename_columns(list(names))
        lists = [named.column(n) for n, f in zip(names, named.schema, strict=True) if is_list(f)]
        assert not any(one.null_count for one in lists)
        found = restore_nulls(named)
        yield found.rename_columns([f"c{at}" for at in range(found.num_columns)])


def is_list(field: pa.Field) -> bool:
    return pa.types.is_list(field.type) or pa.types.is_map(field.type)


@pytest.mark.parametrize("times", [1, 400])
def test_null_and_empty_lists_come_back_as_they_were(spark: SparkSession, times: int) -> None:
    rows = [(n * 10 + row[0], *row[1:]) for n in range(times) for row in ROWS]
    given = spark.createDataFrame(rows, SCHEMA)
    filled = given.select(
        *[one for f in given.schema for one in mark_nulls(F.col(f.name), f.dataType, f.name)]
    )
    numbered = filled.toDF(*[f"_{at}" for at in range(len(filled.columns))])
    types = ", ".join(f"c{at} {f.dataType.simpleString()}" for at, f in enumerate(given.schema))
    found = numbered.mapInArrow(partial(restored, tuple(filled.columns)), types)
    assert sorted(found.collect()) == sorted(given.collect())
