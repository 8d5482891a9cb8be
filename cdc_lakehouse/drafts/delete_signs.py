"""Columns by which rows say that they are deletes: an operation, a flag, or a time."""

import re
from collections.abc import Mapping, Sequence
from typing import NamedTuple

_OPERATIONS = {"op", "operation", "changetype", "action", "dml", "dmltype", "cdcoperation"}
_FLAGS = {"deleted", "isdeleted", "isdelete", "softdeleted", "deletedflag", "deleteflag"}
_MOMENTS = {"deletedat", "deletedon", "deleteddate", "deletedtime", "deletedts", "deletiontime"}
"""Names in small letters alone: `_deleted`, `isDeleted` and `is_deleted` are found by them."""
_DELETES = {"delete", "d", "del", "remove"}
_OTHERS = {"insert", "i", "create", "c", "r", "update", "u", "upsert", "merge"}
_TRUE, _FALSE = {"true", "1", "y", "yes", "t"}, {"false", "0", "n", "no", "f"}


class DeleteSign(NamedTuple):
    """A column by which rows say that they are deletes.

    Attributes:
        column: its name.
        condition: SQL that is true on deletes.
        is_seen: whether a row of the sample is a delete.
        is_operation: whether the column has the operation of every row, and no fact of the row.
    """

    column: str
    condition: str
    is_seen: bool
    is_operation: bool = False


def find_delete_sign(rows: Sequence[Mapping[str, object]]) -> DeleteSign | None:
    """The first sign that the rows have; operations count more than flags, flags than times."""
    names = dict.fromkeys(name for row in rows for name in row)
    for names_of_kind, read in (
        (_OPERATIONS, _read_operation),
        (_FLAGS, _read_flag),
        (_MOMENTS, _read_moment),
    ):
        for name in names:
            if re.sub(r"[^a-z]", "", name.lower()) in names_of_kind:
                sign = read(name, [row[name] for row in rows if row.get(name) not in (None, "")])
                if sign is not None:
                    return sign
    return None


def _read_operation(name: str, values: Sequence[object]) -> DeleteSign | None:
    words = dict.fromkeys(map(str, values))
    if not words or not {word.lower() for word in words} <= _DELETES | _OTHERS:
        return None
    seen = [word for word in words if word.lower() in _DELETES]
    if not seen:
        like = next(iter(words))
        word = "d" if len(like) == 1 else "delete"
        seen = [word.upper() if like.isupper() else word]
        return DeleteSign(name, _compare(name, seen), False, True)
    return DeleteSign(name, _compare(name, seen), True, True)


def _read_flag(name: str, values: Sequence[object]) -> DeleteSign | None:
    words = dict.fromkeys(str(value) for value in values)
    if not words or not {word.lower() for word in words} <= _TRUE | _FALSE:
        return None
    seen = [word for word in words if word.lower() in _TRUE]
    if {word.lower() for word in words} <= {"true", "false"}:
        return DeleteSign(name, _to_sql_name(name), bool(seen))
    if words.keys() <= {"0", "1"}:
        return DeleteSign(name, f"{_to_sql_name(name)} = 1", bool(seen))
    return DeleteSign(name, _compare(name, seen or ["Y"]), bool(seen))


def _read_moment(name: str, values: Sequence[object]) -> DeleteSign:
    return DeleteSign(name, f"{_to_sql_name(name)} IS NOT NULL", bool(values))


def _compare(name: str, words: Sequence[str]) -> str:
    listed = ", ".join(f"'{word}'" for word in words)
    compared = f"= {listed}" if len(words) == 1 else f"IN ({listed})"
    return f"{_to_sql_name(name)} {compared}"


def _to_sql_name(name: str) -> str:
    return name if name.isidentifier() else f"`{name}`"
