from collections.abc import Sequence
from typing import Any, cast

import pytest

from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from silver.changelog.batch import Batch
from silver.contract import waits_in_log
from silver.fold.order_key import make_order, order_literal, order_sql
from silver.fold.rules import Cutoff
from silver.merge.pending_view import changes_sql, held_sql, newest_sql
from silver.run import SilverTable
from silver.state.epochs import SnapshotProgress, TableChanges, sequence_sql
from silver.state.summary import Summary
from silver.state.table_state import TableState


def table(**options: Any) -> Table:
    source = {"format": "debezium", "path": "t"} | options.pop("source", {})
    return Table.model_validate({"table": "t", "source": source, "keys": ["id"]} | options)


def batch(
    config: Table, *cutoffs: Cutoff, snapshot_progress: Sequence[SnapshotProgress] = ()
) -> Batch:
    """A batch whose rows are not asked for."""
    of = SilverTable(Lake(cast("Any", None), Target(root=".")), config)
    known = TableState(7, whole=TableChanges([*snapshot_progress], [*cutoffs]))
    return Batch(of, cast("Any", None), known, known.replace(logged=9, waits=Summary(1)))


def order(text: str) -> bytes:
    """The order key of `section/section arrival`, in few hex digits."""
    sequence, _, arrival = text.partition(" ")
    sections = "/".join(section.rjust(16, "0") for section in sequence.split("/"))
    return make_order(sections, arrival)


def summary(first: bytes, last: bytes) -> Summary:
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
        ({"source": {"format": "rows"}, "sequence_by": "at"}, True),
    ],
)
def test_ordinary_current_tables_are_shown_from_their_log(
    options: dict[str, Any], shown: bool
) -> None:
    assert waits_in_log(Target(root="."), table(**options)) is shown


def test_the_newest_change_of_each_key_is_told_from_the_batches_that_wait() -> None:
    config, columns = table(source={"format": "ydb"}), ["id", "a`b"]
    whole = batch(config)
    changes = changes_sql(whole, columns, summary(order("05 AA"), order("07 BB")))
    assert changes == (
        f"SELECT `id`, `a``b`, _operation, {order_sql()} AS _order, _digest"
        f" FROM {whole.table.log.name} WHERE _batch > 7 AND _batch <= 9 AND _reason IS NULL"
        " AND _operation IN ('upsert', 'delete')"
    )
    assert newest_sql(["id", "a`b"], ["id"], "C", False) == (
        "SELECT `id`, `a``b`, _order, _operation = 'delete' AS _deleted FROM ("
        "SELECT *, row_number() OVER (PARTITION BY `id` ORDER BY _order DESC) AS _place"
        " FROM (C)) WHERE _place = 1"
    )
    floored = batch(config, Cutoff(order("05")))
    above = changes_sql(floored, columns, summary(order("05 AA"), order("07 BB")))
    assert above == changes
    around = changes_sql(floored, columns, summary(order("04 AA"), order("07 BB")))
    assert around == f"SELECT * FROM ({changes}) WHERE _order > {order_literal(order('05'))}"


def test_changes_of_one_epoch_need_not_be_asked_for_it() -> None:
    known = batch(table(), snapshot_progress=[SnapshotProgress("s:16", "", "0", True, 0)])
    one, two = f"{3:016X}", f"{1:016X}"
    in_front = f"concat_ws('/', '{one}', _sequence)"
    assert f"{order_sql(in_front)} AS _order" in changes_sql(known, ["id"], _of(one, one))
    asked = changes_sql(known, ["id"], _of(two, one))
    assert f"{order_sql(sequence_sql(known.epochs))} AS _order" in asked


def _of(first: str, last: str) -> Summary:
    return summary(order(f"{first}/05 AA"), order(f"{last}/07 BB"))


def test_rows_that_may_be_newer_stand_beside_what_waits_of_their_keys() -> None:
    text = held_sql(table(), "rows", ["id", "a"], "W", order("0A 01"))
    assert "FROM rows AS held LEFT SEMI JOIN (W) AS waiting ON held.`id` = waiting.`id`" in text
    assert text.endswith(f" WHERE held._order >= {order_literal(order('0A 01'))}")


def test_summaries_of_parts_of_the_log_are_joined() -> None:
    one = Summary(3, 2, 0, 0, 1, 0, {"no_key": 1}, [], ["b"], "05", 20, b"5", b"7")
    two = Summary(4, 3, 1, 0, 0, 0, {"no_key": 2}, [], ["a"], "03", 30, b"3", b"6")
    both = Summary(7, 5, 1, 0, 1, 0, {"no_key": 3}, [], ["a", "b"], "03", 20, b"3", b"7")
    assert one.joined(two) == both


def test_bounds_are_unknown_where_those_of_a_part_are_or_epochs_may_have_changed() -> None:
    one = Summary(changes=2, first_order=b"5", last_order=b"7")
    seen = SnapshotProgress("s:9", "", "1", False, 5)
    for later in (
        Summary(changes=1),
        Summary(changes=1, snapshot_progress=[seen], first_order=b"6", last_order=b"9"),
    ):
        both = one.joined(later)
        assert (both.first_order, both.last_order) == (None, None)
    without = one.joined(Summary(records=4))
    assert (without.first_order, without.last_order) == (b"5", b"7")
