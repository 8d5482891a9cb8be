"""What becomes of one key's history: one behaviour each. A change's time is its own, in seconds."""

from itertools import permutations
from typing import Any

import pytest

from silver.fold.rules import FoldRules
from tests.helpers.one_key import COLUMNS, Change, HistoryKey, cutoff, gone, order, ordered_by, up


def after(*batches: list[Change], **rules: Any) -> HistoryKey:
    key = HistoryKey(FoldRules(COLUMNS, **({"tracked": COLUMNS} | rules)))
    for batch in batches:
        key.take(*batch)
    return key


def at(sequence: int, **values: Any) -> Change:
    """An upsert that was committed at its sequence."""
    return up(sequence, None, sequence, **values)


def end(sequence: int) -> Change:
    return gone(sequence, None, sequence)


def test_every_change_of_a_tracked_column_opens_a_version() -> None:
    key = after([at(1, a="x", b="y"), at(4, a="z", b="y")])
    assert key.versions == [(1, 4, "x", "y"), (4, None, "z", "y")]
    assert key.current == {"a": "z", "b": "y"}


def test_a_delete_ends_the_open_version() -> None:
    key = after([at(1, a="x", b="y"), end(4)])
    assert key.versions == [(1, 4, "x", "y")] and key.current is None


def test_changes_that_agree_on_the_tracked_columns_are_one_version_with_the_newest_values() -> None:
    key = after([at(1, a="x", b="y"), at(4, a="x", b="z")], tracked=("a",))
    assert key.versions == [(1, None, "x", "z")]


def test_without_tracked_columns_a_row_has_one_version() -> None:
    key = after([at(1, a="x", b="y"), at(4, a="z", b="z")], tracked=())
    assert key.versions == [(1, None, "z", "z")]


def test_null_is_a_value_like_any_other() -> None:
    key = after([at(1, a=None, b="y"), at(2, a=None, b="y"), at(3, a="x", b="y")])
    assert key.versions == [(1, 3, None, "y"), (3, None, "x", "y")]


def test_a_delete_between_equal_rows_makes_two_versions() -> None:
    key = after([at(1, a="x", b="y"), end(3), at(5, a="x", b="y")])
    assert key.versions == [(1, 3, "x", "y"), (5, None, "x", "y")]


def test_a_late_delete_splits_a_version_of_equal_rows() -> None:
    key = after([at(1, a="x", b="y"), at(5, a="x", b="y")])
    assert key.versions == [(1, None, "x", "y")]
    assert key.take(end(3)) == {"late": 1}
    assert key.versions == [(1, 3, "x", "y"), (5, None, "x", "y")]


def test_a_late_change_splits_a_version() -> None:
    key = after([at(1, a="x", b="y"), at(9, a="x", b="y")])
    assert key.take(at(5, a="z", b="y")) == {"late": 1}
    assert key.versions == [(1, 5, "x", "y"), (5, 9, "z", "y"), (9, None, "x", "y")]


def test_a_late_change_joins_versions() -> None:
    key = after([at(1, a="x", b="y"), at(9, a="z", b="y")])
    key.take(at(5, a="z", b="y"))
    assert key.versions == [(1, 5, "x", "y"), (5, None, "z", "y")]


@pytest.mark.parametrize("arrived", list(permutations(range(5))))
def test_a_history_does_not_depend_on_the_order_of_arrival(arrived: tuple[int, ...]) -> None:
    changes = [at(1, a="x", b="y"), at(2, a="z"), end(3), at(4, b="new"), at(5, a="last")]
    key = after(*[[changes[n]._replace(arrival=n)] for n in arrived])
    assert key.versions == [
        (1, 2, "x", "y"), (2, 3, "z", "y"), (4, 5, None, "new"), (5, None, "last", "new"),
    ]  # fmt: skip
    lives = [key.rows[place].facts.life for place in sorted(key.rows)]
    assert lives == [b"", b"", b"", order(3, 2), order(3, 2)]


