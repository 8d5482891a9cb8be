"""The connectors that write Debezium's records: where each writes what orders changes.

A new connector is one row of `CONNECTORS`, one case in `tests/fixtures/cases` and one line of
`docs/reference/connectors.md`. Positions count by their text: a whole number of up to 20 digits, as
number or text. What only looks like Debezium (Flink CDC without positions, RisingWave) has no row.
"""

import re
from collections.abc import Callable, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Literal, NamedTuple

from silver.decode.debezium.events.envelope import SourceBlock
from silver.decode.values.json_values import NotJson, parse_json, text_of
from silver.decode.values.sequences import WIDTH

_NUMBER = re.compile(r"[0-9]{1,20}")
_TICKS = re.compile(r"[0-9]{1,19}")
_LAST_DIGITS = re.compile(r"([0-9]+)\Z")
_LSN = re.compile(r"[0-9A-Fa-f:]{1,40}")
_HYBRID_TIME = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,10}))?")
_DIGITS = "0123456789"
_SQL_SERVER_WIDTH, _DB2_WIDTH = 20, 32
"""Hex digits of an LSN."""
_SERIAL_WIDTH, _SURE_DIGITS, _MOST_SERIAL = 8, 18, 0xFFFFFFFF
_LIMIT, _SECTION_LIMIT = 1 << 63, 1 << 64
_NO_ORDER, _READ_BEFORE_SENT_MS = (-1, "-1"), 3_600_000
_MOST_MICROSECONDS = 253_402_300_799_999_999


class Connector(NamedTuple):
    """What one kind of source writes into `source`, and into the rows.

    Attributes:
        names: the values of `source.connector`, in lower case.
        members: the members of `source` of which one shows the connector.
        position: the sequence of a change, by its source block and its order in the transaction;
            None where the connector writes no position.
        commit: the position of a change's commit, or of the commit before it, by the source block
            and the sequence. None where positions are times of a whole cluster, which never start
            anew.
        proves: whether a position that falls while commit times rise proves another log.
        named: whether `source.connector` alone shows that records have positions.
        scans: whether the rows that were read (op r) are upserts at their own positions, and no
            full snapshot.
        old_rows: whether `before` is as the source had it or null (`whole`), may have values that
            the connector invents (`invented`), or neither is known.
        cells: whether the values of rows may be cells, `{"value": …, "set": …}`.
        partial: whether an update may carry some columns only.
    """

    names: tuple[str, ...]
    members: tuple[str, ...] = ()
    position: Callable[[SourceBlock, object], str | None] | None = None
    commit: Callable[[SourceBlock, str], str | None] | None = None
    proves: bool = False
    named: bool = True
    scans: bool = False
    old_rows: Literal["whole", "invented", "unknown"] = "unknown"
    cells: bool = False
    partial: bool = False


def connector_of(source: SourceBlock) -> Connector | None:
    """The connector that wrote a source block; None for one without positions known here.

    The name counts where a member of its connector is there; else the first row with a member.
    """
    name = source.connector
    named = (_BY_NAME.get(name) or _BY_NAME.get(name.lower())) if isinstance(name, str) else None
    for connector in (named, *CONNECTORS) if named is not None else CONNECTORS:
        for member in connector.members:
            if getattr(source, member) is not None:
                return connector
    return named if named is not None and named.named else None


def connectors_of(sources: Sequence[SourceBlock | None]) -> Sequence[Connector | None]:
    """The connector of each source block; one look at all where they are of one connector."""
    names = [source.connector for source in sources if source is not None]
    name = names[0] if names else None
    named = _BY_NAME.get(name) if isinstance(name, str) else None
    if named is not None and named.members and names.count(name) == len(sources):
        firsts = list(map(attrgetter(named.members[0]), sources))
        if None not in firsts:
            return [named] * len(sources)
    return [None if source is None else connector_of(source) for source in sources]


def has_position(source: SourceBlock | None) -> bool:
    """Whether a source block is of a connector that writes positions, even a malformed one."""
    return source is not None and connector_of(source) is not None


def proves_restarts(source: SourceBlock) -> bool:
    """Whether a position that falls while commit times rise proves another log: PostgreSQL's."""
    connector = connector_of(source)
    return connector is not None and connector.proves


def hides_commits(source: SourceBlock) -> bool:
    """Whether a block of PostgreSQL lacks `sequence`: then no restart of its log can be seen."""
    is_whole = source.lsn is not None and source.txId is not None
    return is_whole and source.sequence is None and proves_restarts(source)


def server_of(source: SourceBlock) -> tuple[str | None, int]:
    """The server, and the number in its GTID: `uuid:number`, of MariaDB `domain-server-number`.

    Without a GTID the id of MySQL's server with the base name of its binlog, and 0.
    """
    if source.gtid is not None:
        gtid = str(text_of(source.gtid))
        server, _, number = gtid.rpartition(":" if ":" in gtid else "-")
        return server, int(number) if number.isascii() and number.isdigit() else 0
    if not source.file:
        return None, 0
    return f"{source.server_id} {str(text_of(source.file)).rstrip(_DIGITS)}", 0


