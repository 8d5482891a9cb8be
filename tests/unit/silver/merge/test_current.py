from lakehouse.storage import names
from silver.fold.order_key import make_order, order_literal
from silver.merge.current import facts_sql, merge_sql


def test_the_merge_needs_nothing_of_the_table_but_its_keys() -> None:
    on = names.agree_on("t", "s", ["x", "y z"])
    text = merge_sql("t1", on, (["x", "y z"], ["a"]), cutoff=None)
    assert text.startswith(f"MERGE INTO t1 t USING {{rows}} s ON {on} WHEN MATCHED THEN UPDATE SET")
    assert "t.`a` = s.`a`" in text and "t.`_facts` = s.`_facts`" in text
    assert "= t." not in text and "NOT MATCHED BY SOURCE" not in text


def test_a_merge_with_a_cutoff_deletes_every_older_row() -> None:
    cutoff = make_order(f"{4:016X}")
    text = merge_sql("t1", "t.id = s.id", (["id"], ["a"]), cutoff)
    older = f"t._order < {order_literal(cutoff)}"
    assert text.endswith(f"WHEN NOT MATCHED BY SOURCE AND {older} THEN DELETE")


def test_facts_are_written_without_values_and_into_rows_that_are_there() -> None:
    text = facts_sql("t1", "t.id = s.id")
    assert "t.`_order` = s.`_order`" in text and "t.`_facts` = s.`_facts`" in text
    assert "_batch" not in text and "INSERT" not in text


def test_keys_that_may_be_null_are_compared_as_values() -> None:
    assert names.agree_on("t", "s", ["x", "y"], {"y"}) == "t.`x` = s.`x` AND t.`y` <=> s.`y`"