def test_a_late_value_fills_the_later_rows_that_did_not_carry_it() -> None:
    key = after([at(1, a="x", b="y"), at(5, a="z"), at(7, a="w")])
    key.take(at(3, b="late"))
    assert key.versions == [
        (1, 3, "x", "y"), (3, 5, "x", "late"), (5, 7, "z", "late"), (7, None, "w", "late"),
    ]  # fmt: skip


def test_a_row_far_from_the_batch_is_not_written_again() -> None:
    key = after([at(n, a=str(n), b="y") for n in range(1, 50)])
    key.take(at(50, a="50", b="y"))
    assert key.written == 2


def test_only_the_row_before_the_batch_is_needed_to_resolve_a_partial_change() -> None:
    key = after([at(1, a="x", b="y")], [at(2, a="z")], [at(3, a="w")], [at(4, b="v")])
    assert key.versions[-1] == (4, None, "w", "v")


def test_valid_from_never_runs_back_along_the_sequence() -> None:
    key = after([up(1, None, 10, a="x", b="y"), up(2, None, 5, a="z", b="y")])
    assert key.versions == [(10, 10, "x", "y"), (10, None, "z", "y")]


def test_a_late_change_with_a_later_time_moves_the_versions_after_it() -> None:
    key = after([up(1, None, 1, a="x", b="y"), up(3, None, 3, a="z", b="y")])
    key.take(up(2, None, 8, a="w", b="y"))
    assert key.versions == [(1, 8, "x", "y"), (8, 8, "w", "y"), (8, None, "z", "y")]


def test_a_change_without_a_time_takes_the_newest_time_before_it() -> None:
    key = after([up(1, None, 4, a="x", b="y")], [up(2, None, None, a="z", b="y")])
    assert key.versions == [(4, 4, "x", "y"), (4, None, "z", "y")]


def test_a_version_begins_where_its_first_row_did_though_only_the_newest_is_read() -> None:
    key = after([at(1, a="x", b="y")], [at(2, a="x", b="y")], [at(3, a="x", b="y")])
    assert key.versions == [(1, None, "x", "y")]
    assert key.rows[order(3, 3)].facts.from_order == order(1, 1)


def test_a_cut_off_ends_every_open_version() -> None:
    key = after([at(1, a="x", b="y")], [at(6, a="x")], cutoffs=(cutoff(4),))
    assert key.versions == [(1, 4, "x", "y"), (6, None, "x", None)]


def test_a_snapshot_ends_no_version_of_a_row_that_it_shows() -> None:
    shown = cutoff(4, until=8)
    key = after([at(1, a="x", b="y")], [at(6, a="x", b="y")], cutoffs=(shown,))
    assert key.versions == [(1, None, "x", "y")]
    key = after([at(1, a="x", b="y")], [at(6, a="z", b="y")], cutoffs=(shown,))
    assert key.versions == [(1, 6, "x", "y"), (6, None, "z", "y")]
    key = after([at(1, a="x", b="y")], [at(9, a="x", b="y")], cutoffs=(shown,))
    assert key.versions == [(1, 4, "x", "y"), (9, None, "x", "y")]


def test_a_snapshot_that_comes_in_force_late_ends_no_version_of_a_row_that_it_shows() -> None:
    key = after([at(1, a="x", b="y"), at(6, a="x", b="y")])
    key.rules = FoldRules(COLUMNS, tracked=COLUMNS, cutoffs=(cutoff(4, until=8),))
    assert key.take() == {}
    assert key.versions == [(1, None, "x", "y")]


def test_the_second_of_two_snapshots_shows_a_row_that_the_first_one_lacks() -> None:
    cutoffs = (cutoff(4, until=5), cutoff(7, until=9))
    key = after([at(1, a="x", b="y")], [at(8, a="x", b="y")], cutoffs=cutoffs)
    assert key.versions == [(1, 4, "x", "y"), (8, None, "x", "y")]


def test_a_row_that_is_back_at_the_time_of_the_truncate_goes_on() -> None:
    key = after([at(1, a="x", b="y"), at(6, a="x", b="y")], cutoffs=(cutoff(4, time=6),))
    assert key.versions == [(1, None, "x", "y")]