def postgresql_lsn(source: SourceBlock) -> object:
    """PostgreSQL's LSN: `lsn`, or of `sequence` the change's own and then the commit's."""
    if source.lsn is not None or source.sequence is None:
        return source.lsn
    return next((one for one in reversed(_lsn_pair(source.sequence)) if one is not None), None)


def to_microseconds(us: object, ns: object, ms: object) -> int | None:
    """The time since 1970 by the finest of the counts, each of which may be missing.

    None after the year 9999.
    """
    if type(us) is int and 0 <= us <= _MOST_MICROSECONDS:
        return us
    for ticks, factor, divisor in ((us, 1, 1), (ns, 1, 1_000), (ms, 1_000, 1)):
        count = None if ticks is None else _parse_count(ticks)
        if count is not None:
            micros = count * factor // divisor
            return micros if micros <= _MOST_MICROSECONDS else None
    return None


def _postgresql_position(source: SourceBlock, order: object) -> str | None:
    lsn = source.lsn
    if type(lsn) is int and type(order) is int and 0 <= lsn < _LIMIT and 0 <= order < _LIMIT:
        return f"{lsn:016X}/{order:016X}"
    return _join_numbers(postgresql_lsn(source), order)


def _postgresql_commit(source: SourceBlock, _: str) -> str | None:
    """PostgreSQL's last commit before the change: the first part of `sequence`."""
    text = source.sequence
    if isinstance(text, str) and text.startswith('["'):
        first = text[2 : text.find('"', 2)]
        if first.isdecimal() and len(first) <= _SURE_DIGITS:
            return f"{int(first):016X}"
    pair = [] if text is None else _lsn_pair(text)
    return _join_numbers(pair[0]) if pair else None


def _mysql_position(source: SourceBlock, _: object) -> str | None:
    """MySQL and MariaDB: number of the binlog file, position in it, row of the event."""
    file = source.file if isinstance(source.file, str) else text_of(source.file)
    return _join_numbers(_last_number(file), _or_zero(source.pos), _or_zero(source.row))


def _sql_server_position(source: SourceBlock, _: object) -> str | None:
    """SQL Server: commit LSN, change LSN and event serial number packed into three sections."""
    serial = _parse_count(_or_zero(source.event_serial_no))
    if serial is None or serial > _MOST_SERIAL:
        return None
    return _packed_sections(source, _SQL_SERVER_WIDTH, f"{serial:0{_SERIAL_WIDTH}X}")


def _db2_position(source: SourceBlock, _: object) -> str | None:
    """Db2: commit LSN and change LSN, two sections each."""
    return _packed_sections(source, _DB2_WIDTH, "")


def _informix_position(source: SourceBlock, _: object) -> str | None:
    """Informix: commit LSN and change LSN, which count in a transaction; -1 where none is known."""
    change = 0 if source.change_lsn in (None, *_NO_ORDER) else source.change_lsn
    return _join_numbers(source.commit_lsn, change)


def _oracle_position(source: SourceBlock, order: object) -> str | None:
    """Oracle: commit SCN, SCN, order in the transaction."""
    scn = source.commit_scn if source.scn is None else source.scn
    return _join_numbers(scn if source.commit_scn is None else source.commit_scn, scn, order)


def _mongodb_position(source: SourceBlock, order: object) -> str | None:
    """MongoDB: the time of the cluster, the order within it, the order in the transaction.

    A row that a snapshot reads has no order (-1) and the connector's time, or 0, when it is sent.
    It stands well before that time, so that no change after its reading ranks below it.
    """
    if source.ord in _NO_ORDER:
        time = _parse_count(source.ts_ms)
        return None if time is None else _join_numbers(max(time - _READ_BEFORE_SENT_MS, 0), 0, 0)
    return _join_numbers(source.ts_ms, source.ord, order)


def _spanner_position(source: SourceBlock, _: object) -> str | None:
    """Spanner: the commit time, the record's number in the transaction, the row's in the record."""
    time = to_microseconds(source.ts_us, source.ts_ns, source.ts_ms)
    return _join_numbers(time, _or_zero(source.sequence), _or_zero(source.mod_number))


def _cockroachdb_position(source: SourceBlock, _: object) -> str | None:
    """CockroachDB: the commit time in nanoseconds, and what distinguishes equal ones."""
    parts = _HYBRID_TIME.fullmatch(str(text_of(source.ts_hlc)))
    return _join_numbers(parts[1], parts[2] or 0) if parts else None


@lru_cache(maxsize=64)
def _last_number(name: str) -> int | None:
    digits = _LAST_DIGITS.search(name)
    return digits and _parse_number(digits[1])


