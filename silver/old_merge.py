"""The rows of a compacted batch joined with what the current table holds of their keys.

Per key and column the newest value wins. A rule below is only a short cut through that one law: a
batch row that is whole and newer than all the table knows of the key is taken as it is; a row that
is older than all of it changes nothing; anything between is joined column by column.

They are joined before the MERGE INTO, not in it: a MERGE shuffles all rows of the table with the
columns that its clauses name. This one names none but the keys, and replaces whole rows.
"""

from collections.abc import Mapping
from types import MappingProxyType
from typing import NamedTuple

from lakehouse import names
from silver.row_columns import own_stamp
from silver.statements import inserting, updating

_META = (
    "_stamp", "_deleted", "_upsert_stamp", "_deleted_stamp", "_column_stamps", "_partial",
    "_digest", "_source_time", "_position", "_class",
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


class Rule(NamedTuple):
    """When a row of the batch `s` meets a row of the table `t`, and what comes out: SQL."""

    when: str
    values: Mapping[str, str]


def rules(
    columns: list[str], partial: bool, late: Mapping[str, int] = MappingProxyType({})
) -> list[Rule]:
    """The rules for rows of changes that the table may have seen younger ones of.

    Args:
        columns: the business columns but the keys.
        partial: whether a row of the batch or of the table may have column stamps of its own.
        late: columns that rows written before a batch did not carry, with that batch.
    """
    found = [_taken(columns, partial), _deleted(columns, partial), _revived(columns, partial)]
    return [*found, _joined(columns, late)] if partial else found


def of_whole_keys(columns: list[str]) -> list[Rule]:
    """The rule for rows that hold all there is of their keys.

    A row that comes out as it was is not written: what a row holds follows from its stamps.
    """
    stamps = ("_stamp", "_upsert_stamp", "_deleted_stamp", "_digest")
    same = [f"s.{name} <=> t.{name}" for name in stamps]
    same.append("map_entries(s._column_stamps) <=> map_entries(t._column_stamps)")
    kind = f"CASE WHEN s._stamp > t._stamp THEN {_CLASS} ELSE 'late' END"
    changed = _meta(_class=kind, _deleted_stamp="s._deleted_stamp")
    return [Rule(f"NOT ({' AND '.join(same)})", _of("s", columns) | changed)]


def merge_sql(target: str, keys: list[str], columns: list[str], floor: str | None) -> str:
    """The MERGE INTO text that writes joined rows; the source is the placeholder `{rows}`.

    `floor` is the stamp of a truncate that comes in force with them: every older row goes.
    """
    on = " AND ".join(f"t.{names.quote(k)} = s.{names.quote(k)}" for k in keys)
    others = (*columns, *_META, "_batch")
    text = (
        f"MERGE INTO {target} t USING {{rows}} s ON {on} WHEN MATCHED THEN {updating(others)}"
        f" WHEN NOT MATCHED THEN {inserting((*keys, *others))}"
    )
    if floor is None:
        return text
    older = f"t._stamp < {names.literal(floor)}"
    return f"{text} WHEN NOT MATCHED BY SOURCE AND {older} THEN DELETE"


def _of(side: str, columns: list[str]) -> dict[str, str]:
    return {c: f"{side}.{names.quote(c)}" for c in columns}


def _meta(**changed: str) -> dict[str, str]:
    greatest = "greatest(s._deleted_stamp, t._deleted_stamp)"
    return _of("s", list(_META)) | {"_deleted_stamp": greatest, "_class": _CLASS} | changed


def _whole(partial: bool) -> str:
    return " AND s._column_stamps IS NULL" if partial else ""


def _taken(columns: list[str], partial: bool) -> Rule:
    """A whole, live, newer row."""
    return Rule(f"{_NEWER} AND NOT s._deleted{_whole(partial)}", _of("s", columns) | _meta())


def _deleted(columns: list[str], partial: bool) -> Rule:
    """A newer delete without an upsert newer than the table's, be it delivered once more.

    The values stay under the tombstone.
    """
    older = f"{_place('s._upsert_stamp')} <= {_place('t._upsert_stamp')}"
    alone = (
        f" AND (s._upsert_stamp IS NULL OR ({older} AND t._column_stamps IS NULL))"
        if partial
        else f" AND {older}"
    )
    kept = _of("t", [*columns, "_upsert_stamp", "_column_stamps", "_partial"])
    return Rule(f"{_NEWER} AND s._deleted{alone}", _meta() | kept)


def _revived(columns: list[str], partial: bool) -> Rule:
    """A tombstone whose last known values get newer: they are what a key change takes along.

    Holds for a newer delete that came with newer values, and for late values under an older row.
    """
    newest = "s._stamp > t._stamp"
    kind = f"CASE WHEN {newest} THEN {_CLASS} ELSE 'superseded' END"
    newer = f"{_place('s._upsert_stamp')} > {_place('t._upsert_stamp')}"
    dead = f"(t._deleted OR s._deleted){_whole(partial)}"
    values = _of("s", columns) | _meta(**_newest_of(newest)) | {"_class": kind}
    return Rule(f"{newer} AND {dead}", values)


def _newest_of(newest: str) -> dict[str, str]:
    """SQL for what a row holds of its newest change."""
    of_newest = ("_stamp", "_deleted", "_digest", "_source_time", "_position")
    return {name: f"CASE WHEN {newest} THEN s.{name} ELSE t.{name} END" for name in of_newest}


def _joined(columns: list[str], late: Mapping[str, int]) -> Rule:
    """The general rule, column by column, where the batch's row adds anything to the table's."""
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
    meta = _newest_of(newest) | {
        "_upsert_stamp": upsert,
        "_deleted_stamp": deleted,
        "_column_stamps": own,
        "_partial": f"size({kept}) > 0",
        "_class": f"CASE WHEN {newest} THEN {_CLASS} ELSE 'late' END",
    }
    newer = [f"{_place(ours[c])} > {_place(theirs[c])}" for c in columns]
    forgets = f"(t._partial AND {_place('s._deleted_stamp')} > {_place('t._deleted_stamp')})"
    return Rule(f"({' OR '.join([_NEWER, forgets, *newer])})", values | meta)


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


def first_class(side: str = "") -> str:
    """SQL for what a batch does to a key that the table does not hold."""
    unknown = f"CASE WHEN {side}_upsert_stamp IS NULL THEN 'delete_unknown' ELSE 'deleted' END"
    return f"CASE WHEN {side}_deleted THEN {unknown} ELSE 'inserted' END"
