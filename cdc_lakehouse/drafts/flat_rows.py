"""What plain rows show of their table: changes that a column orders, or a daily snapshot."""

import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from datetime import date
from itertools import chain, combinations
from pathlib import Path
from typing import NamedTuple

from cdc_lakehouse.drafts.column_folders import find_own_folder
from cdc_lakehouse.drafts.delete_signs import DeleteSign, find_delete_signs
from cdc_lakehouse.drafts.sample_files import (
    Object,
    Sample,
    SampleFile,
    are_days_first,
    csv_types,
    find_number_options,
    find_thousands,
    sample_error,
    text_type,
    type_of_order,
)
from lakehouse.words import render_count
from silver.decode.values.inference import SeenValues, infer_type
from silver.decode.values.json_values import NumberText

_ORDERABLE = ("date", "timestamp", "smallint", "int", "bigint", "string", "decimal", "double")
_ORDERS = (
    r"(seq|sequence|version|revision|rev|lsn|scn|csn)(_?(no|nr|num|number|id))?",
    r"(updated|modified|changed|(last|row)_?(update|change|modification))(_?(at|on|ts|time|date|ms))*",
    r"(event|commit|change|update|op|source|cdc)_?(time|ts|date)(_(ms|us|ns))?",
    r"(ts|timestamp)(_(ms|us|ns))?",
)
_ORDER = re.compile(rf"(^|_)({'|'.join(_ORDERS)})$")
_CAMEL = re.compile(r"(?<=[a-z])(?=[A-Z])")
_KEY = re.compile(r"(^|_)(id|key|code|sku|no|nr|number|uuid|guid|ean|isbn)$")
_NO_KEYS = ("double", "decimal", "boolean", "date", "timestamp", "array")
_MOST_PARTS = 6
_MOST_SHOWN = 3
_WORDS_FOR_NULL = {"NULL", "null", "\\N", "(null)", "None", "NaN", "N/A", "n/a", "NA", "#N/A"}
_ZONE = re.compile(r":\d\d\S*(Z|[+-]\d\d(:?\d\d)?)$")
DMS_OPERATION = "Op"
_DMS_ORDER = "LOAD files have the time of transfer, later than changes during the load"
GUESSED_KEYS = {"keys": "by names and values, as the records have no key of their own"}
_DATED = re.compile(r"(?<!\d)(\d{4})[-_]?(\d{2})[-_]?(\d{2})(?!\d)")


class SeenOrder(NamedTuple):
    """A column whose name says that it orders a key's changes; its type, and what to check of it.

    The type is empty where its values cannot order.
    """

    column: str
    type: str
    note: str = ""


def day_of_name(name: str) -> str | None:
    """The last date in the name of a file or folder, as YYYY-MM-DD."""
    for match in reversed([*_DATED.finditer(name)]):
        day = "-".join(match.groups())
        with suppress(ValueError):
            if date.fromisoformat(day).year >= 1970:
                return day
    return None


def without_day(name: str) -> str:
    """The name without its day and what joins the two."""
    return _DATED.sub("", name).strip("-_. ") if day_of_name(name) else name


def is_day_folder(folder: Path) -> bool:
    """Whether a folder is that of a day, as snapshot files have: YYYY-MM-DD."""
    return len(folder.name) == 10 and day_of_name(folder.name) == folder.name


