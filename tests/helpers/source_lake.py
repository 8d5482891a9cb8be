"""A table that is decoded, ordered and folded batch by batch from raw records, without Spark."""

import json
import pickle
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from hashlib import blake2b
from random import Random
from typing import Any

import pyarrow as pa

from lakehouse.config.table import Table
from silver.decode.arrow import (
    CARRIED,
    READ,
    DecodePlan,
    DiscoveryPlan,
    decode_batches,
    discover_batches,
    must_wait,
)
from silver.decode.columns import Columns, known_columns, shown_by, with_shown
from silver.decode.debezium.events.log_follower import segments_of
from silver.decode.debezium.events.order import OF_TABLE
from silver.decode.debezium.events.source_log import find_restarts
from silver.decode.expressions.names import FAULT, MEMBER
from silver.decode.protocols.rows import OF_KEY
from silver.decode.values.sequences import sequence_of
from silver.fold.order_key import make_order
from silver.fold.rules import Cutoff
from silver.state.epochs import Epoch, SnapshotProgress, TableChanges, describe_restart
from tests.helpers.fold_lake import COLUMNS, FoldLake, Row
from tests.helpers.sources import TOPIC, Sent

TYPES = {
    "_raw": pa.binary(), "_key": pa.binary(), "_headers": pa.binary(), "_whole": pa.bool_(),
    "_partition": pa.int32(), "_offset": pa.int64(), "_timestamp": pa.int64(),
    "_arrived_at": pa.int64(), "_batch": pa.int64(), "_line": pa.int64(),
}  # fmt: skip
OPTIONS: dict[str, dict[str, Any]] = {
    "debezium": {},
    "ydb": {},
    "bigquery": {"except_column_list": ["at"]},
    "rows": {
        "except_column_list": ["at", "op", "seq"],
        "sequence_by": "seq",
        "apply_as_deletes": "op = 'delete'",
        "apply_as_truncates": "op = 'truncate'",
    },
    "snapshot": {},
}
SOURCE_OPTIONS = {
    "bigquery": {"time_column": "at"},
    "rows": {"time_column": "at"},
    "snapshot": {"mode": "full"},
}


def table_of(format: str, name: str = "t", **options: object) -> Table:
    """The table of a source's rows."""
    return Table.model_validate(
        {
            "table": name,
            "source": {"format": format, "path": name} | SOURCE_OPTIONS.get(format, {}),
            "keys": ["id"],
            "columns": {"id": "bigint", "a": "string", "b": "string"},
            **OPTIONS[format],
            **options,
        }
    )


TABLES = {format: table_of(format) for format in OPTIONS}


@dataclass
class SourceLake:
    """What silver holds of a topic; `whole` says that records come as lines of dropped files."""

    table: Table
    history: bool
    cuts: Random
    whole: bool = False
    fails_over: bool = False
    fold: FoldLake = field(init=False)
    rows: list[Row] = field(default_factory=list)
    shown: dict[str, str] = field(default_factory=dict)
    waiting: list[Sent] = field(default_factory=list)
    came: dict[int, Sent] = field(default_factory=dict)
    arrived: int = 0

    def __post_init__(self) -> None:
        self.fold = FoldLake(history=self.history, cuts=self.cuts, most=40)

    def deliver(self, batch: Sequence[Sent]) -> None:
        """Decodes a batch and folds it, all batches anew where an earlier change moves in order."""
        raw = self._bronze([*self.waiting, *batch])
        known = with_shown(known_columns(self.table, {}), self.shown)
        if must_wait(DiscoveryPlan(self.table, known), iter([raw])):
            self.waiting += batch
            return
        self.came |= {sent.offset: sent for sent in [*self.waiting, *batch]}
        self.waiting = []
        columns = _discovered(self.table, known, raw)
        self.shown |= shown_by(columns)
        new = _decoded(self.table, columns, raw)
        assert {row["_reason"] for row in new} <= {None}, [row["_message"] for row in new]
        self.rows += [row for row in new if row["_operation"] != "none"]
        self._apply(columns)

    def _apply(self, columns: Columns) -> None:
        snapshot_progress = _snapshot_progress(self.rows)
        if self.fails_over:
            snapshot_progress += self._restarts(columns)
        epochs = TableChanges(snapshot_progress, []).epochs
        of_log = self.table.format == "debezium"
        orders = [_order(row, epochs, of_log) for row in self.rows]
        moved = any(row.get("_order", o) != o for row, o in zip(self.rows, orders, strict=True))
        new = [moved or "_order" not in row for row in self.rows]
        for row, order in zip(self.rows, orders, strict=True):
            row["_order"] = order
        marks = [_cutoff(row) for row in self.rows if row["_operation"] == "truncate"]
        cutoffs = TableChanges(snapshot_progress, [*dict.fromkeys(marks)]).cutoffs(True)
        if moved:
            self.fold = FoldLake(history=self.history, cuts=self.cuts, most=40)
        floor_is_new = cutoffs != self.fold.cutoffs
        self.fold.cutoffs = cutoffs
        fresh = [row for row, is_new in zip(self.rows, new, strict=True) if is_new]
        changes = [_change(row) for row in fresh if row["_operation"] != "truncate"]
        self.fold.apply(changes, floor_is_new)

    def _restarts(self, columns: Columns) -> list[SnapshotProgress]:
        """Where the source's log begins anew, followed through all that has come."""
        raw = self._bronze([self.came[offset] for offset in sorted(self.came)])
        texts = [row["_source_log"] for row in _decoded(self.table, columns, raw)]
        segments = segments_of([text for text in texts if text is not None])
        found = find_restarts(segments, {}, lambda segment, _: [segment])
        assert found.alarms == []
        return [describe_restart(restart) for restart in found.restarts]

    def _bronze(self, records: Iterable[Sent]) -> pa.RecordBatch:
        """The records as bronze has them."""
        rows = []
        for sent in records:
            self.arrived += 1
            value = None if sent.value is None else json.dumps(sent.value)
            if self.whole:
                value = json.dumps({"topic": TOPIC, "offset": sent.offset, "payload": value})
                value = value.replace('"offset"', '"partition": 0, "offset"')
            rows.append(
                {
                    "_raw": value and value.encode(),
                    "_key": sent.key and json.dumps(sent.key).encode(),
                    "_whole": self.whole,
                    "_topic": TOPIC,
                    "_partition": 0,
                    "_offset": sent.offset,
                    "_timestamp": 0,
                    "_arrived_at": 0,
                    "_batch": 1,
                    "_feed": "t",
                    "_arrival": f"{self.arrived:016X}",
                    "_position": f"{TOPIC}/0/{sent.offset}",
                }
            )
        names = dict.fromkeys((*READ, *CARRIED, "_position"))
        schema = pa.schema([(name, TYPES.get(name, pa.string())) for name in names])
        found = pa.RecordBatch.from_pylist(rows, schema)
        return found


