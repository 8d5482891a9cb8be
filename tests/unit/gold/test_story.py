from datetime import timedelta

from gold.report.story import (
    Span,
    Wait,
    count_by_bucket,
    count_classes,
    find_longest,
    find_span,
    find_waits,
    list_kinds,
)
from tests.helpers.report_parts import ENTRIES, NOW, entry

HOUR = Span(NOW - timedelta(hours=1), NOW, 4)


def test_a_span_reaches_from_the_first_run_to_the_last() -> None:
    found = find_span(ENTRIES)
    assert found is not None
    assert found.begin == NOW - timedelta(minutes=90, seconds=1)
    assert found.end == NOW - timedelta(minutes=4)


def test_a_span_is_never_shorter_than_a_minute() -> None:
    found = find_span([entry("t", "silver", 0, {})])
    assert found is not None
    assert found.end - found.begin == timedelta(minutes=1)
    assert find_span([]) is None


def test_moments_fall_into_buckets_with_both_ends() -> None:
    minutes = [60, 46, 45, 30, 1, 0]
    assert [HOUR.bucket(NOW - timedelta(minutes=m)) for m in minutes] == [0, 0, 1, 2, 3, 3]


def test_all_dead_letters_are_one_class_and_notes_are_none() -> None:
    counts = {"records": 9, "dead_letter:a": 2, "dead_letter:b": 3, "incomplete": 4, "updated": 0}
    assert count_classes(counts) == {"dead_letter": 5}


def test_what_an_extract_did_not_bring_is_no_record() -> None:
    assert count_classes({"records": 5, "I": 3, "N": 2, "D": 7, "X": 1}) == {"I": 3, "N": 2}


def test_a_class_that_nobody_foresaw_is_shown_last() -> None:
    found = [(kind.name, kind.label) for kind in list_kinds(["sent_back", "deleted", "inserted"])]
    assert found == [
        ("inserted", "inserted"),
        ("deleted", "deleted"),
        ("sent_back", "sent back"),
    ]


def test_volumes_are_silvers_classes_per_bucket() -> None:
    entries = [
        entry("a", "silver", 50, {"records": 2, "inserted": 2}),
        entry("b", "silver", 55, {"records": 3, "inserted": 1, "deleted": 2}),
        entry("b", "bronze", 55, {"records": 3}),
        entry("a", "silver", 1, {"records": 1, "updated": 1}),
    ]
    assert count_by_bucket(entries, HOUR) == [{"inserted": 3, "deleted": 2}, {}, {}, {"updated": 1}]


def test_a_wait_begins_when_bronze_reads_and_ends_when_silver_has_applied() -> None:
    first, second = NOW - timedelta(minutes=89), NOW - timedelta(minutes=4)
    assert find_waits(ENTRIES) == {"orders": [Wait(first, 61.0), Wait(second, 26 * 60 + 1.0)]}


def test_without_bronzes_entry_the_run_itself_is_the_wait() -> None:
    found = find_waits([entry("t", "silver", 0, {"records": 1}, took=5)])
    assert found == {"t": [Wait(NOW, 5.0)]}


def test_of_several_waits_in_a_bucket_the_longest_counts() -> None:
    early, late = NOW - timedelta(minutes=50), NOW
    found = find_longest([Wait(early, 3.0), Wait(early, 5.0), Wait(late, 0.5)], HOUR)
    assert found == [5.0, None, None, 0.5]
