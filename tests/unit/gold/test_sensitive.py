from gold.views.extract_views import build_changes, sensitive_values
from gold.views.selects import mask_columns
from lakehouse.config.table import Table


def table(**options: object) -> Table:
    source = {"format": "snapshot", "path": "t", "mode": "full"}
    columns = {"email": {"type": "string", "sensitive": True}, "age": "int"}
    given = {"table": "t", "source": source, "keys": ["id"], "columns": columns}
    return Table.model_validate(given | options)


def test_a_table_without_sensitive_columns_is_read_as_it_is() -> None:
    assert mask_columns(table(), "silver.t", ["id", "age"], "omit") == ("silver.t", ["id", "age"])


def test_sensitive_columns_are_hashed() -> None:
    source, columns = mask_columns(table(), "silver.t", ["id", "email", "age"], "hash")
    hashed = "sha2(CAST(`email` AS STRING), 256) AS `email`"
    assert source == f"(SELECT * EXCEPT (`email`), {hashed} FROM silver.t)"
    assert columns == ["id", "email", "age"]


def test_sensitive_columns_are_left_out() -> None:
    source, columns = mask_columns(table(), "silver.t", ["id", "email", "age"], "omit")
    assert source == "(SELECT * EXCEPT (`email`) FROM silver.t)"
    assert columns == ["id", "age"]


def test_left_out_columns_of_a_snapshot_table_are_shown_apart_by_digest() -> None:
    view = sensitive_values(table(), "silver.t", ["id", "email", "age"])
    assert view.name == "t_sensitive"
    assert list(view.columns) == ["key_digest", "id", "email"]
    assert "age" not in view.query


def test_operations_do_not_show_what_the_current_rows_hide() -> None:
    columns = ["id", "email", "age"]
    shown = build_changes(table(), "silver.t_changes", "silver.t_extracts", columns, "omit")
    assert list(shown.columns) == ["id", "age", "operation", "effective_date"]
    hashed = build_changes(table(), "silver.t_changes", "silver.t_extracts", columns)
    assert hashed.query.startswith("SELECT `id` AS `id`, sha2(CAST(`email` AS STRING), 256)")
