"""Where a Debezium record stands: its sequence, snapshot, source time and transaction.

Each connector's position is one small function; the first whose fields the source block has tells
the sequence. Positions count by their text: a whole number of up to 20 digits, as number or text.
What only looks like Debezium (Flink CDC, RisingWave) has no position: its records are in order of
partition and offset, or of arrival where they have no offset.
"""

import re
from collections.abc import Callable, Sequence

from silver.decode.change import Change, Record
from silver.decode.debezium.events.envelope import Envelope, Source, Transaction
from silver.decode.values.json_values import NotJson, parse_json, text_of
from silver.decode.values.sequences import (
    MOST_SECTIONS,
    WIDTH,
    arrival_sequence,
    join_sections,
    section,
    sequence_of,
)

BY_SOURCE, BY_ARRIVAL = "source", "arrival"
"""What the records of a feed are ordered by, as `Columns.order` has it."""

OF_TABLE = "@"
"""In the id of a full snapshot, what stands before the source table where a key tells it."""

SPANNER = "spanner"

SQL_SERVER_WIDTH, DB2_WIDTH = 20, 32
"""Hex digits of an LSN."""

Position = Callable[[Source, Transaction | None], str | None]

_DIGITS = re.compile(r"[0-9]{1,20}")
_TICKS = re.compile(r"[0-9]{1,19}")
_BIGINT = re.compile(r"[+-]?[0-9]{1,19}")
_LAST_DIGITS = re.compile(r"([0-9]+)\Z")
_LSN = re.compile(r"[0-9A-Fa-f:]{1,40}")
_HYBRID_TIME = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,10}))?")
_TX_ID_AND_LSN = re.compile(r"([0-9]+):[0-9]+")
_SERIAL_WIDTH, _SURE_DIGITS = 8, 18
_CONNECTORS = frozenset(
    ("postgresql", "mysql", "mariadb", "sqlserver", "oracle", "db2", "ticdc", "ydb", SPANNER)
)
_MOST_SERIAL = 0xFFFFFFFF
_EMPTY = (None, "")
_NO_ORDER, _READ_BEFORE_SENT_MS = (-1, "-1"), 3_600_000
_LIMIT = 1 << 63
LAST_MICROSECOND = 253_402_300_799_999_999
LAST_ROWS, INCREMENTAL = ("last", "last_in_data_collection"), "incremental"


def ordered_change(envelope: Envelope, operation: str | None) -> Change:
    """A change of this operation without values yet, with all that tells its place in order.

    The sequence is None where the connector's position is missing or malformed, and where there
    is none at all: `arrival_order` is for records without one. An initial scan of YDB or
    CockroachDB is no full snapshot: its rows are upserts at their own positions, and nothing tells
    the last one.
    """
    source, transaction = envelope.source, envelope.transaction
    change = Change(operation, snapshot_last=False)
    if transaction is not None:
        change.transaction_order = _bigint(transaction.total_order)
        change.transaction = transaction_name(transaction.id)
    if source is None:
        change.source_time = _possible_time(_micros(envelope.ts_us, None, envelope.ts_ms))
        return change
    lsn = postgresql_lsn(source)
    change.sequence = sequence_by_position(source, transaction, lsn)
    change.source_time = _possible_time(_micros(source.ts_us, source.ts_ns, source.ts_ms))
    if change.transaction is None and source.txId is not None:
        id = source.txId
        change.transaction = str(id) if type(id) is int else str(text_of(id))
    if envelope.op == "r":
        lsn = None if lsn is not None and text_of(lsn).startswith("-") else lsn
        _place_read_row(change, envelope, source, lsn)
    if envelope.op == "r" and source.step is None and source.ts_hlc is None:
        change.snapshot_last = source.snapshot in LAST_ROWS
        if source.snapshot != INCREMENTAL:
            change.snapshot = _snapshot(source, lsn, change.sequence)
    return change


def _place_read_row(change: Change, envelope: Envelope, source: Source, lsn: object) -> None:
    """Gives a row that was read what its source block lacks: a time (0), and a position.

    Flink CDC leaves positions empty in the rows of a snapshot, or writes the lowest number as
    PostgreSQL's LSN. Such a row stands before everything streamed.
    """
    change.source_time = change.source_time or _possible_time(
        _micros(envelope.ts_us, None, envelope.ts_ms)
    )
    if change.sequence is None and lsn is None and has_position(source):
        place = (source.file, source.commit_lsn, source.change_lsn, source.commit_scn, source.scn)
        if all(part in _EMPTY for part in place):
            change.sequence = _numbers(0, 0)


