"""What a file of events shows of the table behind it: format, keys and columns, by its shape."""

import itertools
import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date, datetime
from pathlib import Path
from types import MappingProxyType
from typing import NamedTuple

from pyspark.sql import types as T

from cdc_lakehouse.drafts.sample_files import (
    Object,
    SampleFile,
    open_sample,
    plain_value,
    unusable,
    value_in,
)
from gold.status.column_hints import encoded_numbers, encoded_texts
from lakehouse.config.formats import Format, is_whole
from lakehouse.config.table import FileFormat
from silver.decode.types import parse_type, wider
from silver.decode.values.encodings import from_block
from silver.decode.values.inference import SeenValues, inferred_type
from silver.decode.values.json_values import NumberText

TIMES, WHOLE_NUMBERS = ("date", "timestamp"), ("smallint", "int", "bigint")
ORDERABLE = (*TIMES, *WHOLE_NUMBERS, "string")
DAY = re.compile(r"\d{4}-\d{2}-\d{2}")
ORDER_NAMES = re.compile(
    r"seq|version|lsn|scn|updated|modified|changed|_ts$|^ts|time", re.IGNORECASE
)
OPERATION_NAMES = ("operation", "op", "_operation", "change_type", "action")
FLATTENED = ("__op", "__deleted", "__lsn", "__source_ts_ms", "__ts_ms")
SIGNALS = re.compile(r"(^|_)(dbz|debezium)_(signal|heartbeat)")
_ROWS = "rows, Debezium's events, or whole records of either, as kcat -J writes them"
DELETE_WORDS = ("delete", "d", "del", "remove")
_ORDERS: tuple[Callable[[str, str], bool], ...] = (
    lambda name, kind: bool(ORDER_NAMES.search(name)) and kind.startswith(ORDERABLE),
    lambda _, kind: kind.startswith(TIMES),
    lambda _, kind: kind in WHOLE_NUMBERS,
)
"""Whether a column of a name and a type orders changes, the surest sign first."""
_WHOLE_DIGITS: Mapping[T.DataType, int] = {T.ShortType(): 5, T.IntegerType(): 10, T.LongType(): 19}


class Sample(NamedTuple):
    """A first reading. Columns that are only guessed are in `guessed`, not in `columns`.

    `looks` says of guessed columns what their values seem to encode, and the type to declare.
    """

    format: Format
    file_format: FileFormat
    topic: str | None
    keys: list[str]
    columns: dict[str, str]
    guessed: dict[str, str]
    sequence_by: str | None = None
    deletes: str | None = None
    looks: Mapping[str, tuple[str, str]] = MappingProxyType({})


def read_sample(file: Path, table: str) -> Sample:
    """What the first records of a file show of one table.

    Raises:
        ConfigurationError: it cannot be read, or its topics do not tell which is the table's.
    """
    opened = open_sample(file)
    if opened.format != "json":
        return _of_day(file, _flat(opened))
    records, topic = _of_topic(file, opened.records, table)
    if not any(map(_has_values, records)):
        raise unusable(file, "no record of a table", _ROWS)
    return _of_day(file, _sampled(records, topic))


def read_samples(file: Path) -> dict[str, Sample]:
    """What a file shows of every table in it, by the table's name.

    A topic gives one table, named after the topic's last part; topics without rows (transactions,
    heartbeats, messages) and Debezium's signal tables give none. Records without topics are those
    of one table, named after the file; where the file's name is a number or it lies in the folder
    of a day, after the folder.

    Raises:
        ConfigurationError: it cannot be read, or it holds no record of a table.
    """
    opened = open_sample(file)
    if opened.format != "json":
        return {identifier(_name_of(file)): _of_day(file, _flat(opened))}
    samples: dict[str, Sample] = {}
    for topic, records in _split_by_topic(opened.records).items():
        name = identifier((topic or _name_of(file)).rpartition(".")[2])
        if name in samples and topic is not None:
            name = identifier("_".join(topic.split(".")[-2:]))
        if not SIGNALS.search(name):
            samples[name] = _of_day(file, _sampled(records, topic))
    if not samples:
        raise unusable(file, "no record of a table", _ROWS)
    return samples


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
    return wider(one, other) or wider(*numbers)


