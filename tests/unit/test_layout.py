from pyspark.sql.types import LongType, StringType, StructField, StructType

from silver.contract import CURRENT_COLUMNS, DEAD_LETTER_COLUMNS, HISTORY_COLUMNS, LOG_COLUMNS
from silver.storage.layout import growth_sql, late, properties_of

NOW = StructType([StructField("_batch", LongType()), StructField("a", StringType())])


def test_a_new_column_tells_the_batch_that_brought_it() -> None:
    fields = [StructField("a", StringType()), StructField("b c", LongType())]
    assert growth_sql("t1", NOW, fields, 5) == [
        "ALTER TABLE t1 ADD COLUMNS (`b c` bigint COMMENT 'since batch 5')"
    ]
    assert growth_sql("t1", NOW, fields) == ["ALTER TABLE t1 ADD COLUMNS (`b c` bigint)"]


def test_columns_that_came_late_are_found_by_that() -> None:
    told = StructField("b", LongType(), metadata={"comment": "since batch 12"})
    other = StructField("c", LongType(), metadata={"comment": "a remark"})
    assert late(StructType([*NOW.fields, told, other])) == {"b": 12}


def test_only_tables_that_batches_update_have_deletion_vectors() -> None:
    """Where a table may have some, Delta looks twice more for its files in every query."""
    for updated in (CURRENT_COLUMNS, HISTORY_COLUMNS):
        assert properties_of(updated)["delta.enableDeletionVectors"] == "true"
    for other in (LOG_COLUMNS, DEAD_LETTER_COLUMNS):
        assert "delta.enableDeletionVectors" not in properties_of(other)
