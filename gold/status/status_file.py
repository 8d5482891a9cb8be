"""What the commands know of the tables: `lake/_status.json`, to be read without an engine.

A command that changes what the status says brings it up to date at its end. In a catalog it is the
one row of silver's table `_status`.
"""

from collections.abc import Mapping, Sequence
from contextlib import suppress
from datetime import datetime, timedelta
from typing import Any, TypeAlias

import msgspec

from gold.status.figures import Figures
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError
from lakehouse.places.place import Place, to_place, write_whole
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.run.unread import UNREAD
from lakehouse.storage.lake import Lake
from lakehouse.storage.locks import hold_commit_lock
from lakehouse.storage.writing import DeclaredTable, replace_rows

FILE, FORMAT = "_status.json", 1
UnreadCounts = dict[str, dict[str, int]]
Store: TypeAlias = Target | Lake
"""Where the status is kept: a target, and in a catalog the lake with its session."""
_COLUMNS = (("content", "string", "what the commands know of the tables, as JSON"),)
_TABLE = DeclaredTable("silver", "_status", "what status and report show", _COLUMNS)
_OVERLAP = timedelta(hours=1)
"""In a catalog an entry is written at most so long after the end of its work."""


class KnownStatus(msgspec.Struct, frozen=True):
    """What the file holds.

    Attributes:
        format: the number of this form of the file.
        commit: the newest commit of the ledger that is summed up; -1 before the first.
        ledger: that commit's id, by which the file is known to be this ledger's.
        tables: the figures by table.
        unread: the ledger's counts of what no table reads, by feed and name.
        recent: in a catalog the newest entries that are summed up, with the end of their work.
    """

    format: int = FORMAT
    commit: int = -1
    ledger: str | None = None
    tables: dict[str, Figures] = {}
    unread: UnreadCounts = {}
    recent: dict[str, datetime] = {}

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


def read_known(store: Store) -> KnownStatus | None:
    """What is kept; None if it is missing, damaged, of another form or another ledger's."""
    return _parse_content(store, _read_content(store))


def require_known(store: Store) -> KnownStatus:
    """What is kept, in a catalog with the ledger's entries since.

    Raises:
        ConfigurationError: there is nothing that can be read.
    """
    status, lake = read_known(store), _lake_of_table(store)
    if status is None:
        where = lake.name("silver", _TABLE.name) if lake else str(_locate_file(store))
        problem, expected = "no status", "what a run of this version has written"
        raise ConfigurationError(where, "content", problem, expected, "`lakehouse run` writes it")
    return status if lake is None else _add_entries(store, status)


def sum_up(store: Store) -> KnownStatus:
    """What is kept, with the ledger's entries since; without it, all entries of the ledger.

    Raises:
        OSError: the ledger cannot be read.
    """
    return _add_entries(store, read_known(store))


def update_known(store: Store, measured: Mapping[str, Mapping[str, Any]]) -> KnownStatus:
    """Brings what is kept up to the ledger and to what was measured, unless a later run did.

    A table without YAML stays in there: its YAML may come back.

    Raises:
        OSError: the ledger cannot be read, or the file not be written.
    """
    with hold_commit_lock(_target_of(store)):
        content = _read_content(store)
        status = _add_entries(store, _parse_content(store, content))
        tables = dict(status.tables)
        for name, values in measured.items():
            kept = tables.get(name, Figures())
            if values.get("measured", kept.measured) >= kept.measured:
                tables[name] = msgspec.structs.replace(kept, **values)
        status = _identify(store, msgspec.structs.replace(status, tables=tables))
        if msgspec.json.encode(status) != content:
            write_known(store, status)
        return status


def write_known(store: Store, status: KnownStatus) -> None:
    """Replaces what is kept in one step."""
    content, lake = msgspec.json.encode(_identify(store, status)), _lake_of_table(store)
    if lake is None:
        write_whole(_locate_file(store), content)
        return
    _TABLE.ensure(lake)
    rows = _TABLE.rows(lake.spark, [{"content": content.decode()}])
    replace_rows(lake, "silver", _TABLE.name, rows)


def is_behind(target: Target, status: KnownStatus) -> bool:
    """Whether a run has written to the ledger since: it is under way, or was broken off.

    In a catalog nobody knows.
    """
    return not target.catalog and ledger.find_newest_commit(target) > status.commit


def is_outdated(target: Target) -> bool:
    """Whether the file is missing or behind the ledger."""
    status = read_known(target)
    return status is None or is_behind(target, status)


def _add_entries(store: Store, status: KnownStatus | None) -> KnownStatus:
    lake, target = _lake_of_table(store), _target_of(store)
    if lake is not None:
        return _add_recent_entries(lake, status or KnownStatus())
    added = ledger.read_added_entries(target, status.commit) if status is not None else None
    if status is not None and added is not None:
        return status.with_entries(*added)
    return KnownStatus().with_entries(*ledger.read_all_entries(target))


def _add_recent_entries(lake: Lake, status: KnownStatus) -> KnownStatus:
    """A catalog does not say which entries are new: those of the last hour are known by name."""
    since = max(status.recent.values()) - _OVERLAP if status.recent else None
    entries = {
        f"{each.run_id} {each.layer} {each.table} {each.status} {each.ended_at}": each
        for each in ledger.ask_entries(lake, since)
    }
    new = [entry for name, entry in entries.items() if name not in status.recent]
    ends = {name: entry.ended_at for name, entry in entries.items()}
    newest = max(ends.values()) - _OVERLAP if ends else None
    recent = {name: at for name, at in ends.items() if newest is not None and at >= newest}
    return msgspec.structs.replace(status.with_entries(status.commit, new), recent=recent)


def _read_content(store: Store) -> bytes:
    """What is kept as JSON; empty if there is nothing."""
    lake = _lake_of_table(store)
    if lake is not None:
        rows = _TABLE.read(lake).collect()
        return str(rows[0]["content"]).encode() if rows else b""
    with suppress(OSError):
        return _locate_file(store).read_bytes()
    return b""


def _parse_content(store: Store, content: bytes) -> KnownStatus | None:
    with suppress(msgspec.MsgspecError):
        status = msgspec.json.decode(content, type=KnownStatus)
        return status if status.format == FORMAT and _fits_ledger(store, status) else None
    return None


def _fits_ledger(store: Store, status: KnownStatus) -> bool:
    """Whether the ledger has the status's commit, or had it: Delta deletes old files of its log."""
    target = _target_of(store)
    now = None if target.catalog else ledger.identify_commit(target, status.commit)
    if now is None:
        return bool(target.catalog) or ledger.find_newest_commit(target) >= status.commit
    return status.ledger in (None, now)


def _identify(store: Store, status: KnownStatus) -> KnownStatus:
    """The status with the id of its commit."""
    target = _target_of(store)
    named = None if target.catalog else ledger.identify_commit(target, status.commit)
    return msgspec.structs.replace(status, ledger=named)


def _lake_of_table(store: Store) -> Lake | None:
    """The lake, where the status is kept in a table."""
    return store if isinstance(store, Lake) and store.target.catalog else None


def _target_of(store: Store) -> Target:
    return store if isinstance(store, Target) else store.target


def _locate_file(store: Store) -> Place:
    target = _target_of(store)
    return to_place(target, target.lake, FILE)
