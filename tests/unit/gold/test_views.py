import shutil
from pathlib import Path
from typing import TYPE_CHECKING, cast

from gold.views.extract_views import build_changes
from gold.views.selects import build_current, build_history, source_names
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from lakehouse.storage.names import table_name
from lakehouse.storage.views import View, create_sql, load_views, publish_views, retract_views

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def table(**options: object) -> Table:
    source = {"format": "rows", "path": "t"}
    return Table.model_validate({"table": "t", "source": source, "keys": ["id"]} | options)


def test_a_current_view_shows_business_columns_of_live_rows() -> None:
    view = build_current(table(), "silver.t", ["id", "Full Name"])
    assert view.query == "SELECT `id`, `Full Name` FROM silver.t WHERE NOT _deleted"
    assert view.columns == {"id": "key", "Full Name": None}


def test_flagged_deletes_stay_in_the_view() -> None:
    view = build_current(table(on_delete="flag"), "silver.t", ["id"])
    shown = "NOT _deleted OR _facts.upsert IS NOT NULL"
    kept = f"SELECT `id`, _deleted AS is_deleted FROM silver.t WHERE {shown}"
    assert view.query == kept
    versions = build_current(
        table(on_delete="flag", stored_as_scd_type=2), "silver.t_history", ["id"]
    )
    assert versions.query.startswith("SELECT `id`, NOT _is_current AS is_deleted FROM")
    assert [*versions.columns] == ["id", "is_deleted"]


def test_a_history_view_shows_versions_only() -> None:
    view = build_history(table(stored_as_scd_type=2), "silver.t_history", ["id"])
    assert view.query.endswith("FROM silver.t_history WHERE _shown")
    assert [*view.columns][-3:] == ["sequence_from", "sequence_to", "is_current"]


def test_a_source_s_column_gives_way_to_one_that_gold_adds() -> None:
    view = build_history(
        table(stored_as_scd_type=2), "silver.t_history", ["id", "Is_Current", "operation"]
    )

    assert "`Is_Current` AS `Is_Current_source`, `operation`, _valid_from" in view.query
    assert [*view.columns][:3] == ["id", "Is_Current_source", "operation"]
    assert view.columns["Is_Current_source"] == "the source's column Is_Current"


def test_a_key_of_such_a_name_is_a_key_by_its_new_name() -> None:
    keys = {"keys": ["valid_from"]}

    view = build_history(table(stored_as_scd_type=2, **keys), "silver.t_history", ["valid_from"])

    assert view.keys == ("valid_from_source", "valid_from")
    assert build_current(table(**keys), "silver.t", ["valid_from"]).keys == ("valid_from",)


def test_a_flagged_table_keeps_its_own_is_deleted_apart() -> None:
    view = build_current(table(on_delete="flag"), "silver.t", ["id", "is_deleted"])

    assert "`is_deleted` AS `is_deleted_source`, _deleted AS is_deleted" in view.query
    plain = build_current(table(), "silver.t", ["id", "is_deleted"])
    assert [*plain.columns] == ["id", "is_deleted"]


def test_a_name_that_is_taken_gets_another_ending() -> None:
    columns = ["operation", "OPERATION_SOURCE", "a"]

    assert source_names(columns, ["operation"]) == {
        "operation": "operation_source_source",
        "OPERATION_SOURCE": "OPERATION_SOURCE",
        "a": "a",
    }


def test_an_extract_s_own_operation_gives_way_in_the_changes() -> None:
    source = {"format": "snapshot", "path": "t", "mode": "delta"}
    of = Table.model_validate({"table": "t", "source": source, "keys": ["id"]})

    view = build_changes(of, "silver.t_changes", "silver.t_extracts", ["id", "operation"])

    assert [*view.columns] == ["id", "operation_source", "operation", "effective_date"]
    assert "`operation` AS `operation_source`, _operation AS operation" in view.query


def test_a_views_ddl_carries_comments_and_keys() -> None:
    text = create_sql("gold.`t`", build_current(table(comment="it's t"), "silver.t", ["id"]))
    assert "(`id` COMMENT 'key') COMMENT 'it\\'s t' TBLPROPERTIES ('keys' = 'id') AS" in text


def waiting() -> View:
    return View("t", {"id": None}, "t", ("id",), "SELECT 1 FROM {waiting}", None, None, "SELECT 2")


def test_a_view_shows_what_waits_as_long_as_it_does(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    spark = cast("SparkSession", None)
    publish_views(Lake(spark, target), "gold", [waiting()._replace(waiting="t_pending")])
    assert load_views(target, "gold")["t"].query == "SELECT 2"
    publish_views(
        Lake(spark, target), "silver", [View("t_pending", {}, "", (), "SELECT 3", since=7)]
    )
    shown = load_views(target, "gold")["t"]
    assert (shown.query, shown.waiting) == ("SELECT 1 FROM (SELECT 3)", None)
    assert load_views(target, "silver")["t_pending"].since == 7
    both = waiting()._replace(waiting="t_pending", query="SELECT 1 FROM {waiting}, {waiting_keys}")
    publish_views(Lake(spark, target), "gold", [both])
    publish_views(
        Lake(spark, target),
        "silver",
        [View("t_pending", {}, "", (), "SELECT 3", of_keys="SELECT 4")],
    )
    assert load_views(target, "gold")["t"].query == "SELECT 1 FROM (SELECT 3), (SELECT 4)"
    retract_views(target, "silver", ["t_pending", "other"])
    assert load_views(target, "gold")["t"].query == "SELECT 2"


def test_a_publication_keeps_the_place_of_what_waits(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    spark = cast("SparkSession", None)
    publish_views(Lake(spark, target), "silver", [View("t_pending", {}, "", (), "SELECT 3")])
    publish_views(Lake(spark, target), "gold", [waiting()._replace(waiting="t_pending")])
    publish_views(Lake(spark, target), "gold", [waiting()._replace(name="other")])
    publish_views(Lake(spark, target), "silver", [View("t_pending", {}, "", (), "SELECT 4")])
    assert load_views(target, "gold")["t"].query == "SELECT 1 FROM (SELECT 4)"


def test_a_copied_lake_shows_its_own_rows(tmp_path: Path) -> None:
    here, there = (Target(root=str(tmp_path / name)) for name in ("it's `here`", "there"))
    query = f"SELECT 1 FROM {table_name(here, 'silver', 't')} VERSION AS OF 3"
    publish_views(
        Lake(cast("SparkSession", None), here), "gold", [View("t", {}, "", (), query, query)]
    )
    shutil.copytree(here.lake, there.lake)
    copied = f"SELECT 1 FROM delta.`{there.lake}/silver/t` VERSION AS OF 3"
    assert load_views(here, "gold")["t"].query == query
    assert load_views(there, "gold")["t"][4:6] == (copied, copied)