def handled_at(record: Record, envelope: Envelope) -> int | None:
    """When the connector handled the change, else the record's own time, in microseconds."""
    told = _possible_time(_micros(envelope.ts_us, None, envelope.ts_ms))
    return record.timestamp if told is None else told


def sequence_by_position(
    source: Source, transaction: Transaction | None, lsn: object
) -> str | None:
    """The sequence by the connector's own position; `lsn` is what `postgresql_lsn` gives."""
    if lsn is not None:
        order = _order_within(transaction)
        if type(lsn) is int and type(order) is int and 0 <= lsn < _LIMIT and 0 <= order < _LIMIT:
            return f"{lsn:016X}/{order:016X}"
        return _numbers(lsn, order)
    if source.commit_ts is not None:
        return _numbers(source.commit_ts)
    if source.file is not None:
        return mysql_sequence(source)
    if source.commit_lsn is not None:
        db2 = source.connector == "db2"
        return db2_sequence(source) if db2 else sql_server_sequence(source)
    if source.step is not None:
        return _numbers(source.step, source.txId)
    if source.connector == SPANNER:
        return spanner_sequence(source)
    if source.ts_hlc is not None:
        return cockroachdb_sequence(source)
    if source.ord is not None:
        return mongodb_sequence(source, transaction)
    return oracle_sequence(source, transaction)


def has_position(source: Source | None) -> bool:
    """Whether a source block is of a connector that tells positions, even a malformed one."""
    if source is None:
        return False
    fields = (source.lsn, source.sequence, source.file, source.commit_lsn, source.change_lsn)
    others = (source.commit_scn, source.scn, source.commit_ts, source.step, source.ord)
    if any(field is not None for field in (*fields, *others, source.ts_hlc)):
        return True
    return isinstance(source.connector, str) and source.connector.lower() in _CONNECTORS


def arrival_order(record: Record) -> str:
    """The sequence of a record without a position: before every one that has a position.

    It is the place in the topic: partition and offset. A record without an offset stands where it
    arrived.
    """
    by_offset = sequence_of(0, record.partition or 0, record.offset)
    return by_offset or arrival_sequence(record.arrival)


def postgresql_lsn(source: Source) -> object:
    """PostgreSQL's LSN: `lsn`, or of `sequence` the change's own and then the commit's."""
    if source.lsn is not None or source.sequence is None or source.connector == SPANNER:
        return source.lsn
    return next((one for one in reversed(_pair(source.sequence)) if one is not None), None)


def postgresql_commit(source: Source) -> str | None:
    """PostgreSQL's last commit before the change: the first part of `sequence`."""
    text = source.sequence
    if isinstance(text, str) and text.startswith("[null,"):
        return None
    if isinstance(text, str) and text.startswith('["'):
        first = text.split('"', 2)[1]
        if first.isdecimal() and len(first) <= _SURE_DIGITS:
            return f"{int(first):016X}"
    pair = [] if text is None else _pair(text)
    return _numbers(pair[0]) if pair else None


def postgresql_commits(sequences: Sequence[object]) -> list[str] | None:
    """What `postgresql_commit` gives of many usual `sequence`s; None if some is another one."""
    firsts = [text.split('"', 2)[1] for text in sequences if type(text) is str and text[:2] == '["']
    if len(firsts) < len(sequences) or max(map(len, firsts)) > _SURE_DIGITS:
        return None
    return [f"{int(one):016X}" for one in firsts] if all(map(str.isdecimal, firsts)) else None


def mysql_sequence(source: Source) -> str | None:
    """MySQL and MariaDB: number of the binlog file, position in it, row of the event."""
    number = _LAST_DIGITS.search(str(text_of(source.file)))
    pos = 0 if source.pos is None else source.pos
    row = 0 if source.row is None else source.row
    return _numbers(number and number[1], pos, row)


def sql_server_sequence(source: Source) -> str | None:
    """SQL Server: commit LSN, change LSN and event serial number packed into three sections."""
    serial = 0 if source.event_serial_no is None else _ticks(source.event_serial_no)
    commit = _packed(source.commit_lsn)
    change = _packed("0" if source.change_lsn is None else source.change_lsn)
    if serial is None or serial > _MOST_SERIAL or commit is None or change is None:
        return None
    packed = f"{commit}{change}{serial:0{_SERIAL_WIDTH}X}"
    return join_sections(*(packed[at : at + WIDTH] for at in (0, WIDTH, 2 * WIDTH)))


def db2_sequence(source: Source) -> str | None:
    """Db2: commit LSN and change LSN, two sections each."""
    commit = _packed(source.commit_lsn, DB2_WIDTH)
    change = _packed("0" if source.change_lsn is None else source.change_lsn, DB2_WIDTH)
    if commit is None or change is None:
        return None
    packed = f"{commit}{change}"
    return join_sections(*(packed[n * WIDTH : (n + 1) * WIDTH] for n in range(MOST_SECTIONS)))