def _oracle_commit(source: SourceBlock, sequence: str) -> str | None:
    return None if source.commit_scn is None else sequence[:WIDTH]


def _first_digits(width: int) -> Callable[[SourceBlock, str], str]:
    return lambda _, sequence: sequence.replace("/", "")[:width]


def _lsn_pair(sequence: object) -> list[object]:
    """The last commit's LSN and the change's own."""
    try:
        pair = parse_json(str(text_of(sequence)))
    except NotJson:
        return []
    return pair[:2] if isinstance(pair, list) else []


def _packed_sections(source: SourceBlock, width: int, serial: str) -> str | None:
    """The hex digits of commit LSN, change LSN and serial number, cut into sections."""
    commit = _hex_digits(source.commit_lsn, width)
    change = _hex_digits("0" if source.change_lsn is None else source.change_lsn, width)
    if commit is None or change is None:
        return None
    packed = f"{commit}{change}{serial}"
    return "/".join(packed[at : at + WIDTH] for at in range(0, len(packed), WIDTH))


def _hex_digits(lsn: object, width: int) -> str | None:
    """The hex digits of an LSN; its groups, joined by colons, have zeros in front."""
    text = str(text_of(lsn))
    digits = text.replace(":", "").upper()
    fits = len(digits) == width if ":" in text else len(digits) <= width
    return digits.rjust(width, "0") if fits and _LSN.fullmatch(text) else None


def _or_zero(value: object) -> object:
    return 0 if value is None else value


def _join_numbers(*values: object) -> str | None:
    """The numbers as sections; None where one of them is none."""
    sections = []
    for value in values:
        number = value if type(value) is int else _parse_number(value)
        if number is None or not 0 <= number < _SECTION_LIMIT:
            return None
        sections.append(f"{number:016X}")
    return "/".join(sections)


def _parse_number(value: object) -> int | None:
    text = None if value is None else str(text_of(value))
    return int(text) if text and _NUMBER.fullmatch(text) else None


def _parse_count(value: object) -> int | None:
    """A count from 0 to 2^63 - 1."""
    if type(value) is not int:
        text = "" if value is None else text_of(value)
        value = int(text) if _TICKS.fullmatch(text) else -1
    return value if 0 <= value < _LIMIT else None


_OF_POSTGRESQL, _OF_LSN = ("lsn", "sequence"), ("commit_lsn", "change_lsn")
_AS_POSTGRESQL = (_OF_POSTGRESQL, _postgresql_position, _postgresql_commit, True)

CONNECTORS = (
    Connector(("postgresql",), *_AS_POSTGRESQL, old_rows="invented"),
    Connector(("ticdc",), ("commit_ts",), lambda source, _: _join_numbers(source.commit_ts)),
    Connector(
        ("mysql", "mariadb"), ("file",), _mysql_position, lambda _, text: text, old_rows="whole"
    ),
    Connector(
        ("sqlserver",),
        _OF_LSN,
        _sql_server_position,
        _first_digits(_SQL_SERVER_WIDTH),
        old_rows="whole",
    ),
    Connector(("db2",), _OF_LSN, _db2_position, _first_digits(_DB2_WIDTH), old_rows="whole"),
    Connector(("informix",), _OF_LSN, _informix_position, _first_digits(WIDTH), old_rows="whole"),
    Connector(
        ("ydb",), ("step",), lambda source, _: _join_numbers(source.step, source.txId), scans=True
    ),
    Connector(("cockroachdb",), ("ts_hlc",), _cockroachdb_position, named=False, scans=True),
    Connector(("mongodb",), ("ord",), _mongodb_position, named=False, partial=True),
    Connector(
        ("oracle",), ("commit_scn", "scn"), _oracle_position, _oracle_commit, old_rows="whole"
    ),
    Connector(("spanner",), ("sequence", "mod_number"), _spanner_position, partial=True),
    Connector(("yugabytedb",), *_AS_POSTGRESQL, named=False, cells=True),
    Connector(("cassandra",), named=False, cells=True),
)
"""All connectors. Without a known name the first one with a member in `source` counts."""

_BY_NAME = {name: connector for connector in CONNECTORS for name in connector.names}


def _list_names(is_wanted: Callable[[Connector], bool]) -> tuple[str, ...]:
    return tuple(name for name, connector in _BY_NAME.items() if is_wanted(connector))


WHOLE_OLD_ROWS = _list_names(lambda connector: connector.old_rows == "whole")
INVENTING = (None, *_list_names(lambda connector: connector.old_rows == "invented"))
MAY_WRITE_CELLS = (None, *_list_names(lambda connector: connector.cells))
NEEDS_THOUGHT = (*MAY_WRITE_CELLS, *_list_names(lambda connector: connector.partial))
"""Values of `source.connector`; a record without one may be of any connector."""