def identifier(text: str) -> str:
    """A table's name made of a text: small letters, digits and _, beginning with a letter."""
    name = re.sub(r"[^a-z0-9]+", "_", text.lower()).strip("_")
    return name if name[:1].isalpha() else f"t_{name}"


def day_of(file: Path) -> str | None:
    """The day whose folder the file lies in, as extracts do: PATH/YYYY-MM-DD/."""
    name = file.absolute().parent.name
    return name if DAY.fullmatch(name) else None


def _name_of(file: Path) -> str:
    name, folder = file.name.partition(".")[0], file.absolute().parent
    if day_of(file):
        return folder.parent.name or name
    return name if name[:1].isalpha() else folder.name or name


def _of_day(file: Path, sample: Sample) -> Sample:
    """Plain rows in the folder of a day are an extract, which no column orders."""
    if sample.format != "rows" or day_of(file) is None:
        return sample
    return sample._replace(format="snapshot", sequence_by=None, deletes=None)


def _split_by_topic(records: Iterable[Object]) -> dict[str | None, list[Object]]:
    """The records of each topic that has rows; those without a topic where all are without."""
    by_topic: dict[str | None, list[Object]] = {}
    for record in records:
        topic = str(record["topic"]) if is_whole(record) and record.get("topic") else None
        by_topic.setdefault(topic, []).append(record)
    if len(by_topic) > 1:
        by_topic.pop(None, None)
    return {
        topic: own
        for topic, own in by_topic.items()
        if any(map(_has_row, own)) and any(map(_has_values, own))
    }


def _sampled(records: Sequence[Object], topic: str | None) -> Sample:
    """What the records of one table show."""
    changes = [change for record in records if (change := _change(record))]
    if any(map(_is_event, changes)):
        return _debezium([record for record in records if "op" in _change(record)], topic)
    if any(set(FLATTENED) & set(change) for change in changes):
        return _flattened(records, topic)
    keyed = [change for change in changes if "key" in change]
    if any(isinstance(change["key"], list) for change in keyed):
        return _ydb(keyed, topic)
    return _flat(SampleFile("json", changes))


def _is_event(change: Object) -> bool:
    return "op" in change and not change.keys().isdisjoint(("after", "before"))


def _has_row(record: Object) -> bool:
    """Whether a record carries a row of a table, or names its key."""
    change = _change(record)
    if "op" in change:
        return any(_row(change, side) for side in ("after", "before"))
    envelope = {"ts_ms", "status", "event_count", "message", "id", "data_collections"}
    return bool(set(change) - envelope)


def _debezium(records: Sequence[Object], topic: str | None) -> Sample:
    changes = [_change(record) for record in records]
    rows = [_row(change, "after") for change in changes]
    keys = _record_keys(records)
    if not keys and not any(map(is_whole, records)):
        keys = _keys_of_deletes(changes) or _probable_keys(_inferred(rows))
    return _of_events(rows, topic, keys, _declared_by_all(records))


def _flattened(records: Sequence[Object], topic: str | None) -> Sample:
    """Rows that ExtractNewRecordState has left of Debezium's events."""
    rows = [_change(record) for record in records]
    own = [{n: v for n, v in row.items() if not n.startswith("__")} for row in rows]
    return _of_events(own, topic, _record_keys(records) or _probable_keys(_inferred(own)), {})


def _of_events(
    rows: Sequence[Object], topic: str | None, keys: list[str], declared: Mapping[str, str]
) -> Sample:
    """The sample of Debezium's rows: without a schema block only keys and mixtures are declared."""
    inferred = _inferred(rows)
    sure = {name: inferred.get(name, "string") for name in [*keys, *_mixed(rows)]}
    known = dict(declared or sure)
    guessed = {name: kind for name, kind in inferred.items() if name not in known}
    return Sample("debezium", "json", topic, keys, known, guessed, looks=_looks(rows, guessed))


