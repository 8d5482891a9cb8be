"""Flat rows as members: names as the columns are spelled, and columns that folders give."""

import re
from collections.abc import Collection, Iterable, Mapping, Sequence

from pyspark.sql import types as T

from bronze.contract import folder_columns
from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import Columns, declared_types
from silver.decode.expressions.names import MEMBER, members_read
from silver.decode.protocols.objects import Fault, broken_row, row_object
from silver.decode.protocols.slices import (
    FlatRow,
    OpenedSlice,
    RowGroup,
    RowTraits,
    group_rows,
    open_others,
    parse_objects,
    parse_rows,
)
from silver.decode.renames import column_names
from silver.decode.shapes import Parsed
from silver.decode.slices import Slice
from silver.decode.values.written_numbers import NumberReader

_MOST_FILES, _MOST_HEADERS = 1_024, 1_024


class FileRows:
    """Opens the rows of one table as members by column name.

    Names are those of known columns, old ones included, and of `protocol`, without regard to case,
    but for a row that has values under both of two such names. A column that a file's folders give,
    as in `region=eu/`, is a member of each row that has no value of its own.
    """

    def __init__(self, table: Table, columns: Columns, protocol: Iterable[str] = ()) -> None:
        left_out, self._table = table.except_column_list or (), table
        present = [name for name in columns.names if not name.startswith(MEMBER)]
        names = [*table.keys, *present, *table.columns, *members_read(table), *protocol, *left_out]
        self._spelled: dict[str, str] = {name.lower(): name for name in reversed(names)}
        folder = re.escape(str(table.feeds[0].path).strip("/"))
        self._below = re.compile(rf"^.*/{folder}/")
        self._doubles = [
            column.name
            for column in columns.columns
            if column.declared and isinstance(column.type, T.DoubleType)
        ]
        self._reader = NumberReader.of(table.feeds[0].csv)
        types = declared_types(table) if self._reader else {}
        self._numbers = [n for n, kind in types.items() if isinstance(kind, T.NumericType)]
        self._of_files: dict[str, Mapping[str, object]] = {}
        self._of_headers: dict[tuple[str, ...], list[str] | None] = {}

    def open(self, records: Slice) -> OpenedSlice:
        """The rows of a slice."""
        groups = self._open_plain(records, self.list_plain(records))
        taken = [at for group in groups for at in group.indices]
        others: dict[int, Fault | None] = {}
        alike: dict[RowTraits, Parsed] = {}
        for at, opened in open_others(records, taken, self.open_record):
            if isinstance(opened, FlatRow):
                rows = alike.setdefault(opened.kind, Parsed([], []))
                rows.places.append(at)
                rows.values.append(opened.members)
            else:
                others[at] = opened
        for kind, rows in alike.items():
            groups.extend(group_rows(rows, kind))
        for group in groups:
            if fault := self.refuse(group.members):
                others |= dict.fromkeys(group.indices, fault)
        kept = [group for group in groups if group.indices[0] not in others]
        if self._reader is not None:
            read = self._reader.read
            for at, group in enumerate(kept):
                numbers = [name for name in self._numbers if name in group.members]
                as_sql = {name: [*map(read, group.members[name])] for name in numbers}
                kept[at] = group._replace(members={**group.members, **as_sql})
        return OpenedSlice(records.part.num_rows, kept, others)

    def open_record(self, record: Record) -> FlatRow | Fault | None:
        """The row of a record; its fault where it is no JSON object, None without a value."""
        if record.raw is None:
            return None
        row = row_object(record.raw)
        if row is None:
            return broken_row(record.raw, self._table)
        return FlatRow(self.completed(row, record.file))

    def list_plain(self, records: Slice) -> list[int]:
        """The indices of records that may be plain rows in JSON."""
        return records.places

    def refuse(self, members: Collection[str]) -> Fault | None:
        """Why rows with these members are none; None where they are."""
        return None

    def _open_plain(self, records: Slice, indices: list[int]) -> list[RowGroup]:
        files = records.column("_file") if records.has_any("_file") else ()
        if any("=" in (file or "") for file in {*files}):
            parsed = parse_objects(records, indices)
            rows = [self.completed(row, files[at]) for at, row in zip(*parsed, strict=True)]
            return [*group_rows(parsed._replace(values=rows))]
        groups: list[RowGroup] = []
        for group in parse_rows(records, indices, self._doubles, self._has_keys):
            names, columns = self.spellings([*group.members]), group.members.values()
            if len({*names}) == len(names):
                members = dict(zip(names, columns, strict=True))
                groups.append(group._replace(members=members))
            else:
                values = zip(*columns, strict=True)
                rows = [dict(zip(group.members, row, strict=True)) for row in values]
                completed = [self.completed(row, None) for row in rows]
                groups.extend(group_rows(Parsed(group.indices, completed)))
        return groups

    def _has_keys(self, names: Sequence[str]) -> bool:
        return {*self._table.keys} <= {*self.spellings(names)}

    def completed(self, row: dict[str, object], file: str | None) -> dict[str, object]:
        """A row with the columns' own spelling, and what its file's folders give."""
        names = self._respell(tuple(row))
        if names is not None:
            row = _rename_members(row, names)
        if file is not None and "=" in file:
            given = self._folder_columns(file)
            return {**given, **row, **{n: v for n, v in given.items() if row.get(n) is None}}
        return row

    def spellings(self, names: Sequence[str]) -> list[str]:
        """The names of a row as the columns are spelled."""
        return self._respell(tuple(names)) or list(names)

    def _respell(self, names: tuple[str, ...]) -> list[str] | None:
        """The names as the columns are spelled, two of which may then be one; None if they are."""
        if names not in self._of_headers:
            if len(self._of_headers) >= _MOST_HEADERS:
                self._of_headers.clear()
            columns = column_names(self._table, names)
            spelled = [self._spelled.get(name.lower(), name) for name in columns]
            self._of_headers[names] = spelled if spelled != list(names) else None
        return self._of_headers[names]

    def _folder_columns(self, file: str) -> Mapping[str, object]:
        members = self._of_files.get(file)
        if members is None:
            if len(self._of_files) >= _MOST_FILES:
                self._of_files.clear()
            given = folder_columns(self._below.sub("", file))
            names = self._respell(tuple(given))
            members = _rename_members(given, names) if names else given
            self._of_files[file] = members
        return members


def _rename_members(row: Mapping[str, object], names: list[str]) -> dict[str, object]:
    """The members by other names; by their own where two with a value would have one name."""
    if len({*names}) == len(names):
        return dict(zip(names, row.values(), strict=True))
    renamed: dict[str, object] = {}
    for name, value in zip(names, row.values(), strict=True):
        if value is not None and renamed.get(name) is not None:
            return dict(row)
        renamed[name] = renamed.get(name) if value is None else value
    return renamed
