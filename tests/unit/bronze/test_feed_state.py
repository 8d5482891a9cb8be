from pathlib import Path

import pytest

from bronze import feed_state
from bronze.feed_state import DamagedNotes, FeedState, Note, forget_state, read_state
from bronze.feeds import Feed, list_feeds
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.places.place import write_whole

SOURCE = {"format": "ydb", "path": "p"}
FEED: Feed = list_feeds([Table.model_validate({"table": "t", "keys": ["id"], "source": SOURCE})])[0]


def noted(target: Target, *batches: int) -> FeedState:
    """The state after a note for each batch."""
    state = read_state(target, FEED)
    for batch in batches:
        state.add_note(Note(batch, files={str(batch): (1, 2)}, offsets={"a": {"0": batch, "1": 7}}))
    return state


def test_notes_tell_together_what_was_taken(target: Target) -> None:
    noted(target, 1, 2)
    taken = noted(target, 3).taken
    assert (taken.batch, [*taken.files], taken.offsets) == (
        3,
        ["1", "2", "3"],
        {"a": {"0": 3, "1": 7}},
    )
    assert read_state(target, FEED).taken == taken


def test_now_and_then_one_note_takes_the_place_of_all(
    target: Target, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(feed_state, "MOST_NOTES", 3)
    state = noted(target, 1, 2, 3, 4)
    assert [file.name for file in state.folder.iterdir()] == [f"{4:012}.json"]
    assert [*read_state(target, FEED).taken.files] == ["1", "2", "3", "4"]


@pytest.mark.parametrize(("lost", "broken"), [(1, True), (2, True), (3, False)])
def test_a_note_that_is_missing_makes_bronze_be_asked_for_all(
    target: Target, lost: int, broken: bool
) -> None:
    state = noted(target, 1, 2, 3)
    (state.folder / f"{lost:012}.json").unlink()
    found = read_state(target, FEED)
    assert (found.broken, found.taken.batch) == (broken, 0 if broken else 2)
    found.add_note(Note(3, files={"3": (1, 2)}))
    assert read_state(target, FEED).taken.batch == 3
    assert not read_state(target, FEED).broken


def test_a_note_that_a_kill_left_half_written_is_no_note(target: Target) -> None:
    state = noted(target, 1)
    (state.folder / ".2.tmp").write_text("{")
    assert noted(target, 2).notes == [1, 2]


def test_a_damaged_note_is_named(target: Target) -> None:
    (file,) = noted(target, 1).folder.iterdir()
    file.write_text("nonsense")
    with pytest.raises(DamagedNotes, match=file.name):
        read_state(target, FEED)


def test_a_table_that_is_made_anew_has_no_notes(target: Target) -> None:
    noted(target, 1)
    forget_state(target, FEED)
    assert list(Path(target.checkpoints).rglob("*.json")) == []


@pytest.mark.parametrize(
    ("notes", "unnumbered"), [([], True), ([True, True], True), ([True, False, True], False)]
)
def test_notes_tell_together_whether_a_change_may_have_a_number(
    target: Target, notes: list[bool], unnumbered: bool
) -> None:
    state = read_state(target, FEED)
    for batch, one in enumerate(notes, 1):
        state.add_note(Note(batch, unnumbered=one))
    assert read_state(target, FEED).taken.unnumbered is unnumbered
    write_whole(state.folder / "000000000009.json", b'{"batch":9}')  # as 0.3 wrote it
    assert not read_state(target, FEED).taken.unnumbered