def sample_rows(parts: Sequence[SampleFile], files: Sequence[Path]) -> Sample:
    """What rows of the files show: BigQuery's changes, plain changes, or a snapshot.

    They are a snapshot where their folder is that of a day, or where no column orders them or says
    which are deletes, and each file has each key once.
    """
    rows, form = [row for part in parts for row in part.records], parts[0].format
    csv, notes = _read_csv_options(parts, rows) if form == "csv" else ({}, dict[str, str]())
    types = csv_types(rows, csv) if form == "csv" else parts[0].types
    kinds = {**infer_types(rows), **types}
    columns = {name: kind for name, kind in kinds.items() if not name.startswith("_")}
    if not columns:
        raise sample_error(files[0], "rows without a column", "records with rows")
    if any("_CHANGE_TYPE" in row for row in rows):
        return _sample_bigquery(rows, columns)._replace(file_format=form)
    if form == "csv":
        notes |= _note_texts(rows, columns)
        notes |= {} if csv.get("thousands") else _note_thousands(rows, columns)
    keys, order = find_keys(parts[0].records, columns), _find_order(rows, columns)
    sign, asked = find_delete_signs(rows)
    are_of_day = any(is_day_folder(find_own_folder(file)) for file in files)
    are_whole = not (order or sign) and all(is_unique(part.records, keys) for part in parts)
    if are_of_day or are_whole:
        asked |= {sign.column: f"says that {sign.note}"} if sign and sign.deletes else {}
        notes |= note_keys(parts[0].records, keys, [])
        sample = Sample("snapshot", form, None, keys, columns, {})
    else:
        sample = _sample_changes(rows, columns, order, sign)._replace(file_format=form)
    _make_keys_whole(columns, sample.keys, rows)
    notes |= {**sample.notes, **{f"deletes.{name}": note for name, note in asked.items()}}
    return sample._replace(notes=notes, csv=csv)


def _read_csv_options(
    parts: Sequence[SampleFile], rows: Sequence[Object]
) -> tuple[dict[str, str], dict[str, str]]:
    """The options of `source.csv` that the files need, and what to check of them."""
    csv = {name: text for part in parts for name, text in part.csv.items()}
    letters = "the file is no UTF-8: compare letters" if csv else ""
    numbers, number = find_number_options(rows)
    said = "; ".join(filter(None, [letters, number]))
    notes = {"csv": said} if said else {}
    doubts = [part.doubt for part in parts if part.doubt]
    notes |= {"header": doubts[0]} if doubts else {}
    return csv | numbers, notes


def _note_thousands(rows: Sequence[Object], columns: Mapping[str, str]) -> dict[str, str]:
    """What to check of columns whose numbers may have dots between thousands."""
    notes = {}
    for name in columns:
        number = find_thousands([row[name] for row in rows if isinstance(row.get(name), str)])
        if number is not None:
            notes[f"columns.{name}"] = f"{number} may be {number.replace('.', '')}"
    return notes


def _note_texts(rows: Sequence[Object], columns: Mapping[str, str]) -> dict[str, str]:
    """What to check of columns of text: words for nothing, or a few words among other values."""
    notes = {}
    for name in (name for name, kind in columns.items() if kind == "string"):
        texts = [row[name] for row in rows if isinstance(row.get(name), str)]
        odd = Counter(text for text in texts if text_type([text]) == "string")
        if nothing := min(_WORDS_FOR_NULL & odd.keys(), default=""):
            notes[f"columns.{name}"] = f"{nothing!r} is a text; source.csv.nullValue makes it null"
        elif 0 < len(odd) <= _MOST_SHOWN and odd.total() < len(texts) / 2:
            notes[f"columns.{name}"] = f"text because of {', '.join(map(repr, odd))}"
    return notes


def _sample_bigquery(rows: Sequence[Object], columns: dict[str, str]) -> Sample:
    deleted = [row for row in rows if row.get("_CHANGE_TYPE") == "DELETE"]
    keys = list_full(columns, deleted) if deleted else []
    keys = keys if 0 < len(keys) < len(columns) else find_keys(rows, columns)
    return Sample("bigquery", "json", None, keys, columns, {})