@pytest.mark.parametrize("batches", [[(1, 6, 8)], [(1,), (6, 8)], [(1, 8), (6,)], [(8,), (1, 6)]])
def test_a_version_begins_no_earlier_than_the_cut_off_that_ended_the_one_before(
    batches: list[tuple[int, ...]],
) -> None:
    changes = {
        1: up(1, None, 0, a="x", b="y"),
        6: up(6, None, 1, a="x", b="y"),
        8: up(8, None, 2, a="z", b="y"),
    }
    key = after(*([changes[n] for n in batch] for batch in batches), cutoffs=(cutoff(4, time=10),))
    assert key.versions == [(0, 10, "x", "y"), (10, 10, "x", "y"), (10, None, "z", "y")]


def test_a_late_cut_off_moves_the_versions_after_it_in_time() -> None:
    key = after([at(1, a="x", b="y"), at(6, a="x", b="y")])
    key.rules = FoldRules(COLUMNS, tracked=COLUMNS, cutoffs=(cutoff(4, time=9),))
    assert key.take() == {}
    assert key.versions == [(1, 9, "x", "y"), (9, None, "x", "y")]


def test_a_cut_off_that_ends_no_version_moves_none_in_time() -> None:
    key = after([at(6, a="x", b="y")], cutoffs=(cutoff(4, time=9),))
    assert key.versions == [(6, None, "x", "y")]
    key = after([at(1, a="x", b="y"), end(2), at(6, a="x", b="y")], cutoffs=(cutoff(4, time=9),))
    assert key.versions == [(1, 2, "x", "y"), (6, None, "x", "y")]


def test_a_late_cut_off_ends_a_version_and_forgets_what_came_before_it() -> None:
    key = after([at(1, a="x", b="y"), at(6, a="x")])
    key.rules = FoldRules(COLUMNS, tracked=COLUMNS, cutoffs=(cutoff(4),))
    assert key.take() == {}
    assert key.versions == [(1, 4, "x", "y"), (6, None, "x", None)]


def test_each_of_many_cut_offs_ends_the_versions_before_it() -> None:
    cutoffs = tuple(cutoff(n) for n in range(2, 8000, 4))
    key = after([at(n, a="x", b="y") for n in range(0, 8000, 4)], cutoffs=cutoffs)
    assert key.versions == [(n, n + 2, "x", "y") for n in range(0, 8000, 4)]


def test_a_cut_off_without_a_time_ends_a_version_where_it_began() -> None:
    key = after([at(5, a="x", b="y")], cutoffs=(cutoff(6)._replace(time=None),))
    assert key.versions == [(5, 5, "x", "y")]


@pytest.mark.parametrize(
    ("stored", "batch", "outcomes"),
    [
        ([], [at(1, a="x", b="y"), at(2, a="x", b="y")], {"inserted": 1, "updated": 1}),
        ([at(1, a="x", b="y")], [end(2)], {"deleted": 1}),
        ([], [end(2), at(3, a="x", b="y")], {"delete_unknown": 1, "inserted": 1}),
        ([at(5, a="x", b="y")], [at(3, a="x", b="y")], {"late": 1}),
        ([at(5, a="x", b="y")], [at(3, a="x", b="y"), at(6, a="x")], {"late": 1, "updated": 1}),
        ([], [at(3, a="x"), at(3, a="y")], {"superseded": 1, "updated": 1}),
        ([at(3, a="x", b="y")], [at(3, a="x", b="y")], {"duplicate": 1}),
        ([], [at(3, a="x"), at(3, a="x"), at(3, a="x")], {"duplicate": 2, "inserted": 1}),
    ],
)
def test_every_change_has_one_outcome(
    stored: list[Change], batch: list[Change], outcomes: dict[str, int]
) -> None:
    key = after(*([stored] if stored else []))
    assert key.take(*batch) == outcomes


