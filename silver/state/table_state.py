"""The state of a table: one value, kept as JSON in the ledger row of the run that made it.

A run reads the newest state of every table in one query, and writes those of all its tables in one
commit. A run that is killed before that commit leaves the old states: the next run finds the
batches of the change log above them, and completes the work.
"""

from collections.abc import Mapping, Sequence
from datetime import date, datetime, timezone

import msgspec

from lakehouse.config.target import Layer, Target
from lakehouse.errors import LakeOutdated
from lakehouse.run import ledger
from lakehouse.storage import names
from lakehouse.storage.lake import Lake
from silver.state.epochs import TableChanges
from silver.state.summary import Summary, find_now_micros

_REBUILT: tuple[Layer, ...] = ("silver", "gold")
_LAYOUT = '"layout":4'
"""How this version lays out silver's tables; every state that it writes begins with it."""


class WaitingTransaction(msgspec.Struct, frozen=True):
    """A transaction that waits: its commit time (µs), what is missing, and its records by table."""

    transaction: str
    since: int | None
    records: dict[str, int]
    missing: str
    overdue: bool


class GroupState(msgspec.Struct, frozen=True, omit_defaults=True):
    """A consistency group after one of its runs; each member's state has a copy.

    Attributes:
        name: the group's name.
        number: counts the group's runs; the highest number counts.
        applied: the newest batch of each member that was applied.
        ends: the newest batch of each feed of ENDs that was read.
        versions: the Delta version of each silver table, all with the same transactions.
        waiting: the transactions that wait.
        shown: the newest batch of each member at these versions, where a member failed since.
        held: the transactions that waited at these versions, where a member failed since.
    """

    name: str = ""
    number: int = 0
    applied: dict[str, int] = {}
    ends: dict[str, int] = {}
    versions: dict[str, int] = {}
    waiting: list[WaitingTransaction] = []
    shown: dict[str, int] | None = None
    held: list[WaitingTransaction] = []

    def replace(self, **changes: object) -> "GroupState":
        """The state with other values of some attributes."""
        return msgspec.structs.replace(self, **changes)


class SnapshotDay(msgspec.Struct, frozen=True, omit_defaults=True):
    """The snapshot files of a date, as they were compared.

    Attributes:
        effective_date: the date of their folder; None for files in no folder of a date.
        mode: full or delta.
        batch: the batch of their comparison; None when they have to be compared again.
        feed_batch: the newest ingest batch of theirs that was read.
        not_supplied: of a delta, how many live keys it did not carry.
        unread_lines: of a full one, the lines without a readable key: while there are some, keys
            that the files lack are not deleted.
    """

    effective_date: date | None
    mode: str
    batch: int | None
    feed_batch: int
    not_supplied: int | None = None
    unread_lines: int | None = None


class SchemaChange(msgspec.Struct, frozen=True):
    """A change of the source's columns that a run has met.

    Attributes:
        at: when, ISO 8601 in UTC.
        run_id: the run.
        kind: add_column, widen, drop_column or incompatible.
        column: the column.
        from_type: the table's type before; None for a new column.
        to_type: the source's type now; None where the column is gone or its type unknown.
        action: applied, ignored, dead_letter, failed, or declared: the declared type stays.
        position: where the first record that showed the change lies.
    """

    at: str
    run_id: str
    kind: str
    column: str
    from_type: str | None
    to_type: str | None
    action: str
    position: str | None

    @property
    def identity(self) -> tuple[str, str, str | None, str]:
        """The parts that stay the same when a batch is decoded again."""
        return self.kind, self.column, self.to_type, self.action