def _record_keys(records: Iterable[Object]) -> list[str]:
    """The columns of the first whole record's key."""
    key = next((plain_value(r["key"]) for r in records if is_whole(r) and r.get("key")), None)
    return list(key) if isinstance(key, dict) else []


def _keys_of_deletes(changes: Iterable[Object]) -> list[str]:
    """What deletes tell of the row before: with a replica identity of the key, the key alone."""
    rows = [_row(change, "before") for change in changes if change.get("op") == "d"]
    told = [[name for name, value in row.items() if value is not None] for row in rows if row]
    partial = [len(names) < len(row) for names, row in zip(told, filter(None, rows), strict=True)]
    return told[0] if told and all(partial) else []


def _row(change: Object, side: str) -> Object:
    """The row before or after a change; MongoDB's come as JSON in a text, without their `_id`."""
    row = change.get(side)
    if not isinstance(row, str):
        return row if isinstance(row, dict) else {}
    try:
        document = json.loads(row)
    except ValueError:
        return {}
    is_document = isinstance(document, dict)
    return {n: _of_document(v) for n, v in document.items() if n != "_id"} if is_document else {}


def _of_document(value: object) -> object:
    """A value in MongoDB's Extended JSON as a plain number or text, where it is one."""
    kind, inner = next(iter(value.items()), ("", None)) if isinstance(value, dict) else ("", None)
    with suppress(ValueError):
        if kind in ("$numberLong", "$numberInt"):
            return int(str(inner))
        if kind in ("$numberDouble", "$numberDecimal"):
            return float(str(inner))
    return value


def _ydb(changes: Sequence[Object], topic: str | None) -> Sample:
    parts = max((change["key"] for change in changes), key=len)
    keys = [f"key_{place}" for place, _ in enumerate(parts, 1)]
    rows = [change.get("newImage") or change.get("update") or {} for change in changes]
    columns = dict.fromkeys(keys, "string") | _inferred([dict(zip(keys, parts, strict=True))])
    return Sample("ydb", "json", topic, keys, columns, _inferred(rows))


def _flat(opened: SampleFile) -> Sample:
    kinds = {**_inferred(opened.records), **opened.types}
    columns = {name: kind for name, kind in kinds.items() if not name.startswith("_")}
    is_bigquery = any("_CHANGE_TYPE" in row for row in opened.records)
    return _bigquery(opened, columns) if is_bigquery else _rows(opened, columns)


def _bigquery(opened: SampleFile, columns: dict[str, str]) -> Sample:
    deleted = [row for row in opened.records if row["_CHANGE_TYPE"] == "DELETE"]
    keys = [name for name in columns if deleted and all(row.get(name) for row in deleted)]
    keys = keys if 0 < len(keys) < len(columns) else _probable_keys(columns)
    return Sample("bigquery", opened.format, None, keys, columns, {})


def _rows(opened: SampleFile, columns: dict[str, str]) -> Sample:
    rows = opened.records
    full = [name for name in columns if all(row.get(name) is not None for row in rows)]
    keys = _probable_keys(full or columns)
    kinds = {name: _type_of_order(rows, name, columns) for name in full if name not in keys}
    orders = [n for is_order in _ORDERS for n, kind in kinds.items() if is_order(n, kind)]
    order = [*orders, *keys][0]
    columns[order] = kinds.get(order, columns[order])
    return Sample("rows", opened.format, None, keys, columns, {}, order, _deletes(rows))


def _type_of_order(rows: Sequence[Object], name: str, columns: Mapping[str, str]) -> str:
    """The type of a column that orders changes: texts of dates or times alone are such."""
    if columns[name] != "string" or not all(DAY.match(str(row[name])) for row in rows):
        return columns[name]
    for kind, parse in (("date", date.fromisoformat), ("timestamp", datetime.fromisoformat)):
        with suppress(ValueError):
            return min(kind for row in rows if parse(str(row[name]).replace("Z", "+00:00")))
    return "string"


