from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    BooleanType,
    DateType,
    LongType,
    MapType,
    StringType,
    StructField,
    StructType,
)

from lakehouse.config.table import Table
from silver.contract import CURRENT_COLUMNS, DEAD_LETTER_COLUMNS, HISTORY_COLUMNS, LOG_COLUMNS
from silver.storage.layout import (
    create_sql,
    find_late_columns,
    growth_sql,
    list_retyped,
    list_statistics_columns,
    properties_of,
)

NOW = StructType([StructField("_batch", LongType()), StructField("a", StringType())])


def test_a_new_column_tells_the_batch_that_brought_it() -> None:
    fields = [StructField("a", StringType()), StructField("b c", LongType())]
    assert growth_sql("t1", NOW, fields, 5) == [
        "ALTER TABLE t1 ADD COLUMNS (`b c` bigint COMMENT 'since batch 5')"
    ]
    assert growth_sql("t1", NOW, fields) == ["ALTER TABLE t1 ADD COLUMNS (`b c` bigint)"]


def test_names_in_another_case_are_of_the_same_column() -> None:
    """Else a column would neither be dropped nor grow, and no row could be written."""
    same, other = [StructField("A", StringType())], [StructField("A", LongType())]
    assert growth_sql("t1", NOW, other) == []
    assert list_retyped(NOW, other) == ["a"]
    assert list_retyped(NOW, same) == []


def test_columns_that_came_late_are_found_by_that() -> None:
    told = StructField("b", LongType(), metadata={"comment": "since batch 12"})
    other = StructField("c", LongType(), metadata={"comment": "a remark"})
    assert find_late_columns(StructType([*NOW.fields, told, other])) == {"b": 12}


def test_only_tables_that_batches_update_have_deletion_vectors() -> None:
    """Where a table may have some, Delta looks twice more for its files in every query."""
    for updated in (CURRENT_COLUMNS, HISTORY_COLUMNS):
        assert properties_of(updated)["delta.enableDeletionVectors"] == "true"
    for other in (LOG_COLUMNS, DEAD_LETTER_COLUMNS):
        assert "delta.enableDeletionVectors" not in properties_of(other)


def of(**options: object) -> Table:
    given = {"table": "t", "source": {"format": "debezium", "path": "t"}, "keys": ["id"]}
    return Table.model_validate(given | options)


def listed(fields: list[StructField], table: Table) -> list[str]:
    return list_statistics_columns(fields, CURRENT_COLUMNS, table).split(",")


def test_the_first_columns_have_statistics_and_keys_and_cluster_columns_anywhere() -> None:
    fields = [StructField(f"c{n}", LongType()) for n in range(40)]
    fields += [StructField("day", DateType()), StructField("id", LongType())]
    days = of(columns={"day": "date"}, cluster_by=["day"])
    first = [f"`c{n}`" for n in range(32)]
    assert listed(fields, days) == ["_source_time", "_batch", *first, "`day`", "`id`"]


def test_texts_have_statistics_only_where_they_are_short_or_looked_up_by() -> None:
    names = ("id", "note", "state", "country", "story")
    fields = [StructField(name, StringType()) for name in names]
    declared = {"state": "varchar(32)", "story": "varchar(33)", "country": "string"}
    table = of(columns=declared, cluster_by=["country"])
    assert listed(fields, table)[2:] == ["`state`", "`id`", "`country`"]


def test_no_value_of_a_sensitive_column_comes_to_the_log() -> None:
    fields = [StructField("id", LongType()), StructField("salary", LongType())]
    secret = {"type": "bigint", "sensitive": True}
    assert listed(fields, of(columns={"id": secret, "salary": secret})) == [
        "_source_time",
        "_batch",
    ]


def test_types_without_bounds_have_no_statistics() -> None:
    kinds = [BinaryType(), BooleanType(), ArrayType(LongType()), MapType(StringType(), LongType())]
    fields = [StructField(f"c{n}", kind) for n, kind in enumerate(kinds)]
    assert listed([*fields, StructField("a`b", LongType())], of())[2:] == ["`a``b`"]


def test_a_table_is_created_clustered_by_the_columns_that_are_there() -> None:
    table = of(columns={"day": "date", "at": "timestamp"}, cluster_by=["at", "day"])
    text = create_sql("t1", [StructField("day", DateType())], CURRENT_COLUMNS, table)
    assert " USING delta CLUSTER BY (`day`) TBLPROPERTIES (" in text
    assert "CLUSTER" not in create_sql("t1", [StructField("day", DateType())], CURRENT_COLUMNS)
