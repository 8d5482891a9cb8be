"""What bronze has read of a feed: notes below the target's `checkpoints`, without Spark.

Each append is followed by a note of what it read: files with size and time, or the next offsets of
topics. If a run is killed in between, the notes are behind bronze and the next run queries bronze
for the later batches. So bronze is authoritative, and notes only save queries. Notes are JSON files
that never change; now and then one replaces all. If one is missing, all of bronze is queried.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

import msgspec

from bronze.feeds import Feed
from lakehouse.config.target import Target
from lakehouse.errors import LakehouseError
from lakehouse.places.place import Place, list_folder, remove_tree, to_place, write_whole

MOST_NOTES = 32
Version = tuple[int, int]
"""Size in bytes and time of change in milliseconds."""
Offsets = dict[str, dict[str, int]]
"""By topic and partition; the partition is a text, as names of JSON members are."""


class DamagedNotes(LakehouseError):
    """A note cannot be read; the message names the file."""


class Note(msgspec.Struct):
    """What was read up to a batch, the newest one with a record; `whole` includes earlier notes.

    `unnumbered` says that surely no record of it is a change with a number within its transaction.
    """

    batch: int
    whole: bool = False
    unnumbered: bool = False
    files: dict[str, Version] = {}
    offsets: Offsets = {}

    def add(self, later: "Note") -> None:
        """Adds the content of a later note."""
        self.batch = max(self.batch, later.batch)
        self.unnumbered = self.unnumbered and later.unnumbered
        self.files.update(later.files)
        for topic, offsets in later.offsets.items():
            self.offsets.setdefault(topic, {}).update(offsets)


@dataclass
class FeedState:
    """The state of a feed in a run.

    Attributes:
        folder: the folder of the notes.
        notes: their numbers, the newest last.
        taken: their content together.
        broken: whether some notes are missing.
        ended: whether a feed with `once` has been read.
        unreadable: files that the last listing could not read, and why; None before the first one.
        overwritten: files that were overwritten after they were read.
        orders: numbers of changes within transactions since the last check for missing changes, by
            topic and transaction; None if bronze is to be queried for them.
    """

    folder: Place
    notes: list[int] = field(default_factory=list)
    taken: Note = field(default_factory=lambda: Note(0, unnumbered=True))
    broken: bool = False
    ended: bool = False
    unreadable: dict[str, str] | None = None
    overwritten: list[str] = field(default_factory=list)
    orders: Mapping[tuple[str | None, str], set[int]] | None = None

    def add_note(self, later: Note) -> None:
        """Writes a note of what an append has read."""
        self.taken.add(later)
        number = self.notes[-1] + 1 if self.notes else 1
        whole = self.broken or not 0 < len(self.notes) < MOST_NOTES
        entry = msgspec.structs.replace(self.taken, whole=True) if whole else later
        write_whole(self._note_file(number), msgspec.json.encode(entry))
        for old in self.notes if whole else ():
            self._note_file(old).unlink(missing_ok=True)
        self.notes, self.broken = [number] if whole else [*self.notes, number], False

    def _note_file(self, number: int) -> Place:
        return self.folder / f"{number:012}.json"


def read_state(target: Target, feed: Feed) -> FeedState:
    """The state of the feed from its notes.

    Raises:
        DamagedNotes: one of them cannot be read.
    """
    folder = _notes_folder(target, feed)
    notes = [file for file in list_folder(folder) if file.suffix == ".json"]
    files = sorted(notes, key=str)
    state = FeedState(folder)
    for file in files:
        try:
            note = msgspec.json.decode(file.read_bytes(), type=Note)
            state.notes.append(int(file.stem))
        except (msgspec.MsgspecError, ValueError) as failure:
            raise DamagedNotes(f"damaged note {file}: {failure}") from failure
        follows = state.notes[-2:-1] == [state.notes[-1] - 1]
        state.broken = not note.whole and (state.broken or not follows)
        state.taken.add(note)
    if state.broken:
        state.taken.batch = 0
    return state


def forget_state(target: Target, feed: Feed) -> None:
    """Removes the notes of a feed whose table is created again."""
    remove_tree(_notes_folder(target, feed).parent)


def _notes_folder(target: Target, feed: Feed) -> Place:
    return to_place(target, target.checkpoints, "bronze", feed.name, "taken")
