"""What files of events show of the tables behind them: format, keys and columns, by shape."""

import re
from collections.abc import Container, Iterable, Mapping, Sequence
from itertools import chain, count
from pathlib import Path

from pyspark.sql import types as T

from cdc_lakehouse.drafts.column_folders import with_folder_columns
from cdc_lakehouse.drafts.flat_rows import (
    GUESSED_KEYS,
    find_keys,
    infer_types,
    list_full,
    sample_rows,
    see_values,
)
from cdc_lakehouse.drafts.preset_records import sample_preset
from cdc_lakehouse.drafts.sample_files import (
    ROWS,
    Object,
    Sample,
    SampleFile,
    empty_error,
    note_defaults,
    read_value,
    sample_error,
    strip_schema,
)
from cdc_lakehouse.drafts.tables_in_files import (
    FolderOf,
    Part,
    find_table_folder,
    name_parts,
    read_change,
    read_row,
    split_files,
    to_identifier,
)
from gold.status.column_hints import encoded_numbers, encoded_texts
from lakehouse.config.formats import is_whole
from silver.decode.types import parse_type, wider_type
from silver.decode.values.encodings import from_block
from silver.decode.values.inference import infer_type

FLATTENED = ("__op", "__deleted", "__lsn", "__source_ts_ms", "__ts_ms")
SIGNALS = re.compile(r"(^|_)(dbz|debezium)_(signal|heartbeat)")
_WHOLE_DIGITS: Mapping[T.DataType, int] = {T.ShortType(): 5, T.IntegerType(): 10, T.LongType(): 19}


def read_sample(files: Sequence[Path], table: str, folder_of: FolderOf = lambda _: None) -> Sample:
    """What the first records of files show of one table; names are those of `read_samples`.

    Raises:
        ConfigurationError: they cannot be read, or it is not clear which records are meant.
    """
    parts = name_parts(split_files(files), folder_of)
    chosen = [(name, part) for name, part in parts if name.lower() == table.lower()] or parts
    if len(chosen) > 1:
        names = ", ".join(part.topic or name for name, part in chosen)
        what = "topics" if all(part.topic for _, part in chosen) else "tables"
        expected = f"one of them, or one ending in .{table}"
        action = "name a table after one of them, or none for the tables of all"
        raise sample_error(files[0], f"{what} {names}", expected, action)
    if not chosen:
        raise empty_error(files[0])
    return _sample_part(chosen[0][1])


def read_samples(files: Sequence[Path], folder_of: FolderOf = lambda _: None) -> dict[str, Sample]:
    """What files show of every table in them, by the table's name.

    A topic gives one table, named after the topic's last part; topics without rows (transactions,
    heartbeats, messages) and Debezium's signal tables give none. Records without topics are those
    of one table. A folder below the landing root (`folder_of` a file) names the table that is alone
    in it, as the table reads the folder. Other tables are named after their file; where several
    files have its columns, the file's name is a number or a day, or it lies in the folder of a day
    or of a column, after the folder.

    Raises:
        ConfigurationError: they cannot be read, or hold no record of a table.
    """
    samples: dict[str, Sample] = {}
    for title, part in name_parts(split_files(files), folder_of):
        name = _choose_name(title, part, samples)
        if not SIGNALS.search(name):
            samples[name] = _sample_part(part)
    if not samples:
        raise empty_error(files[0])
    return samples


def _choose_name(title: str, part: Part, taken: Container[str]) -> str:
    """The table's name by its title, one that no other table has."""
    longer = part.topic.split(".")[-2:] if part.topic else [find_table_folder(part.files[0]).name]
    second = "_".join(longer if part.topic else [*longer, title])
    names = chain([title, second], (f"{second}_{number}" for number in count(2)))
    return next(name for name in map(to_identifier, names) if name not in taken)


