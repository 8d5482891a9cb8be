"""A table that is folded batch by batch, as the plan in Spark does it, without Spark.

Changes are `tests.helpers.oracle.Event`s with the columns `a` and `b`; the table lies in a dict.
Every batch goes through `fold_batches` in record batches that are cut anywhere.
"""

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any

import msgspec
import pyarrow as pa

from silver.fold.arrow import FoldPlan, fold_batches
from silver.fold.order_key import make_order
from silver.fold.rules import Cutoff, FoldRules
from tests.helpers.oracle import Event

COLUMNS = ("a", "b")
SECOND = 1_000_000
BINARY, FLAG, TIME = pa.binary(), pa.bool_(), pa.timestamp("us", "UTC")
CHANGE = {
    "id": pa.int64(),
    "a": pa.string(),
    "b": pa.string(),
    "_order": BINARY,
    "_operation": pa.string(),
    "_absent": pa.list_(pa.string()),
    "_group_sequences": pa.map_(pa.string(), pa.string()),
    "_digest": pa.int64(),
    "_source_time": TIME,
    "_new": FLAG,
    "_stored": FLAG,
}
CURRENT = {
    "_deleted": FLAG,
    "_facts": pa.string(),
}
HISTORY = {
    "_next_order": BINARY,
    "_shown": FLAG,
    "_is_current": FLAG,
    "_time": TIME,
    "_valid_from": TIME,
    "_valid_to": TIME,
    "_from_order": BINARY,
    "_to_order": BINARY,
    "_life": BINARY,
    "_kept": FLAG,
}
Row = dict[str, Any]


@dataclass
class FoldLake:
    """A table and its change log.

    `every` says which rows of a history a batch reads: all of its keys', or (False) only those from
    the batch's oldest sequence on and the row before them. `cuts` draws the record batches, which
    have `most` rows at most.
    """

    history: bool = False
    grouped: tuple[str, ...] = ()
    tracked: tuple[str, ...] = COLUMNS
    from_log: bool = False
    keeps_deleted: bool = False
    every: bool = False
    cuts: Random = field(default_factory=lambda: Random(0))
    most: int = 4
    cutoffs: list[Cutoff] = field(default_factory=list)
    table: dict[Any, Row] = field(default_factory=dict)
    log: list[Row] = field(default_factory=list)

    def deliver(self, events: Iterable[tuple[Event, int]]) -> Counter[str]:
        """Folds a batch of events, each with its arrival; returns what became of them."""
        batch = [(event, arrival) for event, arrival in events]
        marks = [Cutoff(order_of(e, n), e.time * SECOND) for e, n in batch if is_truncate(e)]
        before = list(self.cutoffs)
        self.cutoffs = sorted({*before, *marks})
        changes = [change(event, n) for event, n in batch if not is_truncate(event)]
        counts = self.apply(changes, before != self.cutoffs)
        self.log += [row | {"_new": False} for row in changes]
        return counts

    def apply(self, changes: Sequence[Row], floor_is_new: bool = False) -> Counter[str]:
        """Folds changes and merges what comes out, as a MERGE does."""
        written, counts = split_counts(self.folded(changes, floor_is_new))
        kept = [row for row in written if row.get("_keeps_values") and not row["_deleted"]]
        assert (counts.pop("rows", 0), counts.pop("kept", 0)) == (len(written), len(kept))
        assert len({self.place(row) for row in written}) == len(written)
        for row in written:
            stored = self.table.get(self.place(row))
            if row.get("_keeps_values"):
                assert stored is not None
                assert [row[c] for c in COLUMNS] == [stored[c] for c in COLUMNS]
            self.table[self.place(row)] = row
        if not self.history and self.cutoffs:
            oldest = self.cutoffs[-1].order
            self.table = {k: r for k, r in self.table.items() if r["_order"] > oldest}
        return +counts

    def folded(self, changes: Sequence[Row], floor_is_new: bool = False) -> list[Row]:
        """The output rows of a fold, whatever is to be written of them."""
        rules = FoldRules(
            COLUMNS, self.grouped, self.tracked, tuple(self.cutoffs), self.from_log,
            self.keeps_deleted,
        )  # fmt: skip
        plan = FoldPlan(rules, ("id",), self.history)
        keys = {row["id"] for row in changes}
        if self.from_log and floor_is_new:
            keys |= {row["id"] for row in self.log}
        rows = [*changes, *self._stored(changes, keys, floor_is_new)]
        if self.from_log:
            new = {row["_order"] for row in changes}
            rows += [r for r in self.log if r["id"] in keys and r["_order"] not in new]
        schema = pa.schema(list((CHANGE | (HISTORY if self.history else CURRENT)).items()))
        ordered = sorted(rows, key=self._sorting)
        whole = pa.Table.from_pylist([_filled(row, schema) for row in ordered], schema)
        return [row for part in fold_batches(plan, self._cut(whole)) for row in as_rows(part)]

    def _stored(self, changes: Sequence[Row], keys: set[int], floor_is_new: bool) -> list[Row]:
        rows = list(self.table.values())
        if self.history:
            oldest = min((row["_order"] for row in changes), default=b"")
            whole = self.every or floor_is_new or self.from_log
            near = [r for r in rows if whole or (r["_next_order"] or b"\xff") >= oldest[:10]]
            return [r | MARKS for r in near if floor_is_new or r["id"] in keys]
        near = [r for r in rows if r["id"] in keys or (floor_is_new and r["_facts"])]
        return [r | MARKS for r in near]

    def _sorting(self, row: Row) -> Any:
        new, stored = row["_new"], row["_stored"]
        if self.history:
            return row["id"], row["_order"], not stored, new
        return row["id"], not stored, row["_order"]

    def _cut(self, whole: pa.Table) -> Iterator[pa.RecordBatch]:
        at = 0
        while at < whole.num_rows:
            size = self.cuts.randint(0, self.most)
            part = whole.slice(at, size).combine_chunks()
            yield from part.to_batches() or [_no_rows(whole.schema)]
            at += size

    def place(self, row: Row) -> Any:
        """What a MERGE finds the row by."""
        return (row["id"], row["_order"]) if self.history else row["id"]

    def current(self) -> dict[int, dict[str, Any]]:
        """The live rows."""
        live = "_is_current" if self.history else "_deleted"
        rows = [row for row in self.table.values() if row[live] == self.history]
        return {row["id"]: values(row) for row in rows}

    def tombstones(self) -> set[int]:
        """The keys of a current table's tombstones."""
        return {row["id"] for row in self.table.values() if row["_deleted"]}

    def flagged(self) -> dict[int, dict[str, Any]]:
        """The last values of deleted rows that gold shows."""
        if self.history:
            rows = [r for r in self.table.values() if r["_kept"] and r["_next_order"] is None]
        else:
            rows = [r for r in self.table.values() if r["_deleted"] and seen(r)]
        return {row["id"]: values(row) for row in rows}

    def versions(self) -> list[tuple[Any, ...]]:
        """Key, beginning, end and values of the versions shown."""
        shown = [row for row in self.table.values() if row["_shown"]]
        lines = [
            (r["id"], seconds(r["_valid_from"]), seconds(r["_valid_to"]), r["a"], r["b"])
            for r in shown
        ]
        return sorted(lines, key=repr)


