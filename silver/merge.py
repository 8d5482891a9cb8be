"""The text of the MERGE that joins a compacted batch into the current table.

Per key and column the newest value wins, so a clause is only a short cut through that one rule: a
batch row that is whole and newer than all the table knows of the key is taken as it is; a row that
is older than all of it changes nothing; anything between is joined column by column.
"""

from collections.abc import Mapping
from types import MappingProxyType

from lakehouse import names
from silver.compact import own_stamp

_META = (
    "_stamp", "_deleted", "_upsert_stamp", "_deleted_stamp", "_column_stamps", "_partial",
    "_digest", "_source_time", "_position", "_batch", "_class",
)  # fmt: skip
_EQUAL_PLACE = (
    "s._digest = t._digest AND s._deleted = t._deleted"
    " AND substring_index(s._stamp, ' ', 1) = substring_index(t._stamp, ' ', 1)"
)
_NEWER = f"s._stamp > t._stamp AND NOT ({_EQUAL_PLACE})"
_CLASS = (
    "CASE WHEN s._deleted THEN CASE WHEN t._deleted AND coalesce(s._upsert_stamp, '') < t._stamp"
    " THEN 'delete_unknown' ELSE 'deleted' END"
    " WHEN t._deleted THEN 'inserted' ELSE 'updated' END"
)


def merge_sql(
    target: str,
    keys: list[str],
    columns: list[str],
    partial: bool,
    floor: str | None,
    late: Mapping[str, int] = MappingProxyType({}),
) -> str:
    """The MERGE INTO text; the source is the placeholder `{rows}`, whose `_batch` is kept.

    Args:
        target: SQL name of the current table.
        keys: key columns.
        columns: other business columns.
        partial: whether a row of the batch or of the table may have column stamps of its own.
        floor: stamp of a truncate that comes in force with this batch; every row older than it
            goes.
        late: columns that rows written before a batch did not carry, with that batch.
    """
    on = " AND ".join(f"t.{names.quote(k)} = s.{names.quote(k)}" for k in keys)
    clauses = [
        _taken(columns, partial),
        _deleted(partial),
        _revived(columns, partial),
    ]
    if partial:
        clauses.append(_joined(columns, late))
    clauses.append(_inserted(keys, columns))
    if floor is not None:
        older = f"t._stamp < {names.literal(floor)}"
        clauses.append(f"WHEN NOT MATCHED BY SOURCE AND {older} THEN DELETE")
    return f"MERGE INTO {target} t USING {{rows}} s ON {on} {' '.join(clauses)}"


def _assign(values: dict[str, str]) -> str:
    return ", ".join(f"t.{names.quote(column)} = {value}" for column, value in values.items())


def _meta(**changed: str) -> dict[str, str]:
    values = {name: f"s.{name}" for name in _META}
    greatest = "greatest(s._deleted_stamp, t._deleted_stamp)"
    return values | {"_deleted_stamp": greatest, "_class": _CLASS} | changed


def _whole(partial: bool) -> str:
    return " AND s._column_stamps IS NULL" if partial else ""


def _taken(columns: list[str], partial: bool) -> str:
    """A whole, live, newer row."""
    values = {c: f"s.{names.quote(c)}" for c in columns} | _meta()
    newer = f"{_NEWER} AND NOT s._deleted{_whole(partial)}"
    return f"WHEN MATCHED AND {newer} THEN UPDATE SET {_assign(values)}"


def _deleted(partial: bool) -> str:
    """A newer delete without an upsert newer than the table's, be it delivered once more.

    The values stay under the tombstone.
    """
    kept = {name: f"t.{name}" for name in ("_upsert_stamp", "_column_stamps", "_partial")}
    older = f"{_place('s._upsert_stamp')} <= {_place('t._upsert_stamp')}"
    alone = (
        f" AND (s._upsert_stamp IS NULL OR ({older} AND t._column_stamps IS NULL))"
        if partial
        else f" AND {older}"
    )
    sets = _assign(_meta(**kept))
    return f"WHEN MATCHED AND {_NEWER} AND s._deleted{alone} THEN UPDATE SET {sets}"


def _revived(columns: list[str], partial: bool) -> str:
    """A tombstone whose last known values get newer: they are what a key change takes along.

    Holds for a newer delete that came with newer values, and for late values under an older row.
    """
    values = {c: f"s.{names.quote(c)}" for c in columns}
    newest = "s._stamp > t._stamp"
    kept = {
        name: f"CASE WHEN {newest} THEN s.{name} ELSE t.{name} END"
        for name in ("_stamp", "_deleted", "_digest", "_source_time", "_position")
    }
    kept["_class"] = f"CASE WHEN {newest} THEN {_CLASS} ELSE 'superseded' END"
    newer = f"{_place('s._upsert_stamp')} > {_place('t._upsert_stamp')}"
    dead = f"(t._deleted OR s._deleted){_whole(partial)}"
    sets = _assign(values | _meta(**kept))
    return f"WHEN MATCHED AND {newer} AND {dead} THEN UPDATE SET {sets}"


