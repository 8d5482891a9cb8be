"""Rows within the records of other programs: the parts that the block `envelope` names.

A record may have several rows, each of which is a change. A row whose key differs from the old one
is a move: the delete of the old key, and the row itself.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from fnmatch import fnmatchcase
from typing import NamedTuple

from lakehouse.config.records.envelope import ITSELF, RecordParts
from lakehouse.config.table import Table
from silver.contract import DELETE, TRUNCATE, UPSERT
from silver.decode.change import ILLEGAL_CHANGE
from silver.decode.debezium.events.documents import build_row
from silver.decode.expressions.names import OF_RECORD, members_read
from silver.decode.protocols.objects import Fault, row_object
from silver.decode.protocols.slices import Row
from silver.decode.values.json_values import NumberText, json_text

_WHOLE_DIGITS = 40
Respell = Callable[[dict[str, object]], dict[str, object]]


class EnvelopeRow(NamedTuple):
    """A row of a record: its members, what happened to it, and the key that it had before.

    `complete` says that a column that is no member is null.
    """

    members: Row
    operation: str = UPSERT
    complete: bool = False
    old_key: str | None = None


class EnvelopeOpener:
    """Opens the records of one table; `respell` gives a row's members the columns' names."""

    def __init__(self, table: Table, envelope: RecordParts, respell: Respell) -> None:
        self._table, self._envelope, self._respell = table, envelope, respell
        names = [name for name in members_read(table) if name.startswith(OF_RECORD)]
        self._read = {name: name.removeprefix(OF_RECORD) for name in names}
        self._convert = _CONVERTERS.get(envelope.values, dict)

    def open(self, record: Row) -> Iterator[EnvelopeRow | Fault]:
        """The rows of a record, at least one: without members where it has no row."""
        operation = self._find_operation(record)
        path, member = self._find_rows(record)
        rows = member if isinstance(member, list) and member else [member]
        olds = find_member(record, self._envelope.old)
        for at, given in enumerate(rows):
            old = olds[at] if isinstance(olds, list) and at < len(olds) else olds
            row = row_object(given.encode()) if isinstance(given, str) else given or None
            if isinstance(row, dict) or (row is None and not given):
                yield from self._open_row(record, row or None, old, (operation, path))
            else:
                expected = "an object, or a list of objects"
                yield Fault(ILLEGAL_CHANGE, f"{path}: found {given!r:.40}, expected {expected}")

    def _find_operation(self, record: Row) -> str:
        envelope = self._envelope
        texts = (envelope.read_operation(find_member(record, p)) for p in envelope.operation)
        text = next((one for one in texts if one is not None), None)
        if text is not None and text in envelope.truncates:
            return TRUNCATE
        is_delete = text is not None and any(fnmatchcase(text, one) for one in envelope.deletes)
        return DELETE if is_delete else UPSERT

    def _find_rows(self, record: Row) -> tuple[str, object]:
        """The first member with rows, and where it is."""
        paths = self._envelope.row or [ITSELF]
        for path in paths:
            if path != ITSELF and (member := find_member(record, path)) is not None:
                return path, member
        dotted = [path for path in (*paths, *self._envelope.operation) if path != ITSELF]
        others = {path.partition(".")[0] for path in dotted if path in paths or "." in path}
        is_row = ITSELF in paths and others.isdisjoint(record)
        return (ITSELF, dict(record)) if is_row else (paths[0], None)

    def _open_row(
        self, record: Row, row: Row | None, old: object, said: tuple[str, str]
    ) -> Iterator[EnvelopeRow | Fault]:
        """The changes that a row is; `said` are the operation, and where the row was found."""
        operation, path = said
        before = self._read_row(old, "") if isinstance(old, dict) else {}
        is_key_alone = row is None and operation == DELETE
        members = before if is_key_alone else self._read_row(row or {}, path)
        if operation == UPSERT and (nested := self._find_nested(members, path, record)):
            yield Fault(ILLEGAL_CHANGE, f"{path}: {_NESTED.format(nested)}")
            return
        members = self._complete(members, before, record)
        around = {name: self._find_around(record, row, path) for name, path in self._read.items()}
        old_key = self._find_old_key(members, before) if operation == UPSERT else None
        if old_key is not None:
            yield EnvelopeRow(old_key | around, DELETE)
        is_whole = self._envelope.complete and path == self._envelope.row[0] and row is not None
        moved_from = None if old_key is None else json_text(old_key)
        yield EnvelopeRow(members | around, operation, is_whole, moved_from)

    def _find_nested(self, members: Row, path: str, record: Row) -> str | None:
        """A part of a field, among changed fields with paths as MongoDB writes them."""
        if self._envelope.values != "mongodb" or path == self._envelope.row[0]:
            return None
        cut = _TRUNCATED if find_member(record, _TRUNCATED) else None
        removed = _listed(find_member(record, self._envelope.removed))
        return next((name for name in map(str, (*members, *removed)) if "." in name), cut)

    def _complete(self, members: Row, before: Row, record: Row) -> dict[str, object]:
        """The members with keys that only the old row has, and null for what was removed."""
        keys = {k: before[k] for k in self._table.keys if k in before and k not in members}
        removed = find_member(record, self._envelope.removed)
        return {**keys, **members, **dict.fromkeys(map(str, _listed(removed)), None)}

    def _find_old_key(self, members: Row, before: Row) -> dict[str, object] | None:
        """The old key of a row whose key has changed."""
        old = {k: before[k] for k in self._table.keys if before.get(k) is not None}
        if all(members.get(k, value) == value for k, value in old.items()):
            return None
        return {k: before.get(k, members.get(k)) for k in self._table.keys}

    def _read_row(self, row: Row, path: str) -> dict[str, object]:
        """The members of a row in plain JSON, by the columns' names."""
        members = dict(row) if path == ITSELF else self._convert(row)
        if end := self._envelope.missing:
            lacked = {n for n in members if n.endswith(end)}
            lacked |= {n.removesuffix(end) for n in lacked if members[n] is True}
            members = {n: value for n, value in members.items() if n not in lacked}
        return self._respell(members)

    def _find_around(self, record: Row, row: Row | None, path: str) -> object:
        """A member of the record, else of the row, also by the row's own place in the record."""
        value = find_member(record, path)
        if value is not None or row is None:
            return value
        ends = [path.removeprefix(f"{one}.") for one in self._envelope.row]
        return next((v for end in ends if (v := find_member(row, end)) is not None), None)


