"""What becomes of one key's row in a current table: one behaviour each."""

from itertools import permutations
from typing import Any

import pytest

from silver.fold.rules import FoldRules
from tests.helpers.one_key import COLUMNS, Change, CurrentKey, cutoff, gone, order, ordered_by, up

GROUPS = FoldRules(COLUMNS, grouped=("b",), from_log=True)
FROM_LOG = FoldRules(COLUMNS, from_log=True)


def after(*batches: list[Change], rules: FoldRules | None = None) -> CurrentKey:
    key = CurrentKey() if rules is None else CurrentKey(rules)
    for batch in batches:
        key.take(*batch)
    return key


def row(a: Any, b: Any) -> dict[str, Any]:
    return {"a": a, "b": b}


def test_the_newest_whole_upsert_is_the_row() -> None:
    key = after([up(1, a="x", b="y"), up(2, a="z", b=None)])
    assert key.row == row("z", None)
    assert key.facts is not None and key.facts[3:] == (None, None, None, None)


def test_a_late_whole_upsert_changes_nothing_and_writes_nothing() -> None:
    key = after([up(5, a="new", b="new")])
    assert key.take(up(3, a="old", b="old")) == (None, 1, 0, 0)
    assert key.row == row("new", "new") and not key.wrote


def test_a_delete_leaves_a_tombstone_with_the_last_values() -> None:
    key = after([up(1, a="x", b="y")], [gone(2)])
    assert key.row is None and key.values == row("x", "y")
    assert key.facts is not None and key.facts.deleted and key.facts.upsert == order(1, 1)


def test_a_delete_of_a_key_never_seen_leaves_a_tombstone_without_an_upsert() -> None:
    key = after([gone(2)])
    assert key.facts is not None and key.facts.deleted and key.facts.upsert is None


def test_a_delete_wins_over_the_insert_that_it_follows_when_that_comes_later() -> None:
    key = after([gone(5)], [up(3, a="x", b="y")])
    assert key.row is None


def test_an_insert_after_a_delete_makes_a_new_row() -> None:
    key = after([up(1, a="x", b="y"), gone(2)], [up(3, a="z")])
    assert key.row == row("z", None)


def test_create_and_delete_in_one_batch_leave_no_row() -> None:
    assert after([up(1, a="x", b="y"), gone(2)]).row is None


def test_a_partial_upsert_changes_only_the_columns_that_it_carries() -> None:
    key = after([up(1, a="x", b="y")], [up(2, a="z")])
    assert key.row == row("z", "y")
    assert key.facts is not None and key.facts.columns == {"b": order(1, 1)}


def test_a_late_upsert_gives_a_column_that_nothing_newer_carried() -> None:
    key = after([up(1, a="x", b="y")], [up(5, a="z")])
    assert key.take(up(3, a="late", b="late")) == ("late", 0, 0, 0)
    assert key.row == row("z", "late")


def test_a_column_that_no_change_carried_has_an_empty_order_key() -> None:
    key = after([up(1, a="x")])
    assert key.row == row("x", None)
    assert key.facts is not None and key.facts.columns == {"b": b""}


@pytest.mark.parametrize("arrived", list(permutations(range(4))))
def test_a_row_does_not_depend_on_the_order_of_arrival(arrived: tuple[int, ...]) -> None:
    changes = [up(1, 1, a="x", b="y"), gone(2, 2), up(3, 3, b="new"), up(4, 4, a="last")]
    key = after(*[[changes[at]] for at in arrived])
    assert key.row == row("last", "new")
    assert key.facts is not None
    assert key.facts.removed == order(2, 2) and key.facts.columns == {"b": order(3, 3)}


def test_a_late_delete_forgets_the_columns_that_are_older() -> None:
    key = after([up(1, a="x", b="y")], [up(4, a="z")])
    assert key.take(gone(3)) == ("late", 0, 0, 0)
    assert key.row == row("z", None)


def test_what_came_before_a_known_delete_does_not_come_back() -> None:
    key = after([gone(3)], [up(4, a="z")], [up(1, a="x", b="y")])
    assert key.row == row("z", None)


def test_a_late_delete_below_a_whole_row_is_remembered_for_columns_to_come() -> None:
    key = after([up(4, a="x", b="y")])
    assert key.take(gone(3)) == (None, 1, 0, 0)
    assert key.wrote and key.facts is not None and key.facts.removed == order(3, 2)


