"""What bronze has taken in of a feed: files below the target's `checkpoints`, without Spark.

After each append a note tells what it took: files with size and time, or the next offsets of
topics. The append comes first. A run that is killed in between leaves a note that reaches less far
than bronze, and the next run asks bronze for the batches above it. So bronze is the truth, and the
notes only spare asking for all of it. Notes are JSON files that are never changed; now and then
one note takes the place of all. Where one is missing, bronze is asked for all.
"""

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec

from bronze.feeds import Feed
from lakehouse.config.target import Target
from lakehouse.errors import LakehouseError
from lakehouse.places.place import Place, list_folder, place, remove_tree, write_whole

MOST_NOTES = 32
Version = tuple[int, int]
"""Size in bytes and time of change in milliseconds."""
Offsets = dict[str, dict[str, int]]
"""By topic and partition, which is a text as JSON has no other names."""


class DamagedNotes(LakehouseError):
    """A note cannot be read; the message names the file."""


class Note(msgspec.Struct):
    """What was taken in up to a batch, which is the newest one with a record.

    A whole note tells what those before it told.
    """

    batch: int
    whole: bool = False
    files: dict[str, Version] = {}
    offsets: Offsets = {}

    def add(self, later: "Note") -> None:
        """Takes in what a later note tells."""
        self.batch = max(self.batch, later.batch)
        self.files.update(later.files)
        for topic, offsets in later.offsets.items():
            self.offsets.setdefault(topic, {}).update(offsets)


@dataclass
class FeedState:
    """What a run knows of a feed.

    Attributes:
        folder: where the notes lie.
        notes: their numbers, the newest last.
        taken: what they tell together.
        broken: whether some of them are missing.
        ended: whether a feed that is read once has been read.
        unreadable: files that the last look could not read, and why; None before the first look.
        overwritten: files that were overwritten after they were read.
        orders: numbers of changes within transactions that came since bronze was last looked
            through for holes, by topic and transaction; None where bronze is to be asked.
    """

    folder: Place
    notes: list[int] = field(default_factory=list)
    taken: Note = field(default_factory=lambda: Note(0))
    broken: bool = False
    ended: bool = False
    unreadable: dict[str, str] | None = None
    overwritten: list[str] = field(default_factory=list)
    orders: Mapping[tuple[str | None, str], set[int]] | None = None

    def note(self, later: Note) -> None:
        """Keeps what an append took in."""
        self.taken.add(later)
        number = self.notes[-1] + 1 if self.notes else 1
        whole = self.broken or not 0 < len(self.notes) < MOST_NOTES
        told = msgspec.structs.replace(self.taken, whole=True) if whole else later
        write_whole(self._file(number), msgspec.json.encode(told))
        for old in self.notes if whole else ():
            self._file(old).unlink(missing_ok=True)
        self.notes, self.broken = [number] if whole else [*self.notes, number], False

    def _file(self, number: int) -> Place:
        return self.folder / f"{number:012}.json"


def read_state(target: Target, feed: Feed) -> FeedState:
    """What the feed's notes tell.

    Raises:
        DamagedNotes: one of them cannot be read.
    """
    folder = _folder(target, feed)
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
    """Removes the notes of a table that is made anew, and those of version 0.2."""
    remove_tree(_folder(target, feed).parent)


class OldStream(NamedTuple):
    """What a stream of version 0.2 has read: its checkpoint, and the offsets of its last batch."""

    folder: Place
    offsets: dict[str, Any]


def old_stream(target: Target, feed: Feed) -> OldStream | None:
    """The stream that read the feed in version 0.2; None where none ended a batch."""
    begun: Iterator[Place] = _folder(target, feed).parent.glob("*/metadata")
    newest = max(begun, key=lambda file: file.stat().st_mtime_ns, default=None)
    if newest is None:
        return None
    folder = newest.parent
    ended = [int(file.name) for file in list_folder(folder / "commits") if file.name.isdigit()]
    if not ended:
        return None
    offsets = (folder / "offsets" / str(max(ended))).read_text(encoding="utf-8").splitlines()
    return OldStream(folder, json.loads(offsets[2]))


def _folder(target: Target, feed: Feed) -> Place:
    return place(target, target.checkpoints, "bronze", feed.name, "taken")
