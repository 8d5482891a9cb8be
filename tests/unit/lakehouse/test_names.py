from pathlib import Path

from lakehouse.config.target import Schemas, Target
from lakehouse.storage.names import (
    agree_on,
    literal,
    quote,
    short_names,
    table_folder,
    table_name,
)

LOCAL = Target(root="/lake root")
UNITY = Target(
    kind="databricks",
    catalog="main",
    schemas=Schemas(silver="dev_silver"),
    landing="/Volumes/l",
    checkpoints="/Volumes/c",
)


def test_a_table_without_a_catalog_is_its_folder() -> None:
    assert table_name(LOCAL, "gold", "orders") == "delta.`/lake root/lake/gold/orders`"


def test_a_table_of_a_catalog_has_three_parts() -> None:
    assert table_name(UNITY, "silver", "orders") == "`main`.`dev_silver`.`orders`"


def test_a_table_of_a_catalog_has_no_folder() -> None:
    assert table_folder(UNITY, "gold", "orders") is None


def test_null_equals_null_in_nullable_columns_alone() -> None:
    assert agree_on("a", "b", ["x", "y"], {"y"}) == "a.`x` = b.`x` AND a.`y` <=> b.`y`"


def test_a_backquote_in_an_identifier_is_doubled() -> None:
    assert quote("a`b") == "`a``b`"


def test_quotes_and_backslashes_in_a_literal_are_escaped() -> None:
    assert literal("it's \\ here") == "'it\\'s \\\\ here'"


def test_a_relative_root_becomes_absolute() -> None:
    assert Target(root="x").root == str(Path.cwd() / "x")


def test_a_person_reads_short_names_of_a_lakes_tables() -> None:
    target = Target(root="/a/b")
    text = f"rewriting {table_name(target, 'silver', 'orders_changes')}: 2 files"
    assert short_names(target, text) == "rewriting silver.orders_changes: 2 files"
    in_catalog = Target(catalog="c", landing="/Volumes/l", checkpoints="/Volumes/c")
    assert short_names(in_catalog, "`c`.`silver`.`orders`") == "`c`.`silver`.`orders`"