def test_a_column_that_came_late_is_carried_by_no_row_written_before() -> None:
    key = after([up(5, a="x", b=None)])
    key.late_columns = ("b",)
    assert key.take(up(3, a="old", b="y")) == ("late", 0, 0, 0)
    assert key.row == row("x", "y")
    assert key.facts is not None and key.facts.columns == {"b": order(3, 2)}


def test_late_values_under_a_tombstone_are_kept_and_counted_as_superseded() -> None:
    key = after([up(1, a="x", b="y")], [gone(5)])
    assert key.take(up(3, a="z", b="z")) == (None, 1, 0, 0)
    assert key.wrote and key.row is None and key.values == row("z", "z")


@pytest.mark.parametrize(
    ("stored", "batch", "outcome"),
    [
        ([], [up(1, a="x", b="y")], ("inserted", 0, 0, 0)),
        ([up(1, a="x", b="y")], [up(2, a="z", b="y")], ("updated", 0, 0, 0)),
        ([up(1, a="x", b="y")], [gone(2)], ("deleted", 0, 0, 0)),
        ([], [gone(2)], ("delete_unknown", 0, 0, 0)),
        ([gone(1)], [gone(2)], ("delete_unknown", 0, 0, 0)),
        ([gone(1)], [up(2, a="x", b="y")], ("inserted", 0, 0, 0)),
        ([], [up(1, a="x", b="y"), gone(2)], ("deleted", 1, 0, 0)),
        ([gone(8)], [up(1, a="x", b="y"), gone(2)], (None, 2, 0, 0)),
        ([gone(1)], [up(2, a="x", b="y"), gone(3)], ("deleted", 1, 0, 0)),
        ([], [up(n, a="x", b="y") for n in range(1, 6)], ("inserted", 4, 0, 0)),
        ([up(9, a="x", b="y")], [up(1, a="x", b="y"), up(10, a="x", b="y")], ("updated", 1, 0, 0)),
    ],
)
def test_every_change_has_one_outcome(
    stored: list[Change], batch: list[Change], outcome: tuple[Any, ...]
) -> None:
    key = after(*([stored] if stored else []))
    assert key.take(*batch) == outcome


X, Y = up(5, a="x", b="b"), up(5, a="y", b="b")


@pytest.mark.parametrize("batches", [[[X, Y]], [[X], [Y]]])
def test_of_two_changes_at_one_sequence_the_later_first_delivery_wins(
    batches: list[list[Change]],
) -> None:
    key = after(*batches)
    assert key.row == row("y", "b")


@pytest.mark.parametrize("batches", [[[X, Y, X]], [[X], [Y], [X]], [[X, Y], [X]], [[X], [Y, X]]])
@pytest.mark.parametrize("rules", [None, FROM_LOG])
def test_a_redelivery_never_wins_a_tie(
    batches: list[list[Change]], rules: FoldRules | None
) -> None:
    key = after(rules=rules)
    outcomes = [key.take(*batch) for batch in batches]
    assert key.row == row("y", "b")
    assert sum(o.duplicate for o in outcomes) == 1 and sum(o.ties for o in outcomes) == 1


def test_a_change_that_arrived_earlier_but_was_applied_later_loses_the_tie() -> None:
    key = after([up(5, 7, a="x", b="b")])
    assert key.take(up(5, 3, a="y", b="b")) == (None, 1, 0, 1)
    assert key.row == row("x", "b") and key.wrote
    assert key.take(up(5, 9, a="y", b="b")) == (None, 0, 1, 0)
    assert key.row == row("x", "b")


def test_the_digests_of_a_tie_are_forgotten_with_its_sequence() -> None:
    key = after([X, Y], [up(6, a="z", b="b")])
    assert key.facts is not None and key.facts.changes is None


@pytest.mark.parametrize("again", [1, 9])
@pytest.mark.parametrize("rules", [None, FROM_LOG])
def test_a_redelivery_of_the_newest_change_is_a_duplicate(
    again: int, rules: FoldRules | None
) -> None:
    """It arrives after the applied one, or before it: a dead letter that was replayed."""
    key = after([up(5, 5, a="x", b="y")], rules=rules)
    assert key.take(up(5, again, a="x", b="y")) == (None, 0, 1, 0)
    assert key.row == row("x", "y")


def test_a_redelivery_that_the_row_does_not_show_is_superseded() -> None:
    key = after([up(1, a="x", b="y")], [up(2, a="z", b="y")])
    assert key.take(up(1, a="x", b="y")) == (None, 1, 0, 0)


