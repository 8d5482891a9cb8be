from hypothesis import given
from hypothesis import strategies as st

from silver.decode.debezium.events.source_log import Restart
from silver.decode.facts import Rows
from silver.fold.order_key import make_order
from silver.state.epochs import (
    Epoch,
    SnapshotProgress,
    TableChanges,
    bound_orders,
    describe_restart,
    number_epochs,
)


def test_snapshots_are_numbered_by_their_first_position_in_the_feed() -> None:
    seen = [
        SnapshotProgress("shop:9", "", "00000000000000000040", True, 5),
        SnapshotProgress("shop:7", "", "00000000000000000001", False, 3),
        SnapshotProgress("shop:9", "", "00000000000000000032", False, 5),
    ]
    first = {"": "00000000000000000001"}, {"": "00000000000000000032"}
    assert number_epochs(seen) == [
        Epoch("shop:7", 1, 3, first[0], False),
        Epoch("shop:9", 2, 5, first[1], True),
    ]


def test_snapshots_of_partitioned_topics_are_numbered_by_when_they_began() -> None:
    seen = [
        SnapshotProgress("s:2", "t/0", "2", True, 20),
        SnapshotProgress("s:1", "t/1", "9", True, 10),
    ]
    assert [epoch.snapshot for epoch in number_epochs(seen)] == ["s:1", "s:2"]


def test_the_cutoff_of_an_epoch_sorts_before_its_rows_and_after_the_epoch_before() -> None:
    second = Epoch("shop:9", 2, 5, {}, True)
    rows_of_it = make_order(f"{4:016X}/{9:016X}", "0A")
    streamed_before = make_order(f"{3:016X}/{99:016X}", "0B")
    assert streamed_before < second.cutoff < rows_of_it


def test_dead_letters_end_a_snapshot_but_begin_none() -> None:
    dead = SnapshotProgress("s:9", "", None, True, 4)
    assert number_epochs([dead]) == []
    assert TableChanges([dead], []).ended == 0
    assert TableChanges([dead, SnapshotProgress("s:9", "", "2", False, 5)], []).ended == 1
    known = [Epoch("s:9", 1, 4, {"": "2"}, True)]
    assert number_epochs([dead, SnapshotProgress("s:9", "", "2", False, 5)]) == known
    assert number_epochs([dead.joined(SnapshotProgress("s:9", "", "2", False, 5))]) == known


def test_a_snapshot_of_one_source_table_leaves_rows_of_the_others() -> None:
    def complete(*seen: tuple[str, bool]) -> list[tuple[str, bool]]:
        at = [SnapshotProgress(id, "", f"{n:020d}", last, n) for n, (id, last) in enumerate(seen)]
        return [(epoch.snapshot, epoch.complete) for epoch in number_epochs(at)]

    both = (("s:1@a", True), ("s:1@b", True))
    assert complete(*both) == [("s:1", True)]
    assert complete(*both, ("s:2@a", True)) == [("s:1", True), ("s:2", False)]
    assert complete(*both, ("s:2@a", True), ("s:2@b", False))[1:] == [("s:2", False)]
    assert complete(*both, ("s:2@a", True), ("s:2@b", True))[1:] == [("s:2", True)]
    assert complete(*both, ("s:2@a", True), ("s:2@b", True), ("s:2@c", False))[1][1]
    assert complete(("s:1@a", True), ("t:1@b", True))[1] == ("t:1", False)
    assert complete(("s:1", False), ("s:2@a", True))[1] == ("s:2", True)


def test_an_epoch_knows_the_position_of_any_connector_s_snapshot() -> None:
    mysql = f"{8:016X}/{3693:016X}/{0:016X}"

    assert Epoch("shop:255", 1, 5, {}, True).lsn == f"{255:016X}"
    assert Epoch(f"er:p:{mysql}", 1, 5, {}, True).lsn == mysql


