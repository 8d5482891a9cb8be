"""What a run counts of the snapshot files that it applied."""

from datetime import date

from silver.snapshot_source.snapshot_dates import RowKind, count_outcomes
from silver.state.table_state import SnapshotDay

DAY = date(2024, 1, 1)


def kind(batch: int, letter: str | None, records: int) -> RowKind:
    operation = "upsert" if letter == "I" else "none"
    return RowKind(batch, letter, operation, None, "00", records, batch)


def test_what_a_delta_lacks_is_counted_where_it_is_compared_and_not_with_its_repeats() -> None:
    day = SnapshotDay(DAY, "delta", 1, 1, not_supplied=3)
    assert count_outcomes([kind(1, "I", 2)], {DAY: day}) == {"records": 2, "I": 2, "X": 3}
    repeated = SnapshotDay(DAY, "delta", 2, 2, not_supplied=3)
    counts = count_outcomes([kind(2, None, 2)], {DAY: repeated})
    assert counts == {"records": 2, "duplicate": 2}