def _sample_changes(
    rows: Sequence[Object],
    columns: dict[str, str],
    order: SeenOrder | None,
    sign: DeleteSign | None,
) -> Sample:
    of_change = (order and order.column, sign and sign.column)
    values = {n: kind for n, kind in columns.items() if n not in of_change} or columns
    different = [*{repr(row): row for row in rows}.values()]
    by = order.column if order and order.type else None
    keys, notes = find_keys(different, values, [by] if by else []), dict[str, str]()
    if order is not None:
        columns[order.column] = order.type or "string"
        notes = {"sequence_by": order.note} if order.note else {}
    notes |= note_keys(different, keys, [by] if by else [])
    if sign is not None and sign.type and columns.get(sign.column) in (None, "string"):
        columns[sign.column] = sign.type
    if sign is not None and sign.column == DMS_OPERATION and _are_of_dms(rows):
        columns.pop(DMS_OPERATION, None)
        cast = by and f"cast({by} AS {columns[by]})"
        said = [notes.get("sequence_by"), _DMS_ORDER]
        notes |= {"sequence_by": "; ".join(filter(None, said))} if by else {}
        return Sample("dms", "json", None, keys, columns, {}, cast, notes=notes)
    return Sample("rows", "json", None, keys, columns, {}, by, sign, notes=notes)


def _find_order(rows: Sequence[Object], columns: Mapping[str, str]) -> SeenOrder | None:
    """The column whose name says that it orders a key's changes.

    One whose values can, and one that is null in no row, count more than others.
    """
    seen = [
        _read_order(name, columns[name], rows)
        for name in dict.fromkeys([*list_full(columns, rows), *columns])
        if columns[name].startswith(_ORDERABLE) and _ORDER.search(_CAMEL.sub("_", name).lower())
    ]
    return next((order for order in seen if order.type), seen[0] if seen else None)


def _read_order(name: str, kind: str, rows: Sequence[Object]) -> SeenOrder:
    texts = [str(row[name]) for row in rows if row.get(name) is not None]
    lack = "no whole numbers or ISO times"
    if are_days_first(texts):
        kind, lack = "", "days that are no order as they begin with no year"
    elif kind == "string":
        kind = type_of_order(texts)
    elif kind == "double" or (kind.startswith("decimal") and not kind.endswith(",0)")):
        kind = ""
    if not kind:
        shown = ", ".join([*dict.fromkeys(texts)][:_MOST_SHOWN])
        return SeenOrder(name, "", f"{name} has {shown}, {lack}")
    zones = {bool(_ZONE.search(text)) for text in texts}
    notes = {
        "null in some rows, which become dead letters": len(texts) < len(rows),
        "times without a zone count as UTC": kind == "timestamp" and len(zones) > 1,
        "changes of one day are a tie": kind == "date",
        "10 and 13 digits, as seconds and milliseconds have": kind == "bigint"
        and {10, 13} <= {*map(len, texts)},
        "the same in all rows, as where a file is a whole table": len(texts) > 1
        and len({*texts}) == 1,
    }
    return SeenOrder(name, kind, "; ".join(note for note, is_so in notes.items() if is_so))


def _are_of_dms(rows: Sequence[Object]) -> bool:
    """Whether rows have the operations of AWS DMS's files, with the letters that it writes."""
    return {row.get(DMS_OPERATION) for row in rows} <= {"I", "U", "D"}


def find_keys(
    rows: Sequence[Object], columns: Mapping[str, str], order: Sequence[str] = ()
) -> list[str]:
    """The columns that probably are the key: with `order` they identify every row.

    Columns that are null in some row, or have a type that keys do not have, count only if there are
    no others, or by their name: `id`, or in the first place one such as `sku`. `id` is tried first,
    then names such as `sku` and `order_number`, then the first column, then pairs of these; beside
    `id` and `order` no column is one of a pair that is not named so.
    """
    full = list_full(columns, rows)
    possible = [n for n in full if not columns[n].startswith(_NO_KEYS)] or full or list(columns)
    best = min(columns, key=_rank_name, default="")
    is_id = _rank_name(best) == 0
    if best not in possible and _rank_name(best) < (2 if best == next(iter(columns), "") else 1):
        return [best]
    ranked = sorted(possible, key=_rank_name)
    likely = [n for n in ranked if _rank_name(n) < 2 or n == possible[0]][:_MOST_PARTS]
    in_pairs = dict.fromkeys([*likely, *([] if order and is_id else possible[:2])])
    for keys in chain(combinations(likely, 1), combinations(in_pairs, 2)):
        if is_unique(rows, [*keys, *order]):
            return list(keys)
    return likely[:1]


