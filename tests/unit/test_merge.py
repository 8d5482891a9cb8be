from silver.apply import forget_sql
from silver.merge import merge_sql, replace_sql


def test_a_merge_of_whole_rows_has_no_clause_that_joins_columns() -> None:
    text = merge_sql("t1", ["id"], ["a"], partial=False, floor=None)
    assert text.startswith("MERGE INTO t1 t USING {rows} s ON t.`id` = s.`id` WHEN MATCHED")
    assert "t.`_batch` = s._batch" in text
    assert "_column_stamps[" not in text
    assert "NOT MATCHED BY SOURCE" not in text


def test_a_merge_with_a_floor_deletes_every_older_row() -> None:
    text = merge_sql("t1", ["id"], ["a"], partial=False, floor="0004 ")
    assert text.endswith("WHEN NOT MATCHED BY SOURCE AND t._stamp < '0004 ' THEN DELETE")


def test_a_merge_of_partial_rows_takes_each_column_by_its_own_stamp() -> None:
    text = merge_sql("t1", ["id"], ["a b"], partial=True, floor=None)
    assert "s._column_stamps['a b']" in text
    assert "t.`a b` = CASE WHEN" in text


def test_every_key_column_joins() -> None:
    text = merge_sql("t1", ["x", "y z"], [], partial=False, floor=None)
    assert "ON t.`x` = s.`x` AND t.`y z` = s.`y z` WHEN" in text


def test_a_truncate_empties_the_columns_that_were_carried_before_it() -> None:
    text = forget_sql("t1", ["a"], "0004 ", 9)
    assert text.startswith("UPDATE t1 SET `a` = CASE WHEN coalesce(_column_stamps['a']")
    assert text.endswith("WHERE _partial AND _stamp > '0004 '")


def test_a_column_that_came_late_has_no_stamp_in_rows_written_before() -> None:
    text = merge_sql("t1", ["id"], ["a", "b"], True, None, {"b": 5})
    before = "CASE WHEN t._batch < 5 THEN '' ELSE coalesce(t._upsert_stamp, '') END"
    assert f"coalesce(t._column_stamps['b'], {before})" in text
    assert f"coalesce(t._column_stamps['a'], {before})" not in text
    assert f"coalesce(s._column_stamps['b'], {before})" not in text


def test_rows_that_hold_all_of_their_keys_replace_what_differs_in_a_stamp() -> None:
    text = replace_sql("t1", ["id"], ["a"])
    assert "WHEN MATCHED AND NOT (s._stamp <=> t._stamp AND " in text
    assert "t.`a` = s.`a`" in text
    assert "greatest(" not in text
