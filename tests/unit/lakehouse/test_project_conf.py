"""The project's own conf/ is sound, and its JSON Schema is the one of the code."""

from pathlib import Path

from lakehouse.config.loading import load_tables, load_target
from lakehouse.config.unpacking import table_schema
from tests.helpers.captures import shop

CONF = Path(__file__).parents[3] / "conf"


def test_the_json_schema_is_current() -> None:
    assert (CONF / "table.schema.json").read_text(encoding="utf-8") == table_schema()


def test_the_demo_has_the_four_tables_of_the_shop() -> None:
    names = [table.table for table in load_tables(CONF)]
    assert names == ["customers", "order_items", "orders", "products"]


def test_every_captured_table_is_described() -> None:
    assert [table.table for table in shop()] == [
        "accounts",
        "clicks",
        "customers",
        "kitchen_sink",
        "kitchen_sink_full",
        "late",
        "mixed_case",
        "order_items",
        "orders",
        "products",
        "staging",
    ]


def test_the_targets_are_one_local_and_two_of_the_bundle() -> None:
    kinds = {file.stem: load_target(CONF, file.stem).kind for file in CONF.glob("targets/*.yml")}
    assert kinds == {"local": "local", "dev": "databricks", "prod": "databricks"}