MARKS = {"_stored": True, "_new": False}


def is_truncate(event: Event) -> bool:
    return event.operation == "truncate"


def order_of(event: Event, arrival: int) -> bytes:
    return make_order(f"{event.sequence:016X}", f"{arrival:08X}")


def change(event: Event, arrival: int) -> Row:
    """A change as the plan hands it to the fold."""
    given = dict(event.values)
    upsert = event.operation == "upsert"
    orders = {column: f"{order:016X}" for column, order in event.orders}
    return {
        "id": event.key,
        **{c: given.get(c) for c in COLUMNS},
        "_order": order_of(event, arrival),
        "_operation": event.operation,
        "_absent": [c for c in COLUMNS if upsert and c not in given] or None,
        "_group_sequences": list(orders.items()) or None,
        "_digest": _digest(event),
        "_source_time": event.time * SECOND,
        "_new": True,
        "_stored": False,
    }


def _digest(event: Event) -> int:
    content = repr((event.operation, event.values, event.orders)).encode()
    return int.from_bytes(blake2b(content, digest_size=8).digest(), "big", signed=True)


def as_rows(batch: pa.RecordBatch) -> list[Row]:
    """Rows of a record batch; times as µs."""
    times = [at for at, f in enumerate(batch.schema) if pa.types.is_timestamp(f.type)]
    whole = pa.Table.from_batches([batch])
    for at in times:
        name = whole.schema.field(at).name
        whole = whole.set_column(at, name, whole.column(at).cast(pa.int64()))
    rows: list[Row] = whole.to_pylist()
    return rows


def split_counts(rows: Sequence[Row]) -> tuple[list[Row], Counter[str]]:
    """The rows that a fold writes, and what its last row counts."""
    if not rows:
        return [], Counter()
    *written, last = rows
    counts = msgspec.json.decode(last.pop("_counts"))
    assert {*last.values()} == {None}
    assert [row.pop("_counts") for row in written] == [None] * len(written)
    return written, +Counter[str](counts)


def values(row: Mapping[str, Any]) -> dict[str, Any]:
    return {c: row[c] for c in COLUMNS}


def seen(row: Mapping[str, Any]) -> bool:
    """Whether a tombstone's row was seen before its delete."""
    return bool(row["_facts"] and row["_facts"]["upsert"])


def seconds(time: int | None) -> int | None:
    return None if time is None else time // SECOND


def _no_rows(schema: pa.Schema) -> pa.RecordBatch:
    return pa.RecordBatch.from_pylist([], schema)


def facts_text(facts: Mapping[str, Any] | None) -> str | None:
    """`_facts` of a stored row as `to_json` of Spark writes it; Arrow gives maps as pairs."""
    if facts is None:
        return None
    columns = facts["columns"] and dict(facts["columns"])
    given = {**facts, "columns": columns}
    return msgspec.json.encode({name: v for name, v in given.items() if v is not None}).decode()


def _filled(row: Row, schema: pa.Schema) -> Row:
    told = row | {"_facts": facts_text(row.get("_facts"))}
    return {name: told.get(name) for name in schema.names}