def _deletes(rows: Sequence[Object]) -> str | None:
    """A condition for deletes, when a column looks like the operation's."""
    for name, row in itertools.product(OPERATION_NAMES, rows):
        word = row.get(name)
        if isinstance(word, str) and word.lower() in DELETE_WORDS:
            return f"{name} = '{word}'"
    return None


def _probable_keys(columns: Iterable[str]) -> list[str]:
    names = list(columns)
    return [name for name in names if name.lower() in ("id", "_id")][:1] or names[:1]


def _inferred(rows: Iterable[Object]) -> dict[str, str]:
    kinds = {name: inferred_type(seen, False) for name, seen in _see(rows).items()}
    return {name: kind.simpleString() for name, kind in kinds.items() if kind is not None}


def _see(rows: Iterable[Object]) -> dict[str, SeenValues]:
    """What the values of each column are, as the decoder sees them."""
    seen: dict[str, SeenValues] = {}
    for row in rows:
        for name, value in row.items():
            number = NumberText(repr(value)) if isinstance(value, float) else value
            seen.setdefault(name, SeenValues()).add(number)
    return seen


def _looks(rows: Sequence[Object], names: Iterable[str]) -> dict[str, tuple[str, str]]:
    """What the values of some columns seem to encode; columns of plain values are left out."""
    found: dict[str, tuple[str, str]] = {}
    for name in names:
        values = [row[name] for row in rows if row.get(name) is not None]
        like = None
        if values and all(type(value) is int for value in values):
            like = encoded_numbers(name, min(values), max(values))
        elif values and all(isinstance(value, str) for value in values):
            like = encoded_texts(min(values), max(values))
        if like is not None:
            found[name] = like
    return found


def _mixed(rows: Iterable[Object]) -> list[str]:
    """Columns whose values only a text holds together; undeclared they would be refused."""
    return [
        name
        for name, seen in _see(rows).items()
        if len(seen.kinds) > 1 and isinstance(inferred_type(seen), T.StringType)
    ]


def _of_topic(
    file: Path, records: Sequence[Object], table: str
) -> tuple[Sequence[Object], str | None]:
    """The records of the table's own topic, where the file carries several."""
    topics = {str(r["topic"]): None for r in records if is_whole(r) and r.get("topic")}
    mine = [t for t in topics if t.rpartition(".")[2].lower() == table.lower()] or list(topics)
    if len(mine) > 1:
        expected = f"one topic, or one ending in .{table}"
        action = "name a table after one of the topics, or none for the tables of all"
        raise unusable(file, f"topics {', '.join(mine)}", expected, action)
    if not mine:
        return records, None
    return [record for record in records if record.get("topic") == mine[0]], mine[0]


def _declared_by_all(records: Iterable[Object]) -> dict[str, str]:
    """Column types from all schema blocks; a column of several types has one that holds them."""
    found: dict[str, set[str]] = {}
    for record in records:
        for name, kind in _declared(value_in(record)).items():
            found.setdefault(name, set()).add(kind)
    return {name: common_type(kinds) for name, kinds in found.items()}


def _declared(value: object) -> dict[str, str]:
    """Column types from the schema block around a Debezium value, if there is one."""
    wrapper = value if isinstance(value, dict) else {}
    fields = (wrapper.get("schema") or {}).get("fields") or []
    after = [field["fields"] for field in fields if field.get("field") == "after"]
    types = {field["field"]: from_block(field).type for columns in after for field in columns}
    return {name: kind.simpleString() for name, kind in types.items()}


def _change(record: Object) -> Object:
    value = plain_value(value_in(record))
    return value if isinstance(value, dict) else {}


def _has_values(record: Object) -> bool:
    """Whether a record has a value that can be a column's, or tells a key."""
    values = {n: v for n, v in _change(record).items() if v is not None}
    return any(not name.startswith("_") or name == "_CHANGE_TYPE" for name in values)
