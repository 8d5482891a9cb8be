from typing import Any

from silver.audit.outcomes import list_outcomes
from silver.audit.replay import KeyRecord
from silver.fold.order_key import make_order


def record(position: str, sequence: int | None, **more: Any) -> KeyRecord:
    """A record of pass 1 that arrived in the order of its position."""
    order = b"" if sequence is None else make_order(f"{sequence:016X}", position.encode().hex())
    given = {"batch": 1, "operation": "upsert", "order": order, "digest": hash(position)}
    return KeyRecord(position=position, arrival=position, **given | more)


def told(
    *records: KeyRecord, history: bool = False, applied: int = 9
) -> list[tuple[str, str, str]]:
    found = list_outcomes(records, applied, history, "apply")
    return [(t.record.position, t.outcome, t.because or "") for t in found]


def test_the_newest_of_a_pass_is_applied_and_the_others_are_superseded_by_it() -> None:
    assert told(record("b", 2), record("a", 1), record("c", 3)) == [
        ("a", "superseded", "by c"),
        ("b", "superseded", "by c"),
        ("c", "applied", ""),
    ]


def test_what_was_applied_tells_until_when() -> None:
    assert told(record("a", 1), record("b", 2, batch=2)) == [
        ("a", "applied", "newest until b"),
        ("b", "applied", ""),
    ]


def test_a_late_change_is_superseded_or_woven_into_the_history() -> None:
    late = (record("a", 5), record("b", 2, batch=2))
    assert told(*late)[0] == ("b", "superseded", "by a")
    assert told(*late, history=True)[0] == ("b", "late", "woven into the history before a")


def test_every_change_of_a_pass_is_a_version_of_the_history() -> None:
    both = told(record("a", 1), record("b", 2), history=True)
    assert both == [("a", "applied", "a version until b"), ("b", "applied", "")]


def test_a_redelivery_is_a_duplicate_of_what_came_first() -> None:
    again = record("b", 1, batch=2)._replace(digest=hash("a"))
    assert told(record("a", 1), again) == [("a", "applied", ""), ("b", "duplicate", "of a")]


def test_of_two_at_one_place_the_later_one_wins() -> None:
    (first, _) = told(record("a", 1), record("b", 1))
    assert first == ("a", "superseded", "by b, which has the same sequence and arrived later")


def test_an_older_change_keeps_the_columns_that_no_newer_one_carries() -> None:
    whole = record("a", 1, carried=frozenset({"name", "note"}))
    part = record("b", 2, carried=frozenset({"name"}))
    assert told(whole, part)[0] == ("a", "applied", "note: not in b")
    gone = record("c", 3, operation="delete")
    assert told(whole, part, gone)[0] == ("a", "superseded", "by c")


def test_a_delete_without_a_row_is_told_apart() -> None:
    gone = record("b", 2, operation="delete")
    assert [outcome for _, outcome, _ in told(gone)] == ["delete_unknown"]
    assert [outcome for _, outcome, _ in told(record("a", 1), gone)] == ["superseded", "applied"]
    twice = told(record("a", 1), gone, record("c", 3, operation="delete", batch=2))
    assert twice[2][1] == "delete_unknown"


def test_a_truncate_is_told_when_it_took_the_row_away() -> None:
    cut = record("t", 2, operation="truncate", batch=2)
    assert told(record("a", 1), cut)[1] == ("t", "applied", "removed the row of a")
    assert told(cut) == []
    assert told(record("a", 3), cut) == [("a", "applied", "")]


def test_what_arrives_after_a_truncate_that_it_precedes_is_superseded() -> None:
    cut = record("t", 2, operation="truncate")
    assert told(cut, record("z", 1, batch=2))[0] == (
        "z",
        "superseded",
        "by t, the truncate after it",
    )


def test_an_ignored_truncate_says_so() -> None:
    records = [record("a", 1), record("t", 2, operation="truncate")]
    (_, cut) = list_outcomes(records, 9, False, "ignore")
    assert (cut.outcome, cut.because) == ("ignored", "on_truncate is ignore")


def test_a_full_snapshot_without_the_key_took_the_row_away() -> None:
    cutoff = record("full snapshot s:7", 2, operation="snapshot", batch=2)
    assert told(record("a", 1), cutoff)[1][1:] == (
        "applied",
        "removed the row of a, which the full snapshot does not show",
    )


def test_a_rejected_record_says_why_and_comes_last_without_a_sequence() -> None:
    bad = record("a", None, operation=None, reason="bad_value", message="found x")
    assert told(bad, record("b", 1)) == [
        ("b", "applied", ""),
        ("a", "rejected", "bad_value: found x"),
    ]


def test_a_replayed_record_is_applied_and_says_what_it_was() -> None:
    replayed = record("a", 1, replayed="rejected at first (bad_value), replayed then")
    assert told(replayed) == [("a", "applied", "rejected at first (bad_value), replayed then")]


def test_what_is_not_applied_yet_waits() -> None:
    assert told(record("a", 1), record("b", 2, batch=3), applied=2)[1][:2] == ("b", "waiting")


def test_key_changes_are_told_at_both_keys() -> None:
    here = record("b", 2, old_key='{"id":1}')
    assert told(here) == [("b", "applied", 'the row moved here from {"id":1}')]
    gone = record("a", 1, operation="delete")
    there = record("b", 1, moved=True)
    assert told(record("0", 0), gone, there)[1:] == [
        ("a", "applied", ""),
        ("b", "key change", "the row moved to another key"),
    ]


def test_a_record_without_a_change_says_so() -> None:
    assert told(record("a", None, operation="none")) == [
        ("a", "no change", "the record carries none")
    ]
