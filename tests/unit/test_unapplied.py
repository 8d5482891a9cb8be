from typing import Any, cast

import pytest

from lakehouse.table import Table
from lakehouse.target import Target
from silver.batch import Batch
from silver.contract import waits_in_log
from silver.epochs import Sighting, sequence_sql
from silver.order import Placed
from silver.snapshots import TableChanges, Truncate
from silver.summary import Summary
from silver.unapplied import changes_sql, held_sql, newest_sql


def table(**options: Any) -> Table:
    source = {"format": "debezium", "path": "t"} | options.pop("source", {})
    return Table.model_validate({"table": "t", "source": source, "keys": ["id"]} | options)


BATCH = Batch(9, cast("Any", None), [], [], [], False, False)


def summary(first: str, last: str) -> Summary:
    return Summary(3, 2, 0, 0, 0, 0, {}, [], [], None, 20, first, last)


@pytest.mark.parametrize(
    ("options", "shown"),
    [
        ({}, True),
        ({"source": {"format": "ydb"}}, True),
        ({"stored_as_scd_type": 2}, False),
        ({"keys": []}, False),
        ({"on_delete": "flag"}, False),
        ({"consistency_group": "shop"}, False),
        ({"source": {"format": "rows"}, "sequence_by": "at"}, False),
    ],
)
def test_ordinary_current_tables_are_shown_from_their_log(
    options: dict[str, Any], shown: bool
) -> None:
    assert waits_in_log(Target(root="."), table(**options)) is shown


def test_a_catalog_has_no_views_of_a_log() -> None:
    assert not waits_in_log(Target(catalog="lake"), table())


def test_the_newest_change_of_each_key_is_told_from_the_batches_that_wait() -> None:
    placed = Placed(BATCH, False, TableChanges([], []))
    config = table(source={"format": "ydb"})
    changes = changes_sql(config, "log", ["id", "a`b"], placed, summary("05 A", "07 B"), 7)
    assert changes == (
        "SELECT `id`, `a``b`, _operation, concat(_sequence, ' ', _arrival) AS _stamp FROM log"
        " WHERE _batch > 7 AND _batch <= 9 AND _reason IS NULL"
        " AND _operation IN ('upsert', 'delete')"
    )
    assert newest_sql(["id", "a`b"], ["id"], "C") == (
        "SELECT `id`, `a``b`, _stamp, _operation = 'delete' AS _deleted FROM ("
        "SELECT *, row_number() OVER (PARTITION BY `id` ORDER BY _stamp DESC) AS _place"
        " FROM (C)) WHERE _place = 1"
    )
    floored = placed._replace(batch=BATCH._replace(floors=[Truncate("05", None)]))
    above = changes_sql(config, "log", ["id", "a`b"], floored, summary("05 A", "07 B"), 7)
    assert above == changes
    around = changes_sql(config, "log", ["id", "a`b"], floored, summary("04 A", "07 B"), 7)
    assert around == f"SELECT * FROM ({changes}) WHERE _stamp > '05'"


def test_changes_of_one_epoch_need_not_be_asked_for_it() -> None:
    epoch = Sighting("s:16", "", "0", True, 0)
    placed = Placed(BATCH, False, TableChanges([epoch], []))
    one, two = f"{3:016X}", f"{1:016X}"
    known = changes_sql(table(), "log", ["id"], placed, summary(f"{one}/05 A", f"{one}/07 B"), 7)
    assert f"concat(concat_ws('/', '{one}', _sequence), ' ', _arrival) AS _stamp" in known
    asked = changes_sql(table(), "log", ["id"], placed, summary(f"{two}/05 A", f"{one}/07 B"), 7)
    assert f"concat({sequence_sql(placed.new.epochs)}, ' ', _arrival) AS _stamp" in asked


def test_rows_that_may_be_newer_stand_beside_what_waits_of_their_keys() -> None:
    text = held_sql("rows", ["id", "a"], ["id"], "W", "0A 1")
    assert "FROM rows AS held LEFT SEMI JOIN (W) AS waiting ON held.`id` = waiting.`id`" in text
    assert text.endswith(" WHERE held._stamp >= '0A 1'")


def test_summaries_of_parts_of_the_log_are_joined() -> None:
    one = Summary(3, 2, 0, 0, 1, 0, {"no_key": 1}, [], ["b"], "05", 20, "05 A", "07 B")
    two = Summary(4, 3, 1, 0, 0, 0, {"no_key": 2}, [], ["a"], "03", 30, "03 C", "06 D")
    both = Summary(7, 5, 1, 0, 1, 0, {"no_key": 3}, [], ["a", "b"], "03", 20, "03 C", "07 B")
    assert one.joined(two) == both