def test_positions_that_start_anew_begin_an_epoch_without_a_cutoff_in_force() -> None:
    place = f"{40:020d}"
    restart = Restart("t/0", place, f"{5:016X}", 30, 11)

    [first, second] = number_epochs(
        [SnapshotProgress("s:9", "t/0", f"{1:020d}", True, 5), describe_restart(restart)]
    )

    assert (first.number, second.number) == (1, 2)
    assert (second.started, second.first, second.complete) == (11, {"t/0": place}, False)
    assert f"{2**64 - 1:016X}" < second.lsn


SECOND = 1_000_000
SEQUENCES = [f"{lsn:016X}" for lsn in (0, 50, 100, 150, 300)]
SNAPSHOTS = [
    Epoch("s:100", 1, 100 * SECOND, {"t/0": f"{10:020d}"}, True),
    Epoch("s:200", 2, 200 * SECOND, {"t/0": f"{20:020d}", "t/1": f"{40:020d}"}, True),
    Epoch("restart:t/1:1:1", 3, 250 * SECOND, {"t/1": f"{60:020d}"}, False),
]
Change = tuple[str | None, str, str, int, str]


def belongs(change: Change, epoch: Epoch) -> bool:
    """Whether a change belongs to an epoch or a later one, as `_belongs_sql` says it."""
    snapshot, domain, position, time, sequence = change
    if snapshot is not None:
        return snapshot.partition("@")[0] == epoch.snapshot
    began, place = epoch.started or 0, epoch.first.get(domain)
    begins = time >= began if place is None else position >= place
    surely = began if epoch.snapshot.startswith("restart") else began - 60 * SECOND
    return begins and not (sequence < epoch.lsn and time < surely)


def key_of(change: Change, epochs: list[Epoch]) -> bytes:
    front = 2 * max((e.number for e in epochs if belongs(change, e)), default=0)
    front += change[0] is None
    return make_order(f"{front:016X}/{change[4]}", change[2])


@given(
    st.lists(
        st.tuples(
            st.sampled_from([None, None, None, "s:100", "s:200@a.b", "s:300"]),
            st.sampled_from(["t/0", "t/1", ""]),
            st.integers(0, 80).map(lambda offset: f"{offset:020d}"),
            st.integers(50, 300).map(lambda second: second * SECOND),
            st.sampled_from(SEQUENCES),
        ),
        min_size=1,
    ),
    st.integers(0, 3),
)
def test_no_change_is_outside_of_the_bounds_of_its_part_of_the_log(
    changes: list[Change], count: int
) -> None:
    epochs, rows = SNAPSHOTS[:count], dict[tuple[str | None, str], Rows]()
    for snapshot, domain, position, time, sequence in changes:
        end = sequence, position
        seen, of = Rows(position, time, False, end, end), (snapshot, domain)
        rows[of] = rows[of].joined(seen) if of in rows else seen
    first, last = bound_orders(rows, epochs)
    keys = sorted(key_of(change, epochs) for change in changes)
    assert first is not None and last is not None
    assert first <= keys[0] and keys[-1] <= last
    if not any(change[0] is None for change in changes) or not epochs:
        assert (first, last) == (keys[0], keys[-1])


def test_only_positions_of_commits_show_what_was_committed_right_before_a_snapshot() -> None:
    began, mysql = 100 * SECOND, "000000000000000A/0000000000000100/0000000000000000"
    assert Epoch("shop:255", 1, began, {}, True).shown == 40 * SECOND
    assert Epoch(f"shop:{mysql}", 1, began, {}, True).shown == began
    assert Epoch("restart:t/1:1:1", 1, began, {}, False).shown == began


def test_streamed_changes_after_the_newest_snapshot_have_exact_bounds() -> None:
    low, high = (SEQUENCES[1], "AA"), (SEQUENCES[4], "BB")
    rows = {(None, "t/0"): Rows(f"{30:020d}", 210 * SECOND, False, low, high)}
    front = f"{2 * 2 + 1:016X}"
    ends = [make_order(f"{front}/{sequence}", arrival) for sequence, arrival in (low, high)]
    assert bound_orders(rows, SNAPSHOTS[:2]) == tuple(ends)
    assert bound_orders(rows, None) == tuple(make_order(*end) for end in (low, high))
    assert bound_orders({}, SNAPSHOTS) == (None, None)
