from bronze.contract import COLUMNS
from bronze.feeds import list_feeds
from bronze.storage import create_statement
from lakehouse.config.table import Table
from lakehouse.config.target import Target

ORDERS = Table.model_validate(
    {"table": "orders", "keys": ["id"], "source": {"format": "ydb", "path": "orders"}}
)


def test_the_table_is_made_with_the_contracts_columns_and_comments() -> None:
    made = create_statement(Target(root="/r"), list_feeds([ORDERS])[0])
    assert made.startswith(
        "CREATE TABLE IF NOT EXISTS delta.`/r/lake/bronze/orders` (`_raw` string"
    )
    assert all(f"`{column.name}` {column.type} COMMENT " in made for column in COLUMNS)
    assert "COMMENT 'the record\\'s key as text, where it has one'" in made


def test_only_columns_that_readers_choose_by_have_statistics() -> None:
    made = create_statement(Target(root="/r"), list_feeds([ORDERS])[0])
    kept = "'delta.dataSkippingStatsColumns' = '_batch,_topic,_partition,_offset,_arrival'"
    assert kept in made
