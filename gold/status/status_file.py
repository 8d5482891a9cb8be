"""`lake/_status.json`: what the commands know of the tables, to be read without an engine.

A command that changes what the status says brings the file up to date at its end.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any

import msgspec

from gold.status.figures import Figures
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.places.place import Place, to_place, write_whole
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.unread import UNREAD
from lakehouse.storage.locks import hold_commit_lock

FILE, FORMAT = "_status.json", 1
UnreadCounts = dict[str, dict[str, int]]


class KnownStatus(msgspec.Struct, frozen=True):
    """What the file holds.

    Attributes:
        format: the number of this form of the file.
        commit: the newest commit of the ledger that is summed up; -1 before the first.
        ledger: that commit's id, by which the file is known to be this ledger's.
        tables: the figures by table.
        unread: the ledger's counts of what no table reads, by feed and name.
    """

    format: int = FORMAT
    commit: int = -1
    ledger: str | None = None
    tables: dict[str, Figures] = {}
    unread: UnreadCounts = {}

    def with_entries(self, commit: int, entries: Sequence[Entry]) -> "KnownStatus":
        """The status after more of the ledger's entries."""
        tables, unread = dict(self.tables), {f: dict(names) for f, names in self.unread.items()}
        for entry in sorted(entries, key=lambda entry: entry.ended_at):
            counts = {n: k for n, k in entry.counts.items() if n.partition(":")[0] == UNREAD}
            for name, number in counts.items():
                of_feed = unread.setdefault(entry.table, {})
                of_feed[name] = of_feed.get(name, 0) + number
            if not counts:
                tables.setdefault(entry.table, Figures()).add_entry(entry)
        return msgspec.structs.replace(self, commit=commit, tables=tables, unread=unread)


def read_known(target: Target) -> KnownStatus | None:
    """The file's content; None if it is missing, damaged, of another form or another ledger's."""
    with suppress(OSError, msgspec.MsgspecError):
        status = msgspec.json.decode(_locate_file(target).read_bytes(), type=KnownStatus)
        return status if status.format == FORMAT and _fits_ledger(target, status) else None
    return None


def _fits_ledger(target: Target, status: KnownStatus) -> bool:
    """Whether the ledger has the status's commit, or had it: Delta deletes old files of its log."""
    now = ledger.identify_commit(target, status.commit)
    if now is None:
        return ledger.find_newest_commit(target) >= status.commit
    return status.ledger in (None, now)


def require_known(target: Target) -> KnownStatus:
    """The file's content.

    Raises:
        ConfigurationError: there is none that can be read.
    """
    status = read_known(target)
    if status is None:
        problem, expected = "no status", "what a run of this version has written"
        where = str(_locate_file(target))
        raise ConfigurationError(where, "the file", problem, expected, "`lakehouse run` writes it")
    return status


def sum_up(target: Target) -> KnownStatus:
    """The file's content with the ledger's entries since; without one, all entries of the ledger.

    Raises:
        OSError: the ledger cannot be read.
    """
    status = read_known(target)
    added = ledger.read_added_entries(target, status.commit) if status is not None else None
    if status is not None and added is not None:
        return status.with_entries(*added)
    return KnownStatus().with_entries(*ledger.read_all_entries(target))


def update_known(target: Target, measured: Mapping[str, Mapping[str, Any]]) -> None:
    """Brings the file up to the ledger and to what was measured, unless a later run measured it.

    A table without YAML stays in the file: its YAML may come back.

    Raises:
        OSError: the ledger cannot be read, or the file not be written.
    """
    with hold_commit_lock(target):
        status = sum_up(target)
        tables = dict(status.tables)
        for name, values in measured.items():
            kept = tables.get(name, Figures())
            if values.get("measured", kept.measured) >= kept.measured:
                tables[name] = msgspec.structs.replace(kept, **values)
        write_known(target, msgspec.structs.replace(status, tables=tables))


def write_known(target: Target, status: KnownStatus) -> None:
    """Replaces the file in one step."""
    commit = ledger.identify_commit(target, status.commit)
    status = msgspec.structs.replace(status, ledger=commit)
    write_whole(_locate_file(target), msgspec.json.encode(status))


def is_behind(target: Target, status: KnownStatus) -> bool:
    """Whether a run has written to the ledger since: it is under way, or was broken off."""
    return ledger.find_newest_commit(target) > status.commit


def is_outdated(target: Target) -> bool:
    """Whether the file is missing or behind the ledger."""
    status = read_known(target)
    return status is None or is_behind(target, status)


def _locate_file(target: Target) -> Place:
    return to_place(target, target.lake, FILE)
