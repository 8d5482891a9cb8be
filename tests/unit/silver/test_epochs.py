from silver.decode.debezium.events.source_log import Restart
from silver.fold.order_key import make_order
from silver.state.epochs import (
    Epoch,
    SnapshotProgress,
    TableChanges,
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