class TableState(msgspec.Struct, frozen=True, omit_defaults=True):
    """The state of a table.

    Attributes:
        batch: the newest batch of the change log that is applied.
        positions: the newest ingest batch of each feed that the change log holds.
        partial: whether changes came that do not carry every column.
        key_changes: whether key changes with an unavailable value came.
        ties: whether several changes of a key came with one sequence.
        whole: the full snapshots and truncates that are applied.
        built: the table's fingerprint: its settings, and what its source has shown.
        horizon: source time (µs since 1970) up to which tombstones are purged.
        logs: the newest position in the source's log of each topic and partition, as text.
        logged: the newest batch of the change log.
        waits: the summary of the pending changes, those above `batch`; None where there are none,
            or the log has to be queried for it.
        pending: how many records the ledger counts as pending.
        counted: how many dead letters above `batch` the ledger has counted, by reason.
        waiting_since: when the oldest pending change was logged (µs since 1970).
        shown: the newest batch of the change log that the view of pending changes shows.
        applied_at: when the last run that applied anything began (µs since 1970).
        took: how many seconds that run took for it.
        replaced_at: when rows were last replaced or removed without a new `_batch` that shows it
            (µs since 1970).
        size: about how many rows the table has.
        highest: the highest order key of the merged changes, where it is known.
        group: the consistency group as of the table's last run.
        days: the snapshot files that were compared, by date.
        schema_changes: the changes of the source's columns, oldest first.
    """

    batch: int = 0
    positions: dict[str, int] = {}
    partial: bool = False
    key_changes: bool = False
    ties: bool = False
    whole: TableChanges = TableChanges([], [])
    built: dict[str, str] = {}
    horizon: int | None = None
    logs: dict[str, str] = {}
    logged: int = 0
    waits: Summary | None = None
    pending: int = 0
    counted: dict[str, int] = {}
    waiting_since: int | None = None
    shown: int = 0
    applied_at: int | None = None
    took: float | None = None
    replaced_at: int | None = None
    size: int | None = None
    highest: bytes | None = None
    group: GroupState | None = None
    days: list[SnapshotDay] = []
    schema_changes: list[SchemaChange] = []

    def replace(self, **changes: object) -> "TableState":
        """The state with other values of some attributes."""
        return msgspec.structs.replace(self, **changes)

    def with_replaced(self) -> "TableState":
        """The state of a table of which rows are replaced or removed now (`replaced_at`)."""
        return self.replace(replaced_at=find_now_micros())

    def with_fingerprint(self, aspects: Mapping[str, str]) -> "TableState":
        """The state with new entries of the fingerprint."""
        return self.replace(built={**self.built, **aspects}) if aspects else self

    def with_positions(self, positions: Mapping[str, int]) -> "TableState":
        """The state with later positions of some feeds."""
        return self.replace(positions={**self.positions, **positions})

    def with_logged(self, number: int, summary: Summary | None) -> "TableState":
        """The state with a batch that was added to the log; `summary` is that of the batch.

        Without one, the log has to be queried for the pending changes.
        """
        waits = summary
        if self.logged > self.batch and summary is not None:
            waits = None if self.waits is None else self.waits.joined(summary)
        return self.replace(logged=number, waits=waits)

    def find_highest_after(self, summary: Summary) -> bytes | None:
        """The table's highest order key after a batch with this summary is merged, if known."""
        if not summary.changes:
            return self.highest
        if summary.last_order is None or (self.batch and self.highest is None):
            return None
        return max(self.highest or b"", summary.last_order)

    @property
    def waiting(self) -> int:
        """How many records of the change log are pending, as far as that is known."""
        return self.pending if self.waits is None else self.waits.records

    @property
    def known_records(self) -> int:
        """How many records above `batch` the ledger has counted, dead letters included."""
        return self.pending + sum(self.counted.values())

    def to_text(self) -> str:
        """The state as JSON, without values of the source."""
        waits = self.waits and self.waits.replace(keys=None)
        members = msgspec.json.encode(self.replace(waits=waits)).decode()[1:-1]
        return f"{{{','.join(filter(None, (_LAYOUT, members)))}}}"

    def begun(self, run_id: str, table: str) -> ledger.Entry:
        """The ledger entry that keeps the state of a table while a run works on it."""
        entry = ledger.make_entry(run_id, "silver", table, datetime.now(timezone.utc))
        update = {"status": "begun", "state": self.to_text(), "batch": self.batch}
        return entry.model_copy(update=update)

    def done(self, entry: ledger.Entry, counts: Mapping[str, int]) -> ledger.Entry:
        """The entry of a run with its counts, and the state after the run."""
        done = entry.with_counts(counts, self.batch, self.positions)
        return done.model_copy(update={"state": self.to_text()})


_decode = msgspec.json.Decoder(TableState).decode


def from_text(text: str) -> TableState:
    """Reads a state from JSON."""
    return _decode(text)


def read_states(lake: Lake) -> dict[str, TableState]:
    """The newest state of every table; a table without a run is missing.

    Raises:
        LakeOutdated: an older version has written the lake.
    """
    if _lacks_states(lake):
        raise _refuse_outdated(lake.target)
    texts = ledger.read_states(lake)
    if not all(text.startswith(f"{{{_LAYOUT}") for text in texts.values()):
        raise _refuse_outdated(lake.target)
    return {table: from_text(text) for table, text in texts.items()}


def read_state(lake: Lake, table: str) -> TableState:
    """The newest state of a table."""
    return read_states(lake).get(table, TableState())


def newest_group(states: Sequence[TableState]) -> GroupState:
    """The state of a consistency group, by the states of its members."""
    groups = [state.group for state in states if state.group is not None]
    return max(groups, key=lambda group: group.number, default=GroupState())


def _lacks_states(lake: Lake) -> bool:
    """Whether the lake has a ledger without states, as versions before 0.2 wrote it."""
    if not lake.exists("silver", ledger.TABLE):
        return False
    ledger_rows = lake.spark.table(lake.name("silver", ledger.TABLE))
    return ledger.STATE not in ledger_rows.columns


def _refuse_outdated(target: Target) -> LakeOutdated:
    if target.catalog:
        return LakeOutdated(*(f"schema {names.schema_name(target, layer)}" for layer in _REBUILT))
    return LakeOutdated(*(f"{target.lake}/{layer}" for layer in _REBUILT))