def test_a_change_older_than_the_newest_cut_off_is_superseded() -> None:
    key = after(cutoffs=(cutoff(4),))
    assert key.take(at(1, a="x", b="y")) == {"superseded": 1}
    assert key.versions == [(1, 4, "x", "y")]


X, Y = at(5, a="x", b="b"), at(5, a="y", b="b")


@pytest.mark.parametrize("batches", [[[X, Y, X]], [[X], [Y], [X]], [[X, Y], [X]], [[X], [Y, X]]])
@pytest.mark.parametrize("from_log", [False, True])
def test_a_redelivery_never_wins_a_tie(batches: list[list[Change]], from_log: bool) -> None:
    key, found, ties = after(from_log=from_log), dict[str, int](), 0
    for batch in batches:
        for name, n in key.take(*batch).items():
            found[name] = found.get(name, 0) + n
        ties += key.ties
    assert key.versions == [(5, None, "y", "b")]
    assert found["duplicate"] == 1 and ties == 1


def test_the_loser_of_a_tie_is_no_version_but_its_delete_ends_one() -> None:
    key = after([at(1, a="x", b="b")], [end(5), at(5, a="x", b="b")])
    assert key.versions == [(1, 5, "x", "b"), (5, None, "x", "b")]


def test_the_loser_of_a_tie_gives_the_columns_that_the_winner_lacks() -> None:
    key = after([at(5, a="x", b="b"), at(5, a="y")])
    assert key.versions == [(5, None, "y", "b")]


@pytest.mark.parametrize("again", [1, 9])
@pytest.mark.parametrize("from_log", [False, True])
def test_a_change_that_came_again_is_a_duplicate_wherever_it_stands(
    again: int, from_log: bool
) -> None:
    """It arrives after the applied one, or before it: a dead letter that was replayed."""
    first = up(3, 5, 3, a="x", b="y")
    key = after([first, up(6, 6, 6, a="z", b="y")], from_log=from_log)
    held = dict(key.rows)
    assert key.take(first._replace(arrival=again)) == {"duplicate": 1}
    assert key.rows == held and key.written == 0


def test_a_repeated_batch_writes_nothing() -> None:
    batch = [c._replace(arrival=n) for n, c in enumerate([at(1, a="x"), end(2), at(3, b="y"), X])]
    key = after(batch)
    assert key.take(*batch) == {"duplicate": 4}
    assert key.written == 0


def test_a_column_that_came_late_is_not_carried_by_rows_before() -> None:
    key = after([at(1, a="x", b="y"), at(5, a="z")], [at(3, a="w", b="late")])
    assert key.current == {"a": "z", "b": "late"}


def test_a_kept_row_shows_its_last_values_after_the_delete() -> None:
    key = after([at(1, a="x", b="y")], [end(4)], [end(6)], keeps_deleted=True)
    deletes = [kept for kept in key.rows.values() if kept.change.values is None]
    assert [kept.facts.kept for kept in deletes] == [True, True]
    assert [kept.values for kept in deletes] == [{"a": "x", "b": "y"}] * 2


def test_a_late_value_changes_what_a_deleted_row_shows() -> None:
    key = after([at(1, a="x", b="y")], [end(4)], [at(2, a="late")], keeps_deleted=True)
    newest = key.rows[max(key.rows)]
    assert newest.values == {"a": "late", "b": "y"}


def test_a_deleted_row_is_not_kept_beyond_a_cut_off() -> None:
    key = after([at(1, a="x", b="y")], [end(6)], keeps_deleted=True, cutoffs=(cutoff(4),))
    assert key.rows[max(key.rows)].facts.kept is False


def test_a_group_has_its_own_newest_at_every_place() -> None:
    lines = [
        ordered_by(at(1, a=10, b=5), b=9),
        ordered_by(at(2, a=11, b=4), b=3),
        at(3, a=12),
    ]
    for arrived in permutations(lines):
        key = after(*[[line] for line in arrived], grouped=("b",), from_log=True)
        assert key.versions == [(1, 2, 10, 5), (2, 3, 11, 5), (3, None, 12, 5)]
