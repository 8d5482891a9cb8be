"""Whose records files hold: those of a topic, of a table that they name, or of one shape."""

import json
import re
from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NamedTuple, TypeAlias

from cdc_lakehouse.drafts.column_folders import find_own_folder
from cdc_lakehouse.drafts.flat_rows import is_day_folder, without_day
from cdc_lakehouse.drafts.preset_records import Owner, find_owner
from cdc_lakehouse.drafts.sample_files import (
    Object,
    SampleFile,
    open_sample,
    read_value,
    sample_error,
    strip_schema,
)
from lakehouse.config.formats import is_whole

FolderOf: TypeAlias = Callable[[Path], str | None]
"""The name of the folder below the landing root in which a file lies; None of another file."""


def to_identifier(text: str) -> str:
    """A table's name made of a text: small letters, digits and _, beginning with a letter."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if name[:1].isalpha() else f"t_{name}"


class Part(NamedTuple):
    """The records of one table: those of a topic, or of files without topics of the same shape.

    `owner` is the table that the records name; others of the topic or folder may name another one.
    """

    topic: str | None
    owner: Owner | None
    files: list[Path]
    opened: list[SampleFile]

    @property
    def records(self) -> list[Object]:
        """The records of all files."""
        return [record for opened in self.opened for record in opened.records]


def find_table_folder(file: Path) -> Path:
    """The folder of the table that reads a file: above folders `name=value` and that of a day."""
    folder = find_own_folder(file)
    return folder.parent if is_day_folder(folder) else folder


def name_parts(parts: Sequence[Part], folder_of: FolderOf) -> list[tuple[str, Part]]:
    """The parts, each with the name that its table may have."""
    tables_in = Counter(find_table_folder(part.files[0]) for part in parts if part.topic is None)

    def name(part: Part) -> str:
        is_alone = tables_in[find_table_folder(part.files[0])] == 1
        if part.topic is not None or (part.owner and not is_alone):
            return (part.owner.names[-1] if part.owner else str(part.topic)).rpartition(".")[2]
        return (folder_of(part.files[0]) if is_alone else None) or _name_files(part.files)

    return [(name(part), part) for part in parts]


def _name_files(files: Sequence[Path]) -> str:
    folder, names = find_table_folder(files[0]).name, {f.name.partition(".")[0] for f in files}
    name = without_day(next(iter(names)))
    is_own = name[:1].isalpha() and files[0].absolute().parent == find_table_folder(files[0])
    return name if is_own and len(names) == 1 else folder or name


def split_files(files: Sequence[Path]) -> list[Part]:
    """The records of each table over all files.

    They are those of a topic, and within it, or without topics, of the table that they name;
    others are told apart by their shape. The shape of CSV is its set of names, in whatever case.
    Files without a record are left out.

    Raises:
        ConfigurationError: files cannot be read, or have Debezium's events of several tables.
    """
    parts: dict[object, Part] = {}
    for file in files:
        opened = open_sample(file)
        is_json, is_csv = opened.format == "json", opened.format == "csv"
        tables = _split_by_table(opened.records) if is_json else {(None, None): opened.records}
        names = [] if is_json else [*next(iter(opened.records), {})]
        columns = sorted(map(str.lower, names)) if is_csv else names
        for (topic, owner), records in tables.items() if opened.records else ():
            shape = topic or (find_table_folder(file), opened.format, *columns)
            part = parts.setdefault((shape, owner), Part(topic, owner, [], []))
            first = part.opened[0].records[0] if is_csv and part.opened else {}
            part.files.append(file)
            part.opened.append(opened._replace(records=_spell_alike(records, first)))
    _check_owners(parts.values())
    return list(parts.values())


def _check_owners(parts: Iterable[Part]) -> None:
    """Refuses Debezium's events of several tables in a folder, which nothing can tell apart."""
    by_folder: dict[Path, list[Owner]] = {}
    for part in parts:
        if part.owner and not part.owner.where:
            owners = by_folder.setdefault(find_table_folder(part.files[0]), [])
            owners.append(part.owner)
            if len(owners) > 1:
                names = ", ".join(".".join(owner.names) for owner in owners)
                expected = "those of one table in a folder, or whole records with their topic"
                action = "give each table a folder, or keep topic, key and value of the records"
                raise sample_error(part.files[0], f"events of {names}", expected, action)


def _spell_alike(rows: Sequence[Object], first: Object) -> Sequence[Object]:
    """CSV rows with names as the table's first row spells them."""
    spelled = {name.lower(): name for name in first}
    renamed = ({spelled.get(n.lower(), n): value for n, value in row.items()} for row in rows)
    return [*renamed] if first else rows


def _split_by_table(
    records: Iterable[Object],
) -> dict[tuple[str | None, Owner | None], list[Object]]:
    """The records by topic and by the table that they name, where these have rows.

    Those with neither are left out where others have one.
    """
    by_table: dict[tuple[str | None, Owner | None], list[Object]] = {}
    for record in records:
        topic = str(record["topic"]) if is_whole(record) and record.get("topic") else None
        owner = find_owner(read_change(record))
        tells = owner is not None and (owner.where or topic is None)
        by_table.setdefault((topic, owner if tells else None), []).append(record)
    if len(by_table) > 1:
        by_table.pop((None, None), None)
    return {
        table: of_table
        for table, of_table in by_table.items()
        if any(map(_has_row, of_table)) and any(map(_has_values, of_table))
    }


def _has_row(record: Object) -> bool:
    """Whether a record carries a row of a table; transactions, heartbeats and messages do not."""
    change = read_change(record)
    if "op" in change and not change.keys().isdisjoint(("before", "after", "source")):
        return any(read_row(change, side) for side in ("after", "before"))
    envelope = {"ts_ms", "status", "event_count", "message", "id", "data_collections"}
    return bool(change.keys() - envelope)


def read_row(change: Object, side: str) -> Object:
    """The row before or after a change; MongoDB's come as JSON in a text, without their `_id`."""
    row = change.get(side)
    if not isinstance(row, str):
        return row if isinstance(row, dict) else {}
    try:
        document = json.loads(row)
    except ValueError:
        return {}
    is_document = isinstance(document, dict)
    return {n: _simplify_value(v) for n, v in document.items() if n != "_id"} if is_document else {}


def _simplify_value(value: object) -> object:
    """A value in MongoDB's Extended JSON as a plain number or text, where it is one."""
    if not isinstance(value, dict) or not value:
        return value
    kind, inner = next(iter(value.items()))
    with suppress(ValueError):
        if kind in ("$numberLong", "$numberInt"):
            return int(str(inner))
        if kind in ("$numberDouble", "$numberDecimal"):
            return float(str(inner))
    return value


def read_change(record: Object) -> Object:
    """The value of a record without its schema block; empty if it is no object."""
    value = strip_schema(read_value(record))
    return value if isinstance(value, dict) else {}


def _has_values(record: Object) -> bool:
    """Whether a record has a value that can be a column's, or names a key."""
    values = {n: v for n, v in read_change(record).items() if v is not None}
    read = ("_CHANGE_TYPE", "_airbyte_data")
    return any(not name.startswith("_") or name in read for name in values)
