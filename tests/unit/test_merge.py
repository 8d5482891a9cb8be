from silver.apply import forget_sql

from silver.merge import merge_sql, of_whole_keys, rules


def test_whole_rows_have_no_rule_that_joins_columns() -> None:
    found = rules(["a"], partial=False)
    assert not any("_column_stamps[" in f"{rule.when} {rule.values}" for rule in found)
    assert [rule.values["a"] for rule in found] == ["s.`a`", "t.`a`", "s.`a`"]


def test_every_rule_says_what_becomes_of_every_column() -> None:
    found = rules(["a", "b"], partial=True)
    assert {frozenset(rule.values) for rule in found} == {frozenset(found[0].values)}
    assert {"a", "b", "_stamp", "_class"} <= set(found[0].values)


def test_partial_rows_take_each_column_by_its_own_stamp() -> None:
    general = rules(["a b"], partial=True)[-1]
    assert "s._column_stamps['a b']" in general.when
    assert "THEN s.`a b` ELSE t.`a b`" in general.values["a b"]


def test_a_column_that_came_late_has_no_stamp_in_rows_written_before() -> None:
    when = rules(["a", "b"], True, {"b": 5})[-1].when
    before = "CASE WHEN t._batch < 5 THEN '' ELSE coalesce(t._upsert_stamp, '') END"
    assert f"coalesce(t._column_stamps['b'], {before})" in when
    assert f"coalesce(t._column_stamps['a'], {before})" not in when
    assert f"coalesce(s._column_stamps['b'], {before})" not in when


def test_rows_that_hold_all_of_their_keys_replace_what_differs_in_a_stamp() -> None:
    (rule,) = of_whole_keys(["a"])
    assert rule.when.startswith("NOT (s._stamp <=> t._stamp AND ")
    assert rule.values["a"] == "s.`a`"
    assert not any("greatest(" in value for value in rule.values.values())


def test_the_merge_needs_nothing_of_the_table_but_its_keys() -> None:
    text = merge_sql("t1", ["x", "y z"], ["a"], floor=None)
    on = "ON t.`x` = s.`x` AND t.`y z` = s.`y z`"
    assert text.startswith(f"MERGE INTO t1 t USING {{rows}} s {on} WHEN MATCHED THEN UPDATE SET")
    assert "t.`_batch` = s.`_batch`" in text
    assert "= t." not in text and "NOT MATCHED BY SOURCE" not in text


def test_a_merge_with_a_floor_deletes_every_older_row() -> None:
    text = merge_sql("t1", ["id"], ["a"], floor="0004 ")
    assert text.endswith("WHEN NOT MATCHED BY SOURCE AND t._stamp < '0004 ' THEN DELETE")


def test_a_truncate_empties_the_columns_that_were_carried_before_it() -> None:
    text = forget_sql("t1", ["a"], "0004 ", 9)
    assert text.startswith("UPDATE t1 SET `a` = CASE WHEN coalesce(_column_stamps['a']")
    assert text.endswith("WHERE _partial AND _stamp > '0004 '")