def find_member(record: object, path: str | None) -> object:
    """The member at a path of names with dots between; None without one."""
    if path is None or not isinstance(record, Mapping):
        return None
    if path in record:
        return record[path]
    first, _, rest = path.partition(".")
    return find_member(record.get(first), rest) if rest else None


def _read_dynamodb(row: Row) -> dict[str, object]:
    return {name: _plain_value(value) for name, value in row.items()}


def _plain_value(value: object) -> object:
    """A value of DynamoDB, which has its type: `{"N": "1.5"}`."""
    if not isinstance(value, dict) or len(value) != 1:
        return value
    [(kind, inner)] = value.items()
    if kind == "M" and isinstance(inner, dict):
        return _read_dynamodb(inner)
    if kind in ("L", "NS") and isinstance(inner, list):
        return [_plain_value(one if kind == "L" else {"N": one}) for one in inner]
    if kind == "N":
        text = str(inner)
        is_whole = text.lstrip("-").isdecimal() and len(text) <= _WHOLE_DIGITS
        return int(text) if is_whole else NumberText(text)
    return None if kind == "NULL" else inner


def _read_document(row: Row) -> dict[str, object]:
    return dict(build_row(row, None) or {})


_CONVERTERS: Mapping[str, Callable[[Row], dict[str, object]]] = {
    "dynamodb": _read_dynamodb,
    "mongodb": _read_document,
}
_TRUNCATED = "updateDescription.truncatedArrays"
_NESTED = (
    "found {}, a part of a field, expected whole documents: open the change stream with"
    " fullDocument: updateLookup"
)


def name_keys(record: Row, envelope: RecordParts) -> Sequence[str]:
    """The key's columns that a record names."""
    named = find_member(record, envelope.keys)
    if isinstance(named, dict):
        named = list(_CONVERTERS.get(envelope.values, dict)(named))
    return [*map(str, _listed(named))]


def _listed(value: object) -> list[object]:
    return value if isinstance(value, list) else []