def test_redeliveries_of_what_a_partial_row_names_are_duplicates() -> None:
    changes = [up(1, a="x", b="y"), up(2, a="z")]
    key = after(changes)
    assert key.take(*changes) == (None, 0, 2, 0)
    assert not key.wrote


def test_a_redelivered_upsert_and_its_delete_leave_no_row() -> None:
    upsert = up(1, a="x", b="y")
    key = after([upsert], [upsert, gone(2)])
    assert key.row is None


def test_a_delete_ties_with_an_upsert_like_any_change() -> None:
    assert after([gone(5), up(5, a="x", b="y")]).row == row("x", "y")
    assert after([up(5, a="x", b="y"), gone(5)]).row is None


def test_a_cut_off_removes_what_is_older_and_keeps_winning() -> None:
    key = after([up(1, a="x", b="y")])
    key.rules = FoldRules(COLUMNS, cutoffs=(cutoff(3),))
    assert key.take(up(2, a="late", b="late")) == (None, 1, 0, 0)
    assert key.facts is None
    assert key.take(up(4, a="new")) == ("inserted", 0, 0, 0)
    assert key.row == row("new", None)


def test_a_delete_after_a_cut_off_deletes_an_unknown_row() -> None:
    key = after([up(1, a="x", b="y")])
    key.rules = FoldRules(COLUMNS, cutoffs=(cutoff(3),))
    assert key.take(gone(4)) == ("delete_unknown", 0, 0, 0)


def test_a_cut_off_that_arrives_late_forgets_older_columns_of_a_newer_row() -> None:
    key = after([up(1, a="x", b="y")], [up(5, a="z")])
    key.rules = FoldRules(COLUMNS, cutoffs=(cutoff(2), cutoff(3)))
    assert key.take() == (None, 0, 0, 0)
    assert key.wrote and key.facts is not None and key.facts.columns == {"b": b""}


def test_a_cut_off_takes_the_last_values_from_a_newer_tombstone() -> None:
    key = after([up(1, a="x", b="y")], [gone(5)])
    key.rules = FoldRules(COLUMNS, cutoffs=(cutoff(3),))
    key.take()
    assert key.facts is not None and key.facts.upsert is None and key.values == row(None, None)


STREAMS: list[tuple[list[Change], dict[str, Any]]] = [
    (
        [
            ordered_by(up(1, a=10, b=5), b=9),
            ordered_by(up(2, a=11, b=4), b=3),
            up(3, a=12),
        ],
        row(12, 5),
    ),
    ([ordered_by(up(1, a=10, b=5), b=9), gone(2), ordered_by(up(3, a=8, b=1), b=1)], row(8, 1)),
    (
        [
            ordered_by(up(5, a=1, b=1), b=1),
            ordered_by(up(4, a=2, b=2), b=1),
            ordered_by(up(3, a=3, b=3), b=2),
        ],
        row(1, 3),
    ),
    (
        [ordered_by(up(1, a=1, b=1), b=5), ordered_by(up(4, a=2, b=2), b=4), gone(3)],
        row(2, 2),
    ),
]


@pytest.mark.parametrize(("changes", "want"), STREAMS)
def test_a_group_keeps_its_own_newest_since_the_last_delete_in_any_order(
    changes: list[Change], want: dict[str, Any]
) -> None:
    for arrived in permutations(changes):
        key = after(*[[change] for change in arrived], rules=GROUPS)
        key.take(*arrived[:2])
        assert key.row == want


def test_a_late_change_to_a_recomputed_key_is_late_where_it_gives_values() -> None:
    key = after([up(5, a="x")], rules=FROM_LOG)
    assert key.take(up(3, b="late")) == ("late", 0, 0, 0)
    assert key.take(up(2, a="older", b="older")) == (None, 1, 0, 0)
    assert key.row == row("x", "late")


def test_a_recomputed_tombstone_shows_the_last_life_only() -> None:
    key = after([up(1, a="x", b="y"), up(4, a="z"), gone(5)], [gone(3)], rules=FROM_LOG)
    assert key.row is None and key.values == row("z", None)


def test_a_repeated_batch_writes_nothing() -> None:
    batch = [up(1, 1, a="x", b="y"), gone(2, 2), up(3, 3, a="z"), gone(4, 4), up(5, 5, b="w")]
    key = after(batch)
    assert key.take(*batch) == (None, 3, 2, 0)
    assert not key.wrote
