"""Rows of a slice in groups that have the same members, so that each column is read at once."""

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from functools import lru_cache
from operator import itemgetter
from typing import Any, NamedTuple, TypeVar

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from silver.decode.change import Record
from silver.decode.protocols.objects import Fault
from silver.decode.shapes import Parsed, RowShape, can_be_fields, parse_alike, parser_of_shape
from silver.decode.slices import ReadPart, Slice
from silver.decode.values.json_values import NumberText, valid_text

UTC = pa.timestamp("us", tz="UTC")
SAMPLE = 16
"""So many rows at the start of a slice have the same members where structs are made for them."""
_form_of = lru_cache(maxsize=64)(RowShape)
_parse = msgspec.json.Decoder(dict[str, object], float_hook=NumberText).decode

Row = Mapping[str, object]
_Opened = TypeVar("_Opened")


class RowTraits(NamedTuple):
    """What the rows of a group have in common beside their members.

    Attributes:
        complete: whether a column that is no member is null, and not absent.
        block: the text of the schema block that the rows came with; None without one.
        left_out: members whose values the source left out.
    """

    complete: bool = False
    block: bytes | None = None
    left_out: frozenset[str] = frozenset()


PLAIN = RowTraits()


class RowGroup(NamedTuple):
    """Rows with the same members: the indices of their records, and the values of each member."""

    indices: list[int]
    members: Mapping[str, Sequence[Any]]
    kind: RowTraits = PLAIN


class FlatRow(NamedTuple):
    """One row: its members by names as the columns are spelled."""

    members: Row
    kind: RowTraits = PLAIN


class OpenedSlice(NamedTuple):
    """The rows of a slice of so many records, and by their indices why others are none.

    Others have a fault, or None where they say nothing.
    """

    size: int
    groups: list[RowGroup]
    others: dict[int, Fault | None]

    def values(self, name: str) -> Sequence[Any]:
        """The values of a member by index; None in records without it."""
        if len(self.groups) == 1 and not self.others:
            return self.groups[0].members.get(name) or [None] * self.size
        values: list[Any] = [None] * self.size
        for group in self.groups:
            for at, value in zip(group.indices, group.members.get(name, ()), strict=False):
                values[at] = value
        return values


def parse_objects(records: Slice, indices: list[int]) -> Parsed:
    """The JSON objects that records at these indices are; others are left out."""
    return parse_alike(_parse, records.column("_raw"), indices)


def parse_rows(
    records: Slice,
    indices: list[int],
    doubles: Collection[str],
    may_differ: Callable[[Sequence[str]], bool],
) -> list[RowGroup]:
    """The rows that records at these indices are; those like the first in structs made for them.

    Members in `doubles` may be floats. As in `group_rows`, `may_differ` is of the members' order.
    """
    groups: list[RowGroup] = []
    firsts = parse_objects(records, indices[:SAMPLE]).values
    names = tuple(firsts[0]) if len(firsts) == SAMPLE else ()
    is_usual = names and all(row.keys() == firsts[0].keys() for row in firsts)
    if is_usual and can_be_fields(names) and may_differ(names):
        form = _form_of(names, frozenset(doubles).intersection(names))
        alike = parse_alike(parser_of_shape(form.struct), records.column("_raw"), indices)
        if alike.places:
            members = dict(zip(names, form.columns(alike.values), strict=True))
            groups.append(RowGroup(alike.places, members))
        taken = {*alike.places}
        indices = [at for at in indices if at not in taken]
    return [*groups, *group_rows(parse_objects(records, indices), may_differ=may_differ)]


def open_others(
    records: Slice, taken: Sequence[int], open_record: Callable[[Record], _Opened]
) -> Iterator[tuple[int, _Opened]]:
    """What the records are that are not taken yet, with their indices."""
    count, done = records.part.num_rows, {*taken}
    indices = [at for at in range(count) if at not in done] if len(done) < count else []
    if indices:
        yield from zip(indices, map(open_record, records.records(indices)), strict=True)


def group_rows(
    parsed: Parsed,
    kind: RowTraits = PLAIN,
    may_differ: Callable[[Sequence[str]], bool] = lambda _: True,
) -> Iterator[RowGroup]:
    """Rows in groups with the same members; `may_differ` says of names whether their order may."""
    indices, rows = parsed
    names = [*rows[0]] if rows else []
    if names and {*map(len, rows)} == {len(names)} and may_differ(names):
        try:
            members = {name: [*map(itemgetter(name), rows)] for name in names}
        except KeyError:
            pass
        else:
            yield RowGroup(indices, members, kind)
            return
    alike: dict[tuple[str, ...], list[int]] = {}
    for nth, row in enumerate(rows):
        alike.setdefault(tuple(row), []).append(nth)
    for each, nths in alike.items():
        values = zip(*[rows[nth].values() for nth in nths], strict=True)
        yield RowGroup([indices[nth] for nth in nths], dict(zip(each, values, strict=True)), kind)


def read_part(
    records: Slice,
    columns: dict[str, pa.Array],
    operations: Sequence[str | None],
    faults: Mapping[int, Fault | None],
    mismatched: Collection[int],
) -> ReadPart:
    """The changes of all records of a slice: `columns` with the layer's own.

    A change with a fault is a dead letter. Without other times, changes have those of their
    records: a record's own, else that of its arrival.
    """
    count = records.part.num_rows
    if "_source_time" not in columns:
        columns["_source_time"] = record_times(records).cast(UTC)
    dead = {at: fault for at, fault in faults.items() if fault is not None}
    if dead:
        letters = [dead.get(at, (None, "")) for at in range(count)]
        columns["_reason"] = pa.array([reason for reason, _ in letters], pa.string())
        texts = [valid_text(text) if reason else None for reason, text in letters]
        columns["_message"] = pa.array(texts, pa.string())
    columns["_operation"] = pa.array(operations, pa.string())
    if mismatched:
        shown = [at in mismatched or None for at in range(count)]
        columns["_mismatched"] = pa.array(shown, pa.bool_())
    return ReadPart([*range(count)], columns)


def record_times(records: Slice) -> pa.Array:
    """The time of each record in microseconds: its own, else that of its arrival."""
    return pc.coalesce(records.part.column("_timestamp"), records.part.column("_arrived_at"))
