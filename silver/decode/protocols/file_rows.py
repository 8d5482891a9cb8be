"""Flat rows as members: names as the columns are spelled, and columns that folders give."""

import re
from collections.abc import Iterable, Mapping, Sequence

from bronze.contract import folder_columns
from lakehouse.config.table import Table
from silver.decode.change import Record
from silver.decode.columns import Columns
from silver.decode.expressions.names import MEMBER, members_read
from silver.decode.protocols.objects import row_object
from silver.decode.renames import column_names

_MOST_FILES, _MOST_HEADERS = 1_024, 1_024


class FileRows:
    """Reads the rows of one table as members by column name.

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
        self._of_files: dict[str, Mapping[str, object]] = {}
        self._of_headers: dict[tuple[str, ...], list[str] | None] = {}

    def read(self, record: Record) -> dict[str, object] | None:
        """The members of a record's row; None where the record is no JSON object."""
        row = row_object(record.raw or b"")
        return None if row is None else self.completed(row, record)

    def completed(self, row: dict[str, object], record: Record) -> dict[str, object]:
        """A row with the columns' own spelling, and what its file's folders give."""
        names = self._respell(tuple(row))
        if names is not None:
            row = _rename_members(row, names)
        if record.file is not None and "=" in record.file:
            given = self._folder_columns(record.file)
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
