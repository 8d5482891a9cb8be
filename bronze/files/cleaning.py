"""Landing files that bronze has held for long: they are deleted, or moved out of the landing root.

Without Spark, and only in folders that this process sees: local ones, stores, and volumes.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from bronze.feed_state import read_state
from bronze.feeds import Feed, feeds, folder
from bronze.files.listing import DroppedFile, in_order, is_seen_here, list_here
from lakehouse.config.table import Table
from lakehouse.config.target import CleanLanding, Target
from lakehouse.durations import seconds
from lakehouse.places.place import move_file, parts_below, place


def held_files(
    target: Target, tables: Sequence[Table], clean: CleanLanding, now: float
) -> list[DroppedFile]:
    """The landing files that may go, at `now` in seconds since 1970: all who read them have them.

    A file stays that was changed after it was read, or that a run has read which was killed.

    Raises:
        DamagedNotes: what bronze has taken cannot be read.
    """
    before = (now - seconds(clean.after)) * 1000
    held, waiting = dict[str, DroppedFile](), set[str]()
    for feed in (feed for feed in feeds(tables) if _is_landing(target, feed)):
        taken = read_state(target, feed).taken.files
        for file in list_here(target, folder(target, feed), lambda _: False):
            if taken.get(file.path) == (file.length, file.changed):
                held[file.path] = file
            else:
                waiting.add(file.path)
    going = (f for f in held.values() if f.path not in waiting and f.changed < before)
    return in_order(going)


def clean_files(target: Target, files: Sequence[DroppedFile], move_to: str | None) -> int:
    """Deletes the files, or moves them to the same place below another folder; returns how many.

    A file that is there already is not moved over.
    """
    done = 0
    for file in files:
        if move_to is None:
            file.here.unlink(missing_ok=True)
        else:
            landing = Path(os.path.normpath(target.landing))
            to = place(target, move_to, *parts_below(file.here, landing))
            if to.exists():
                continue
            move_file(file.here, to)
        done += 1
    return done


def _is_landing(target: Target, feed: Feed) -> bool:
    """Whether the feed reads files below the landing root, in a folder that is seen here."""
    if feed.path is None or not is_seen_here(target, folder(target, feed)):
        return False
    own = folder(target, feed)
    is_below = Path(os.path.normpath(own)).is_relative_to(os.path.normpath(target.landing))
    return is_below and place(target, own).is_dir()