def common_type(kinds: Iterable[str]) -> str:
    """Spark SQL type that holds the values of several types; text where no other one does."""
    first, *others = (parse_type(kind) for kind in sorted(set(kinds)))
    common: T.DataType | None = first
    for other in others:
        common = common and _join_types(common, other)
    return common.simpleString() if common else "string"


def _join_types(one: T.DataType, other: T.DataType) -> T.DataType | None:
    if {one, other} == {T.DateType(), T.TimestampNTZType()}:
        return T.TimestampNTZType()
    numbers = (
        T.DecimalType(_WHOLE_DIGITS[each], 0) if each in _WHOLE_DIGITS else each
        for each in (one, other)
    )
    return wider_type(one, other) or wider_type(*numbers)


def _sample_part(part: Part) -> Sample:
    changes = [change for record in part.records if (change := read_change(record))]
    sample = sample_preset(changes, part.opened[0], part.topic)
    if sample is None:
        is_json = part.opened[0].format == "json"
        sample = _sample_json(part) if is_json else sample_rows(part.opened, part.files)
    rows = [list(map(read_change, opened.records)) for opened in part.opened]
    sample = with_folder_columns(sample, part.files, rows)
    return sample._replace(files=part.files, where=part.owner.where if part.owner else "")


def _is_dynamodb(record: Object) -> bool:
    """Whether a record has DynamoDB's typed values, such as `{"N": "7"}`, around its columns."""
    item = record.get("Item")
    values = item.values() if isinstance(item, dict) and len(record) == 1 else ()
    is_export = bool(values) and all(isinstance(v, dict) and len(v) == 1 for v in values)
    return is_export or isinstance(record.get("dynamodb"), dict)


def _sample_json(part: Part) -> Sample:
    """What the JSON records of one table show."""
    if any(map(_is_dynamodb, part.records)):
        problem, expected = "records of DynamoDB (its stream, or an export)", ROWS
        action = "write an item as one row of plain values, with an order: docs/guides/rows.md"
        raise sample_error(part.files[0], problem, expected, action)
    changes = [change for record in part.records if (change := read_change(record))]
    if any("op" in each and ("after" in each or "before" in each) for each in changes):
        return _sample_debezium(part.records, part.topic)
    if not set().union(*changes).isdisjoint(FLATTENED):
        return _sample_flattened(part.records, part.topic)
    if any(isinstance(change.get("key"), list) for change in changes):
        return _sample_ydb(changes, part.topic)
    if not changes:
        raise sample_error(part.files[0], "no record of a table", "records with rows")
    files = [SampleFile("json", list(map(read_change, each.records))) for each in part.opened]
    return sample_rows(files, part.files)


def _sample_debezium(records: Sequence[Object], topic: str | None) -> Sample:
    events = [record for record in records if "op" in read_change(record)]
    changes = [read_change(event) for event in events]
    rows = [read_row(change, "after") for change in changes]
    keys, notes = read_record_key(events), note_defaults(changes)
    if not keys and not any(map(is_whole, events)):
        keys, notes = _guess_keys(changes, [*filter(None, rows)]), notes | GUESSED_KEYS
    return _sample_events(rows, topic, keys, _read_declared(events))._replace(notes=notes)


def _sample_flattened(records: Sequence[Object], topic: str | None) -> Sample:
    """Rows that ExtractNewRecordState has left of Debezium's events."""
    rows = [read_change(record) for record in records]
    plain = [{n: v for n, v in row.items() if not n.startswith("__")} for row in rows]
    if keys := read_record_key(records):
        return _sample_events(plain, topic, keys, {})
    return _sample_events(plain, topic, _guess_keys((), plain), {})._replace(notes=GUESSED_KEYS)


