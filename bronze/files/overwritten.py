"""Finds dropped files that were overwritten after they were read, and counts those not read yet.

The overwritten ones are not read again.
"""

import shlex
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress

from bronze.feed_state import DamagedNotes, Version, read_state
from bronze.feeds import Feed, feed_folder, list_feeds
from bronze.files.listing import DroppedFile, can_list_here, list_here, on_disk
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.places.settings import is_object_url
from lakehouse.storage.landing import from_landing

MOST_COMPARED, MOST_NAMED = 20_000, 3
LATER_DAY = "put the whole snapshot into a later day's folder (a file read again removes no row)"
UNKNOWN, CHANGED = (-1, -1), (-2, -2)
"""In a note instead of a file's size and time: nobody knows them; they are newer than its rows."""


def changed_files(listed: Iterable[DroppedFile], taken: Mapping[str, Version]) -> list[str]:
    """The paths of the files whose size or time differs from the note of when they were read."""
    read = ((f, taken.get(f.path, UNKNOWN)) for f in listed)
    return sorted(f.path for f, v in read if v not in (UNKNOWN, (f.length, f.changed)))


def overwritten_files(target: Target, tables: Sequence[Table]) -> dict[str, list[str]]:
    """By table, warnings of the files of its feeds that were overwritten after they were read.

    Spark is not asked: other folders than this process lists, and those of which more than
    `MOST_COMPARED` files were read, are left to the first listing of a run.
    """
    warnings: dict[str, list[str]] = {}
    snapshots = {table.table for table in tables if table.format == "snapshot"}
    for feed in list_feeds(tables):
        files = _find_overwritten(target, feed)
        if not files:
            continue
        named = ", ".join(from_landing(file, target) or file for file in files[:MOST_NAMED])
        more = f" and {len(files) - MOST_NAMED:,} more" if len(files) > MOST_NAMED else ""
        action = _describe_remedy(target, [on_disk(file) for file in files[:MOST_NAMED]])
        for table in feed.tables:
            does = f"{LATER_DAY}, then {action}" if table in snapshots else action
            text = f"overwritten after it was read, and not read again: {named}{more}; do: {does}"
            warnings.setdefault(table, []).append(text)
    return warnings


def count_unread(target: Target, table: Table) -> int:
    """How many files in the table's folders, as far as this process lists them, no run has read."""
    count = 0
    for feed in list_feeds([table]):
        with suppress(DamagedNotes, OSError):
            if feed.path is not None and can_list_here(target, feed_folder(target, feed)):
                taken = read_state(target, feed).taken.files
                count += len(list_here(target, feed_folder(target, feed), taken.__contains__))
    return count


def _describe_remedy(target: Target, files: Sequence[str]) -> str:
    """What somebody does to have files of one folder read again, under new names."""
    if target.kind in ("local", "cluster") and not is_object_url(files[0]):
        return f"`lakehouse run {' '.join(f'--again {shlex.quote(file)}' for file in files)}`"
    split = [(file, file.rpartition("/")) for file in files]
    new = [(file, f"{above}/again-{last}") for file, (above, _, last) in split]
    renames = [f"{shlex.quote(file)} to {shlex.quote(name)}" for file, name in new]
    return f"rename {', '.join(renames)}, and run"


def _find_overwritten(target: Target, feed: Feed) -> list[str]:
    if feed.path is None or not can_list_here(target, feed_folder(target, feed)):
        return []
    # Notes or folders that cannot be read fail the run itself, which says why.
    with suppress(DamagedNotes, OSError):
        taken = read_state(target, feed).taken.files
        if len(taken) <= MOST_COMPARED:
            # Of files without a note nothing is asked, so they pass for known.
            listed = list_here(target, feed_folder(target, feed), lambda path: path not in taken)
            return changed_files(listed, taken)
    return []