def note_keys(rows: Sequence[Object], keys: Sequence[str], order: Sequence[str]) -> dict[str, str]:
    """What to check of guessed keys: nulls, rows of one key, and what they were guessed by."""
    nulls = sum(any(row.get(name) is None for name in keys) for row in rows)
    if nulls:
        become = "which becomes a dead letter" if nulls == 1 else "which become dead letters"
        return {"keys": f"null in {render_count(nulls, 'row')}, {become}"}
    if not is_unique(rows, [*keys, *order]):
        return {"keys": f"different rows have the same {' and '.join([*keys, *order])}"}
    if len(keys) > 1:
        return {"keys": f"{keys[0]} alone is not unique"}
    [key], seen = keys, Counter(str(row.get(keys[0])) for row in rows)
    shared = sum(count for count in seen.values() if count > 1)
    notes = ["by its values, not by its name"] if _rank_name(key) > 1 else []
    notes += [f"{shared} of {len(rows)} rows have the {key} of another"] if shared else []
    notes += [f"{name} has a null" for name in _list_passed_over(rows, key, order)]
    return {"keys": "; ".join(notes)} if notes else {}


def _list_passed_over(rows: Sequence[Object], key: str, order: Sequence[str]) -> list[str]:
    """The columns that by name would be the key as well, and identify each row that has them."""
    names = dict.fromkeys(name for row in rows for name in row if name != key)
    named = [name for name in names if _rank_name(name) < _rank_name(key)]
    filled = {name: [row for row in rows if row.get(name) is not None] for name in named}
    return [n for n, some in filled.items()
            if 0 < len(some) < len(rows) and is_unique(some, [n, *order])]  # fmt: skip


def _make_keys_whole(columns: dict[str, str], keys: Sequence[str], rows: Sequence[Object]) -> None:
    """Gives keys such as 1.0, which programs make of numbers beside nulls, the type of 1."""
    for name in keys:
        values = (row[name] for row in rows if row.get(name) is not None)
        if columns[name].startswith(("double", "decimal")):
            with suppress(ValueError):
                if all(float(value).is_integer() for value in values):
                    columns[name] = "bigint"


def list_full(names: Iterable[str], rows: Sequence[Object]) -> list[str]:
    """Those of some columns that are null in no row."""
    return [name for name in names if all(row.get(name) is not None for row in rows)]


def _rank_name(name: str) -> int:
    if name.lower() in ("id", "_id"):
        return 0
    return 1 if _KEY.search(_CAMEL.sub("_", name).lower()) else 2


def is_unique(rows: Sequence[Object], names: Sequence[str]) -> bool:
    """Whether no two rows have the same values of these columns."""
    seen = [tuple(str(row.get(name)) for name in names) for row in rows]
    return len({*seen}) == len(seen)


def infer_types(rows: Iterable[Object]) -> dict[str, str]:
    """The type of each column by its values, as the decoder sees them; none of nulls alone."""
    kinds = {name: infer_type(seen, False) for name, seen in see_values(rows).items()}
    return {name: kind.simpleString() for name, kind in kinds.items() if kind is not None}


def see_values(rows: Iterable[Object]) -> dict[str, SeenValues]:
    """What the values of each column are, as the decoder sees them."""
    seen: dict[str, SeenValues] = {}
    for row in rows:
        for name, value in row.items():
            number = NumberText(repr(value)) if isinstance(value, float) else value
            seen.setdefault(name, SeenValues()).add(number)
    return seen
