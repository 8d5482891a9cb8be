"""Deletes landing files that bronze has had for long, or moves them out of the landing root.

Without Spark, and only in folders that this process can read: local, object stores, volumes.
"""

import os
from collections.abc import Sequence
from pathlib import Path

from bronze.feed_state import read_state
from bronze.feeds import Feed, feed_folder, list_feeds
from bronze.files.listing import DroppedFile, can_list_here, in_order, list_here
from lakehouse.config.table import Table
from lakehouse.config.target import CleanLanding, Target
from lakehouse.durations import to_seconds
from lakehouse.places.place import move_file, parts_below, to_place


def held_files(
    target: Target, tables: Sequence[Table], clean: CleanLanding, now: float
) -> list[DroppedFile]:
    """The landing files that may go, at `now` in seconds since 1970: all their feeds have them.

    A file stays if it was changed after it was read, or if a killed run left no note of it.

    Raises:
        DamagedNotes: a feed's notes cannot be read.
    """
    before = (now - to_seconds(clean.after)) * 1000
    held, waiting = dict[str, DroppedFile](), set[str]()
    for feed in (feed for feed in list_feeds(tables) if _is_landing(target, feed)):
        taken = read_state(target, feed).taken.files
        for file in list_here(target, feed_folder(target, feed), lambda _: False):
            if taken.get(file.path) == (file.length, file.changed):
                held[file.path] = file
            else:
                waiting.add(file.path)
    going = (f for f in held.values() if f.path not in waiting and f.changed < before)
    return in_order(going)


def clean_files(target: Target, files: Sequence[DroppedFile], move_to: str | None) -> int:
    """Deletes the files, or moves them to the same path below another folder; returns how many.

    Existing files are not replaced.
    """
    done = 0
    for file in files:
        if move_to is None:
            file.here.unlink(missing_ok=True)
        else:
            landing = Path(os.path.normpath(target.landing))
            to = to_place(target, move_to, *parts_below(file.here, landing))
            if to.exists():
                continue
            move_file(file.here, to)
        done += 1
    return done


def _is_landing(target: Target, feed: Feed) -> bool:
    """Whether the feed reads files below the landing root that this process can read."""
    if feed.path is None or not can_list_here(target, feed_folder(target, feed)):
        return False
    path = feed_folder(target, feed)
    is_below = Path(os.path.normpath(path)).is_relative_to(os.path.normpath(target.landing))
    return is_below and to_place(target, path).is_dir()
