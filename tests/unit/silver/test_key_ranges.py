from datetime import date

from pyspark.sql.types import (
    DateType,
    DecimalType,
    IntegerType,
    LongType,
    StringType,
    StructField,
    StructType,
)  # fmt: skip

from lakehouse.config.table import Table
from lakehouse.storage.delta_log import TableLog
from silver.state.key_ranges import (
    build_key_condition,
    list_bounded_keys,
    skips_enough_files,
    unite_bounds,
)
from silver.state.summary import Summary
from silver.state.table_state import TableState, from_text

SCHEMA = StructType(
    [
        StructField("id", LongType()),
        StructField("small", IntegerType()),
        StructField("it's", StringType()),
        StructField("day", DateType()),
        StructField("price", DecimalType(12, 2)),
    ]
)


def table(**columns: object) -> Table:
    keys = [field.name for field in SCHEMA.fields]
    source = {"format": "debezium", "path": "t"}
    given = {"table": "t", "keys": keys, "source": source, "columns": columns}
    return Table.model_validate(given)


def test_keys_have_a_range_where_spark_and_delta_order_them_alike() -> None:
    assert list_bounded_keys(table(), SCHEMA) == ["id", "small", "it's", "day"]


def test_a_sensitive_key_and_one_that_may_be_null_have_none() -> None:
    kept = table(id={"type": "bigint", "sensitive": True}, small={"type": "int", "nullable": True})
    assert list_bounded_keys(kept, SCHEMA) == ["it's", "day"]


def test_the_condition_has_literals_of_exactly_the_columns_types() -> None:
    bounds = {"id": (1, 9), "small": (-3, 4), "it's": ("a'b", "z"), "day": (date(2024, 1, 2),) * 2}
    assert build_key_condition(bounds, SCHEMA, "t.") == (
        "t.`id` >= 1L AND t.`id` <= 9L AND t.`small` >= -3 AND t.`small` <= 4"
        " AND t.`it's` >= 'a\\'b' AND t.`it's` <= 'z'"
        " AND t.`day` >= DATE'2024-01-02' AND t.`day` <= DATE'2024-01-02'"
    )
    assert build_key_condition(None, SCHEMA) is None and build_key_condition({}, SCHEMA) is None


def test_the_bounds_of_two_parts_hold_the_keys_of_both() -> None:
    assert unite_bounds({"id": (5, 9)}, {"id": (2, 6)}) == {"id": (2, 9)}
    assert unite_bounds({"id": (5, 9)}, {}) == {}
    one, other = Summary(3, 2, keys={"id": (5, 9)}), Summary(3, 1, keys={"id": (1, 1)})
    assert one.joined(other).keys == {"id": (1, 9)}
    assert Summary(3, 0).joined(other).keys == other.keys == other.joined(Summary(3, 0)).keys
    assert one.joined(Summary(3, 1)).keys is None


def test_the_ledger_keeps_no_bound_of_a_key() -> None:
    state = TableState(waits=Summary(3, 2, keys={"name": ("Ada", "Zoe")}))
    assert "Ada" not in state.to_text()
    assert from_text(state.to_text()).waits == Summary(3, 2)


def told(*files: tuple[object, object]) -> TableLog:
    """The log of a table whose column `id` is called `c` inside of its files."""
    stats = [{"minValues": {"c": low}, "maxValues": {"c": high}} for low, high in files]
    return TableLog(1, 10, {"id": "long"}, {"id": "c"}, [], stats)


def test_a_range_pays_where_half_of_the_files_have_no_key_in_it() -> None:
    assert skips_enough_files({"id": (20, 30)}, told((0, 9), (10, 19), (20, 29), (30, 39)))
    assert not skips_enough_files({"id": (19, 30)}, told((0, 9), (10, 19), (20, 29), (30, 39)))
    assert not skips_enough_files({"id": (0, 99)}, told((0, 9), (10, 19)))
    assert not skips_enough_files({"id": (20, 30)}, told())


def test_a_file_without_statistics_may_hold_every_key() -> None:
    assert not skips_enough_files({"id": (20, 30)}, told((None, None), (None, None), (0, 1)))
    assert skips_enough_files({"id": (20, 30)}, None)


def test_dates_are_compared_as_the_log_writes_them() -> None:
    days = {"id": (date(2024, 5, 1), date(2024, 5, 9))}
    assert skips_enough_files(
        days, told(("2024-04-01", "2024-04-30"), ("2024-05-02", "2024-05-03"))
    )
    assert not skips_enough_files(days, told(("2024-04-01", "2024-05-01")))
