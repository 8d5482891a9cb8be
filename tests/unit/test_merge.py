from silver.apply import forget_sql
from silver.merge import merge_sql


def test_a_merge_of_whole_rows_has_no_clause_that_joins_columns() -> None:
    text = merge_sql("t1", ["id"], ["a"], partial=False, batch=7, floor=None)
    assert text.startswith("MERGE INTO t1 t USING {rows} s ON t.`id` = s.`id` WHEN MATCHED")
    assert "_column_stamps[" not in text
    assert "NOT MATCHED BY SOURCE" not in text


def test_a_merge_with_a_floor_deletes_every_older_row() -> None:
    text = merge_sql("t1", ["id"], ["a"], partial=False, batch=7, floor="0004 ")
    assert text.endswith("WHEN NOT MATCHED BY SOURCE AND t._stamp < '0004 ' THEN DELETE")


def test_a_merge_of_partial_rows_takes_each_column_by_its_own_stamp() -> None:
    text = merge_sql("t1", ["id"], ["a b"], partial=True, batch=7, floor=None)
    assert "s._column_stamps['a b']" in text
    assert "t.`a b` = CASE WHEN" in text


def test_every_key_column_joins() -> None:
    text = merge_sql("t1", ["x", "y z"], [], partial=False, batch=1, floor=None)
    assert "ON t.`x` = s.`x` AND t.`y z` = s.`y z` WHEN" in text


def test_a_truncate_empties_the_columns_that_were_carried_before_it() -> None:
    text = forget_sql("t1", ["a"], "0004 ", 9)
    assert text.startswith("UPDATE t1 SET `a` = CASE WHEN coalesce(_column_stamps['a']")
    assert text.endswith("WHERE _partial AND _stamp > '0004 '")
