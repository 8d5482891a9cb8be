from gold.views import current, history
from lakehouse.table import Table
from lakehouse.views import create_sql


def table(**options: object) -> Table:
    source = {"format": "rows", "path": "t"}
    return Table.model_validate({"table": "t", "source": source, "keys": ["id"]} | options)


def test_a_current_view_shows_business_columns_of_live_rows() -> None:
    view = current(table(), "silver.t", ["id", "Full Name"])
    assert view.query == "SELECT `id`, `Full Name` FROM silver.t WHERE NOT _deleted"
    assert view.columns == {"id": "key", "Full Name": None}


def test_flagged_deletes_stay_in_the_view() -> None:
    view = current(table(on_delete="flag"), "silver.t", ["id"])
    kept = "SELECT `id`, _deleted AS is_deleted FROM silver.t WHERE _upsert_stamp IS NOT NULL"
    assert view.query == kept
    versions = current(table(on_delete="flag", stored_as_scd_type=2), "silver.t_history", ["id"])
    assert versions.query.startswith("SELECT `id`, NOT _is_current AS is_deleted FROM")
    assert [*versions.columns] == ["id", "is_deleted"]


def test_a_history_view_shows_versions_only() -> None:
    view = history(table(stored_as_scd_type=2), "silver.t_history", ["id"])
    assert view.query.endswith("FROM silver.t_history WHERE _shown")
    assert [*view.columns][-3:] == ["sequence_from", "sequence_to", "is_current"]


def test_a_views_ddl_carries_comments_and_keys() -> None:
    text = create_sql("gold.`t`", current(table(comment="it's t"), "silver.t", ["id"]))
    assert "(`id` COMMENT 'key') COMMENT 'it\\'s t' TBLPROPERTIES ('keys' = 'id') AS" in text