def oracle_sequence(source: Source, transaction: Transaction | None) -> str | None:
    """Oracle: commit SCN, SCN, order in the transaction."""
    scn = source.commit_scn if source.scn is None else source.scn
    commit = scn if source.commit_scn is None else source.commit_scn
    return _numbers(commit, scn, _order_within(transaction))


def _pair(sequence: object) -> list[object]:
    """The last commit's LSN and the change's own."""
    try:
        pair = parse_json(str(text_of(sequence)))
    except NotJson:
        return []
    return pair[:2] if isinstance(pair, list) else []


def mongodb_sequence(source: Source, transaction: Transaction | None) -> str | None:
    """MongoDB: the time of the cluster, the order within it, the order in the transaction.

    A row that a snapshot reads has no order (-1) and the connector's time, or 0, when it is sent.
    It stands well before that time, so that no change after its reading ranks below it.
    """
    if source.ord in _NO_ORDER:
        time = _ticks(source.ts_ms)
        return None if time is None else _numbers(max(time - _READ_BEFORE_SENT_MS, 0), 0, 0)
    return _numbers(source.ts_ms, source.ord, _order_within(transaction))


def spanner_sequence(source: Source) -> str | None:
    """Spanner: the commit time, the record's number in the transaction, the row's in the record."""
    time = _micros(source.ts_us, source.ts_ns, source.ts_ms)
    record = 0 if source.sequence is None else source.sequence
    return _numbers(time, record, 0 if source.mod_number is None else source.mod_number)


def cockroachdb_sequence(source: Source) -> str | None:
    """CockroachDB: the commit time in nanoseconds, and what tells equal ones apart."""
    parts = _HYBRID_TIME.fullmatch(str(text_of(source.ts_hlc)))
    return _numbers(parts[1], parts[2] or 0) if parts else None


def _order_within(transaction: Transaction | None) -> object:
    order = None if transaction is None else transaction.total_order
    return 0 if order is None else order


def _numbers(*values: object) -> str | None:
    return join_sections(*map(_section, values))


def _section(value: object) -> str | None:
    if type(value) is int:
        return section(value)
    text = None if value is None else str(text_of(value))
    return section(int(text)) if text and _DIGITS.fullmatch(text) else None


def _packed(lsn: object, width: int = SQL_SERVER_WIDTH) -> str | None:
    """The hex digits of an LSN; its groups, joined by colons, have zeros in front."""
    text = str(text_of(lsn))
    digits = text.replace(":", "").upper()
    fits = len(digits) == width if ":" in text else len(digits) <= width
    return digits.rjust(width, "0") if fits and _LSN.fullmatch(text) else None


def _snapshot(source: Source, lsn: object, sequence: str | None) -> str | None:
    """The id of the full snapshot a row was read by; only `op` r tells, `source.snapshot` does not.

    Rows of an incremental snapshot belong to none: they are upserts at their LSN.
    """
    place = sequence if lsn is None else text_of(lsn)
    name = "" if source.name is None else text_of(source.name)
    return None if place is None else f"{name}:{place}"


def transaction_name(id: object) -> str | None:
    """The transaction; of PostgreSQL's `txId:lsn`, whose end differs within one, the first part."""
    if id is None:
        return None
    text = str(text_of(id))
    pair = _TX_ID_AND_LSN.fullmatch(text)
    return pair[1] if pair else text


def _micros(us: object, ns: object, ms: object) -> int | None:
    """Microseconds since 1970 from the finest of the counts, of which each may be missing."""
    micros = _ticks(us)
    if micros is not None:
        return micros
    nanos = _ticks(ns)
    if nanos is not None:
        return nanos // 1000
    millis = _ticks(ms)
    return None if millis is None else millis * 1000


def _possible_time(micros: int | None) -> int | None:
    """The time, None after the year 9999."""
    return micros if micros is not None and micros <= LAST_MICROSECOND else None


def _ticks(value: object) -> int | None:
    """A count from 0 to 2^63 - 1."""
    if type(value) is not int:
        text = "" if value is None else text_of(value)
        value = int(text) if _TICKS.fullmatch(text) else -1
    return value if 0 <= value < _LIMIT else None


def _bigint(value: object) -> int | None:
    if type(value) is not int:
        text = "" if value is None else text_of(value).strip()
        value = int(text) if _BIGINT.fullmatch(text) else _LIMIT
    return value if -_LIMIT <= value < _LIMIT else None