def _sample_events(
    rows: Sequence[Object], topic: str | None, keys: list[str], declared: Mapping[str, str]
) -> Sample:
    """The sample of Debezium's rows.

    Without a schema block only keys are declared, and columns whose values only a text holds
    together: undeclared these would be refused.
    """
    inferred = infer_types(rows)
    mixed = [name for name, seen in see_values(rows).items()
             if len(seen.kinds) > 1 and isinstance(infer_type(seen), T.StringType)]  # fmt: skip
    columns = dict(declared or {name: inferred.get(name, "string") for name in [*keys, *mixed]})
    guessed = {name: kind for name, kind in inferred.items() if name not in columns}
    looks = _find_encodings(rows, guessed)
    return Sample("debezium", "json", topic, keys, columns, guessed, looks=looks)


def read_record_key(records: Iterable[Object]) -> list[str]:
    """The columns of the first whole record's key."""
    key = next((strip_schema(r["key"]) for r in records if is_whole(r) and r.get("key")), None)
    return list(key) if isinstance(key, dict) else []


def _guess_keys(changes: Sequence[Object], rows: Sequence[Object]) -> list[str]:
    """The keys guessed from changes: never a column that updates change, or that is ever null.

    If deletes lack a column that has a value in all other rows, they carry the key alone.
    """
    deleted = list(filter(None, _list_rows(changes, "d", "before")))
    full = list_full(next(iter([*rows, *deleted]), {}), rows)
    full_in_deletes = list_full(full, deleted)
    changed = _find_changed_columns(changes)
    candidates = [name for name in full_in_deletes if name not in changed]
    if candidates and (not rows or len(full_in_deletes) < len(full)):
        return candidates
    kinds = infer_types(rows)
    return find_keys(rows[:1], {n: k for n, k in kinds.items() if n in candidates} or kinds)


def _find_changed_columns(changes: Sequence[Object]) -> set[str]:
    """The columns to which some update gives another value."""
    befores, afters = (_list_rows(changes, "u", side) for side in ("before", "after"))
    return {
        name
        for before, after in zip(befores, afters, strict=True)
        for name, value in before.items()
        if value is not None and value != after.get(name)
    }


def _list_rows(changes: Sequence[Object], operation: str, side: str) -> list[Object]:
    return [read_row(change, side) for change in changes if change.get("op") == operation]


def _sample_ydb(changes: Sequence[Object], topic: str | None) -> Sample:
    keyed = [change for change in changes if "key" in change]
    values = max((change["key"] for change in keyed), key=len)
    keys = [f"key_{place}" for place, _ in enumerate(values, 1)]
    rows = [change.get("newImage") or change.get("update") or {} for change in keyed]
    columns = dict.fromkeys(keys, "string") | infer_types([dict(zip(keys, values, strict=True))])
    return Sample("ydb", "json", topic, keys, columns, infer_types(rows))


def _find_encodings(rows: Sequence[Object], names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """What the values of some columns seem to encode; columns of plain values are left out."""
    encodings: dict[str, tuple[str, str] | None] = {}
    for name in names:
        values = [row[name] for row in rows if row.get(name) is not None]
        if values and all(type(value) is int for value in values):
            encodings[name] = encoded_numbers(name, min(values), max(values))
        elif values and all(isinstance(value, str) for value in values):
            encodings[name] = encoded_texts(min(values), max(values))
    return {name: encoding for name, encoding in encodings.items() if encoding is not None}


def _read_declared(records: Iterable[Object]) -> dict[str, str]:
    """Column types from all schema blocks; a column of several types has one that holds them."""
    types: dict[str, set[str]] = {}
    for record in records:
        for name, kind in _read_schema_block(read_value(record)).items():
            types.setdefault(name, set()).add(kind)
    return {name: common_type(kinds) for name, kinds in types.items()}


def _read_schema_block(value: object) -> dict[str, str]:
    """Column types from the schema block around a Debezium value, if there is one."""
    wrapper = value if isinstance(value, dict) else {}
    fields = (wrapper.get("schema") or {}).get("fields") or []
    after = [field["fields"] for field in fields if field.get("field") == "after"]
    types = {field["field"]: from_block(field).type for columns in after for field in columns}
    return {name: kind.simpleString() for name, kind in types.items()}