def _joined(columns: list[str], late: Mapping[str, int]) -> str:
    """The general rule, column by column."""
    values, useful = join(columns, late)
    return f"WHEN MATCHED AND {useful} THEN UPDATE SET {_assign(values)}"


def join(columns: list[str], late: Mapping[str, int]) -> tuple[dict[str, str], str]:
    """SQL for each column of the join of a batch's row `s` with the table's row `t`.

    And for whether the batch's row adds anything to it.
    """
    ours = {c: own_stamp("s", c) for c in columns}
    theirs = {c: own_stamp("t", c, late.get(c)) for c in columns}
    upsert = "greatest(s._upsert_stamp, t._upsert_stamp)"
    deleted = "greatest(s._deleted_stamp, t._deleted_stamp)"
    live = f"coalesce({upsert}, '') > coalesce({deleted}, '')"
    newest = f"({_NEWER})"
    values = {c: _value(c, ours[c], theirs[c], live, deleted) for c in columns}
    stamps = ", ".join(
        _entry(c, f"greatest({ours[c]}, {theirs[c]})", live, upsert, deleted) for c in columns
    )
    kept = f"filter(array({stamps}), e -> e IS NOT NULL)"
    own = f"CASE WHEN size({kept}) > 0 THEN map_from_entries({kept}) END"
    meta = {
        name: f"CASE WHEN {newest} THEN s.{name} ELSE t.{name} END"
        for name in ("_stamp", "_deleted", "_digest", "_source_time", "_position")
    } | {
        "_upsert_stamp": upsert,
        "_deleted_stamp": deleted,
        "_column_stamps": own,
        "_partial": f"size({kept}) > 0",
        "_batch": "s._batch",
        "_class": f"CASE WHEN {newest} THEN {_CLASS} ELSE 'late' END",
    }
    newer = [f"{_place(ours[c])} > {_place(theirs[c])}" for c in columns]
    forgets = f"(t._partial AND {_place('s._deleted_stamp')} > {_place('t._deleted_stamp')})"
    return values | meta, f"({' OR '.join([_NEWER, forgets, *newer])})"


def _place(stamp: str) -> str:
    """SQL for the sequence in a stamp, so that a redelivery (same sequence.

    Later arrival) is not newer.
    """
    return f"substring_index(coalesce({stamp}, ''), ' ', 1)"


def _value(name: str, ours: str, theirs: str, live: str, deleted: str) -> str:
    column = names.quote(name)
    newest = f"CASE WHEN {ours} > {theirs} THEN s.{column} ELSE t.{column} END"
    forgotten = f"{live} AND greatest({ours}, {theirs}) < {deleted}"
    return f"CASE WHEN {forgotten} THEN NULL ELSE {newest} END"


def _entry(name: str, at: str, live: str, upsert: str, deleted: str) -> str:
    place = f"CASE WHEN {live} AND {at} < {deleted} THEN {deleted} ELSE {at} END"
    entry = f"struct({names.literal(name)} AS key, {place} AS value)"
    return f"CASE WHEN {place} <> {upsert} THEN {entry} END"


def _inserted(keys: list[str], columns: list[str]) -> str:
    values = {name: f"s.{names.quote(name)}" for name in (*keys, *columns)}
    values |= {name: f"s.{name}" for name in _META}
    values["_class"] = first_class("s.")
    listed = ", ".join(names.quote(c) for c in values)
    return f"WHEN NOT MATCHED THEN INSERT ({listed}) VALUES ({', '.join(values.values())})"


def replace_sql(target: str, keys: list[str], columns: list[str]) -> str:
    """The MERGE INTO text for rows that hold all there is of their keys; the source is `{rows}`.

    A row that comes out as it was is not written: what a row holds follows from its stamps.
    """
    on = " AND ".join(f"t.{names.quote(k)} = s.{names.quote(k)}" for k in keys)
    stamps = ("_stamp", "_upsert_stamp", "_deleted_stamp", "_digest")
    same = [f"s.{name} <=> t.{name}" for name in stamps]
    same.append("map_entries(s._column_stamps) <=> map_entries(t._column_stamps)")
    kind = f"CASE WHEN s._stamp > t._stamp THEN {_CLASS} ELSE 'late' END"
    changed = _meta(_class=kind, _deleted_stamp="s._deleted_stamp")
    sets = _assign({c: f"s.{names.quote(c)}" for c in columns} | changed)
    return (
        f"MERGE INTO {target} t USING {{rows}} s ON {on}"
        f" WHEN MATCHED AND NOT ({' AND '.join(same)}) THEN UPDATE SET {sets}"
        f" {_inserted(keys, columns)}"
    )


def first_class(side: str = "") -> str:
    """SQL for what a batch does to a key that the table does not hold."""
    unknown = f"CASE WHEN {side}_upsert_stamp IS NULL THEN 'delete_unknown' ELSE 'deleted' END"
    return f"CASE WHEN {side}_deleted THEN {unknown} ELSE 'inserted' END"
