"""Finds dropped files that were overwritten after they were read; they are not read again."""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from bronze.feed_state import DamagedNotes, Version, read_state
from bronze.feeds import Feed, feed_folder, list_feeds
from bronze.files.listing import DroppedFile, is_seen_here, list_here, on_disk
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.places.settings import is_object_url
from lakehouse.storage.landing import from_landing

MOST_COMPARED, MOST_NAMED = 20_000, 3
UNKNOWN, CHANGED = (-1, -1), (-2, -2)
"""Size and time in the note of a file for which they are not known, or are no longer those read."""


def changed_files(listed: Iterable[DroppedFile], taken: Mapping[str, Version]) -> list[str]:
    """The paths of the files whose size or time differs from the note of when they were read."""
    read = ((f, taken.get(f.path, UNKNOWN)) for f in listed)
    return sorted(f.path for f, v in read if v not in (UNKNOWN, (f.length, f.changed)))


def overwritten_files(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, a sentence about the files of its feeds that were overwritten after being read.

    Without Spark: only folders that this process can read, with at most `MOST_COMPARED` files. For
    others the first listing of a run reports it.
    """
    warnings: dict[str, list[str]] = {}
    for feed in list_feeds(tables):
        files = _find_overwritten(target, feed)
        if not files:
            continue
        named = ", ".join(from_landing(file, target) or file for file in files[:MOST_NAMED])
        more = f" and {len(files) - MOST_NAMED:,} more" if len(files) > MOST_NAMED else ""
        action = _read_anew(target, on_disk(files[0]))
        for table in feed.tables:
            text = f"overwritten after it was read, and not read again: {named}{more}; do: {action}"
            warnings.setdefault(table, []).append(text)
    return warnings


def _read_anew(target: Target, file: str) -> str:
    """What to do for an overwritten file to be read."""
    if target.kind in ("local", "cluster") and not is_object_url(file):
        return f"`lakehouse run --again {shlex.quote(file)}`"
    above, _, last = file.rpartition("/")
    return f"rename {shlex.quote(file)} to {shlex.quote(f'{above}/again-{last}')}, and run"


def _find_overwritten(target: Target, feed: Feed) -> list[str]:
    if feed.path is None or not is_seen_here(target, feed_folder(target, feed)):
        return []
    with suppress(DamagedNotes, OSError):
        taken = read_state(target, feed).taken.files
        if len(taken) <= MOST_COMPARED:
            listed = list_here(target, feed_folder(target, feed), lambda path: path not in taken)
            return changed_files(listed, taken)
    return []