def _discovered(table: Table, known: Columns, raw: pa.RecordBatch) -> Columns:
    [part] = discover_batches(DiscoveryPlan(table, known), iter([raw]))
    columns: Columns = pickle.loads(part.column("discovery")[0].as_py()).settle()[0]
    return columns


def _decoded(table: Table, columns: Columns, raw: pa.RecordBatch) -> list[Row]:
    plan = DecodePlan(table, columns, columns.schema(), keeps_raw=False)
    rows: list[Row] = []
    for part in decode_batches(plan, iter([raw])):
        at = part.schema.get_field_index("_source_time")
        times = part.column("_source_time").cast(pa.int64())
        rows += part.set_column(at, "_source_time", times).to_pylist()
    return [_evaluated(row, table.format) for row in rows]


def _evaluated(row: Row, format: str) -> Row:
    """A row with what the table's expressions say of it, which Spark evaluates."""
    told = {name.removeprefix(MEMBER): value for name, value in row.items()}
    if format not in ("rows", "bigquery"):
        return row
    row["_source_time"] = told["at"] * 1_000_000
    if format == "rows":
        row["_operation"], row["_sequence"] = told["op"], sequence_of(told["seq"])
        of_key = told[FAULT] == OF_KEY and told["op"] == "truncate"
        row["_reason"] = None if of_key else row["_reason"]
    return row


def _snapshot_progress(rows: Iterable[Row]) -> list[SnapshotProgress]:
    found: dict[str, SnapshotProgress] = {}
    for row in rows:
        if row["_snapshot"] is None:
            continue
        one = SnapshotProgress(
            row["_snapshot"], f"{TOPIC}/0", _position(row), bool(row["_snapshot_last"]),
            row["_source_time"],
        )  # fmt: skip
        known = found.get(one.snapshot)
        found[one.snapshot] = one if known is None else known.joined(one)
    return list(found.values())


def _position(row: Row) -> str:
    return f"{row['_offset']:020}"


def _order(row: Row, epochs: Sequence[Epoch], of_log: bool) -> bytes:
    """The order key by the rules that `silver.state.epochs` puts in SQL."""
    number = next((e.number for e in reversed(epochs) if _is_of(row, e)), 0)
    front = f"{2 * number + (row['_snapshot'] is None):016X}/" if of_log else ""
    return make_order(f"{front}{row['_sequence']}", row["_arrival"])


def _is_of(row: Row, epoch: Epoch) -> bool:
    if row["_snapshot"] is not None:
        return bool(row["_snapshot"].partition(OF_TABLE)[0] == epoch.snapshot)
    first, started = epoch.first.get(f"{TOPIC}/0"), epoch.started or 0
    committed = row["_source_time"] if row["_source_time"] is not None else started
    begins = committed >= started if first is None else _position(row) >= first
    return begins and not (row["_sequence"] < epoch.lsn and committed < epoch.shown)


def _cutoff(row: Row) -> Cutoff:
    return Cutoff(row["_order"], row["_source_time"])


def _change(row: Row) -> Row:
    """A change as the plan hands it to the fold."""
    content = repr((row["_operation"], row["_absent"], [row[name] for name in COLUMNS]))
    digest = int.from_bytes(blake2b(content.encode(), digest_size=8).digest(), "big", signed=True)
    told = {name: row[name] for name in ("id", *COLUMNS, "_order", "_operation", "_source_time")}
    own = {"_absent": row["_absent"] if row["_operation"] == "upsert" else None}
    return (
        told | own | {"_digest": digest, "_group_sequences": None, "_new": True, "_stored": False}
    )


def result(lake: SourceLake) -> Any:
    """The rows, and with a history its versions."""
    return lake.fold.current(), lake.fold.versions() if lake.history else None
