"""The connectors that write Debezium's records: where each writes what orders changes.

A new connector is one row of `CONNECTORS`, one case in `tests/fixtures/cases` and one line of
`docs/reference/connectors.md`. Positions count by their text: a whole number of up to 20 digits, as
number or text. What only looks like Debezium (Flink CDC without positions, RisingWave) has no row.
"""

import re
from collections.abc import Callable, Sequence
from contextlib import suppress
from functools import lru_cache
from typing import Any, Literal, NamedTuple

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from silver.decode.debezium.events.envelope import SourceBlock, SourceColumns
from silver.decode.values.json_values import NotJson, parse_json, text_of
from silver.decode.values.sequences import WIDTH

_NUMBER = re.compile(r"[0-9]{1,20}")
_TICKS = re.compile(r"[0-9]{1,19}")
_LAST_DIGITS = re.compile(r"([0-9]+)\Z")
_LSN = re.compile(r"[0-9A-Fa-f:]{1,40}")
_HYBRID_TIME = re.compile(r"([0-9]{1,20})(?:\.([0-9]{1,10}))?")
OF_INNODB, _ROW_BITS = ".ibb", 32
_SQL_SERVER_WIDTH, _DB2_WIDTH = 20, 32
"""Hex digits of an LSN."""
_SERIAL_WIDTH, _MOST_SERIAL = 8, 0xFFFFFFFF
_LIMIT, _SECTION_LIMIT = 1 << 63, 1 << 64
_MALFORMED: Sequence[object] = (None,)
_NO_COMMIT = "[null,"
_USUAL = r"^[0-9]{1,20}$"
_USUAL_PAIR = r'^\["(?P<commit>[0-9]{1,19})","[0-9]{1,20}"\]$'
_HEX_DIGITS = np.frombuffer(bytes(range(256)).hex().upper().encode(), np.uint16)
_NO_ORDER, _READ_BEFORE_SENT_MS = (-1, "-1"), 3_600_000
MOST_MICROSECONDS = 253_402_300_799_999_999


class Connector(NamedTuple):
    """What one kind of source writes into `source`, and into the rows.

    Attributes:
        names: the values of `source.connector`, in lower case.
        members: the members of `source` of which one shows the connector.
        numbers: the sequence of a change as one number for each section, by its source block and
            its order in the transaction; None where the connector writes no position. A position
            that is malformed has no numbers.
        commits: the position of each change's commit, or of the commit before it, by the source
            blocks and the sequences. None where positions are times of a whole cluster, which
            never start anew.
        proves: whether a position that falls while commit times rise proves another log.
        named: whether `source.connector` alone shows that records have positions.
        scans: whether the rows that were read (op r) are upserts at their own positions, and no
            full snapshot.
        old_rows: whether `before` is as the source had it or null (`whole`), may have values that
            the connector invents (`invented`), or neither is known.
        cells: whether the values of rows may be cells, `{"value": …, "set": …}`.
        partial: whether an update may carry some columns only.
        direct: the members that are the numbers, before the order, where none of them is null.
    """

    names: tuple[str, ...]
    members: tuple[str, ...] = ()
    numbers: Callable[[SourceBlock, object], Sequence[object]] | None = None
    commits: Callable[[SourceColumns, pa.Array], pa.Array] | None = None
    proves: bool = False
    named: bool = True
    scans: bool = False
    old_rows: Literal["whole", "invented", "unknown"] = "unknown"
    cells: bool = False
    partial: bool = False
    direct: tuple[str, ...] = ()

    def position(self, source: SourceBlock, order: object) -> str | None:
        """The sequence of a change; None where its position is missing or malformed."""
        return None if self.numbers is None else _join_numbers(self.numbers(source, order))


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


def connectors_of(sources: SourceColumns) -> Sequence[Connector | None]:
    """The connector of each source block; one look at all where they are of one connector."""
    names = sources.of("connector")
    name = names[0] if names else None
    named = _BY_NAME.get(name) if isinstance(name, str) else None
    is_one = names.count(name) == len(names)
    if is_one and named and named.members and type(None) not in sources.kinds(named.members[0]):
        return [named] * len(names)
    return [*map(connector_of, sources.blocks)]


def positions_of(sources: SourceColumns, orders: Sequence[object]) -> pa.Array:
    """The sequence of each change, as `Connector.position` has it."""
    connectors = connectors_of(sources)
    blocks, first = sources.blocks, connectors[0] if connectors else None
    if first is not None and first.numbers is not None and len({*map(id, connectors)}) == 1:
        columns: Sequence[Sequence[Any]] = [*map(sources.of, first.direct), orders]
        if not first.direct or any(type(None) in sources.kinds(name) for name in first.direct):
            columns = [*zip(*map(first.numbers, blocks, orders), strict=False)]
        joined = _join_columns(columns) if columns else None
        if joined is not None:
            return joined
    given = zip(connectors, blocks, orders, strict=True)
    texts = [None if one is None else one.position(block, order) for one, block, order in given]
    return pa.array(texts, pa.string())


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


def postgresql_lsn(source: SourceBlock) -> object:
    """PostgreSQL's LSN: `lsn`, or of `sequence` the change's own and then the commit's."""
    if source.lsn is not None or source.sequence is None:
        return source.lsn
    return next((one for one in reversed(_lsn_pair(source.sequence)) if one is not None), None)


def to_microseconds(us: object, ns: object, ms: object) -> int | None:
    """The time since 1970 by the finest of the counts, each of which may be missing.

    None after the year 9999.
    """
    if type(us) is int and 0 <= us <= MOST_MICROSECONDS:
        return us
    for ticks, factor, divisor in ((us, 1, 1), (ns, 1, 1_000), (ms, 1_000, 1)):
        count = None if ticks is None else _parse_count(ticks)
        if count is not None:
            micros = count * factor // divisor
            return micros if micros <= MOST_MICROSECONDS else None
    return None


def _postgresql_numbers(source: SourceBlock, order: object) -> Sequence[object]:
    """PostgreSQL: the change's own position, and its order in the transaction."""
    return source.lsn if type(source.lsn) is int else postgresql_lsn(source), order


def _postgresql_commits(sources: SourceColumns, _: pa.Array) -> pa.Array:
    """PostgreSQL's last commit before each change: the first part of `sequence`."""
    given = sources.of("sequence")
    if sources.kinds("sequence") <= {str, type(None)}:
        with suppress(UnicodeError):
            texts = pa.array(given, pa.string())
            commits = pc.struct_field(pc.extract_regex(texts, _USUAL_PAIR), 0)
            shown = pc.fill_null(pc.starts_with(texts, _NO_COMMIT), True)
            if pc.all(pc.or_(commits.is_valid(), shown)).as_py():
                sections = _join_sections([commits.cast(pa.uint64()).fill_null(0)], len(given))
                return pc.if_else(commits.is_valid(), sections, pa.scalar(None, pa.string()))
    pairs = [[] if one is None else _lsn_pair(one) for one in given]
    commits = [_join_numbers(pair[:1]) if pair else None for pair in pairs]
    return pa.array(commits, pa.string())


def _mysql_numbers(source: SourceBlock, order: object) -> Sequence[object]:
    """MySQL and MariaDB: number of the binlog file, position in it, row of the event.

    In a binlog of InnoDB (MariaDB 12.3) every position is 0: the number in the GTID counts, which
    a row of a snapshot lacks, and the order in the transaction before the row.
    """
    file = source.file if isinstance(source.file, str) else text_of(source.file)
    if not file.endswith(OF_INNODB):
        return _last_number(file), _or_zero(source.pos), _or_zero(source.row)
    number = 0 if source.gtid is None else _last_number(str(text_of(source.gtid)))
    within, row = _parse_count(order) or 0, _parse_count(_or_zero(source.row))
    packed = None if row is None else (within << _ROW_BITS) + row
    return _last_number(file.removesuffix(OF_INNODB)), number, packed


def _sql_server_numbers(source: SourceBlock, _: object) -> Sequence[object]:
    """SQL Server: commit LSN, change LSN and event serial number packed into three sections."""
    serial = _parse_count(_or_zero(source.event_serial_no))
    if serial is None or serial > _MOST_SERIAL:
        return _MALFORMED
    return _packed_sections(source, _SQL_SERVER_WIDTH, f"{serial:0{_SERIAL_WIDTH}X}")


def _db2_numbers(source: SourceBlock, _: object) -> Sequence[object]:
    """Db2: commit LSN and change LSN, two sections each."""
    return _packed_sections(source, _DB2_WIDTH, "")


def _informix_numbers(source: SourceBlock, _: object) -> Sequence[object]:
    """Informix: commit LSN and change LSN, which count in a transaction; -1 where none is known."""
    change = 0 if source.change_lsn in (None, *_NO_ORDER) else source.change_lsn
    return source.commit_lsn, change


def _oracle_numbers(source: SourceBlock, order: object) -> Sequence[object]:
    """Oracle: commit SCN, SCN, order in the transaction."""
    scn = source.commit_scn if source.scn is None else source.scn
    return scn if source.commit_scn is None else source.commit_scn, scn, order


def _mongodb_numbers(source: SourceBlock, order: object) -> Sequence[object]:
    """MongoDB: the time of the cluster, the order within it, the order in the transaction.

    A row that a snapshot reads has no order (-1) and the connector's time, or 0, when it is sent.
    It stands well before that time, so that no change after its reading ranks below it.
    """
    if source.ord in _NO_ORDER:
        time = _parse_count(source.ts_ms)
        return time if time is None else max(time - _READ_BEFORE_SENT_MS, 0), 0, 0
    return source.ts_ms, source.ord, order


def _spanner_numbers(source: SourceBlock, _: object) -> Sequence[object]:
    """Spanner: the commit time, the record's number in the transaction, the row's in the record."""
    time = to_microseconds(source.ts_us, source.ts_ns, source.ts_ms)
    return time, _or_zero(source.sequence), _or_zero(source.mod_number)


def _cockroachdb_numbers(source: SourceBlock, _: object) -> Sequence[object]:
    """CockroachDB: the commit time in nanoseconds, and what distinguishes equal ones."""
    parts = _HYBRID_TIME.fullmatch(str(text_of(source.ts_hlc)))
    return (parts[1], parts[2] or 0) if parts else _MALFORMED


@lru_cache(maxsize=64)
def _last_number(name: str) -> int | None:
    digits = _LAST_DIGITS.search(name)
    return digits and _parse_number(digits[1])


def _oracle_commits(sources: SourceColumns, sequences: pa.Array) -> pa.Array:
    is_named = pa.array([scn is not None for scn in sources.of("commit_scn")], pa.bool_())
    return pc.if_else(is_named, _first_digits(WIDTH)(sources, sequences), None)


def _first_digits(width: int) -> Callable[[SourceColumns, pa.Array], pa.Array]:
    def cut(_: SourceColumns, sequences: pa.Array) -> pa.Array:
        return pc.utf8_slice_codeunits(pc.replace_substring(sequences, "/", ""), 0, width)

    return cut


def _lsn_pair(sequence: object) -> list[object]:
    """The last commit's LSN and the change's own."""
    try:
        pair = parse_json(str(text_of(sequence)))
    except NotJson:
        return []
    return pair[:2] if isinstance(pair, list) else []


def _packed_sections(source: SourceBlock, width: int, serial: str) -> Sequence[object]:
    """The hex digits of commit LSN, change LSN and serial number, cut into sections."""
    commit = _hex_digits(source.commit_lsn, width)
    change = _hex_digits("0" if source.change_lsn is None else source.change_lsn, width)
    if commit is None or change is None:
        return _MALFORMED
    packed = f"{commit}{change}{serial}"
    return [int(packed[at : at + WIDTH], 16) for at in range(0, len(packed), WIDTH)]


def _hex_digits(lsn: object, width: int) -> str | None:
    """The hex digits of an LSN; its groups, joined by colons, have zeros in front."""
    text = str(text_of(lsn))
    digits = text.replace(":", "").upper()
    fits = len(digits) == width if ":" in text else len(digits) <= width
    return digits.rjust(width, "0") if fits and _LSN.fullmatch(text) else None


def _or_zero(value: object) -> object:
    return 0 if value is None else value


def _join_columns(columns: Sequence[Sequence[Any]]) -> pa.Array | None:
    """The numbers of each change as sections; None where some are not of a usual form."""
    numbers = [*map(_read_numbers, columns)]
    return None if any(one is None for one in numbers) else _join_sections(numbers, len(columns[0]))


def _join_sections(columns: Sequence[pa.Array], count: int) -> pa.Array:
    """The numbers of so many changes as sections; a column of one number has it for all."""
    width = (WIDTH + 1) * len(columns) - 1
    texts = np.full((count, width), ord("/"), np.uint8)
    for at, column in enumerate(columns):
        octets = column.to_numpy().astype(">u8").view(np.uint8)
        digits = _HEX_DIGITS[octets].view(np.uint8).reshape(-1, WIDTH)
        texts[:, at * (WIDTH + 1) :][:, :WIDTH] = digits
    ends = np.arange(count + 1, dtype=np.int32) * width
    return pa.StringArray.from_buffers(count, pa.py_buffer(ends), pa.py_buffer(texts))


def _read_numbers(values: Sequence[Any]) -> pa.Array | None:
    """Whole numbers, all as numbers or all as texts; None where one is no section."""
    kinds = {*map(type, values)}
    try:
        if kinds == {int}:
            are_one = values.count(values[0]) == len(values)
            return pa.array(values[:1] if are_one else values, pa.uint64())
        texts = pa.array(values, pa.string()) if kinds == {str} else None
        is_usual = texts is not None and pc.all(pc.match_substring_regex(texts, _USUAL)).as_py()
        return texts.cast(pa.uint64()) if texts is not None and is_usual else None
    except (pa.ArrowException, OverflowError, UnicodeError):
        return None


def _join_numbers(values: Sequence[object]) -> str | None:
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
_OF_MYSQL = ("mysql", "mariadb")
_AS_POSTGRESQL = (_OF_POSTGRESQL, _postgresql_numbers, _postgresql_commits, True)

CONNECTORS = (
    Connector(("postgresql",), *_AS_POSTGRESQL, old_rows="invented", direct=("lsn",)),
    Connector(("ticdc", "tidb"), ("commit_ts",), lambda source, _: (source.commit_ts,)),
    Connector(_OF_MYSQL, ("file",), _mysql_numbers, lambda _, texts: texts, old_rows="whole"),
    Connector(
        *(("sqlserver",), _OF_LSN, _sql_server_numbers, _first_digits(_SQL_SERVER_WIDTH)),
        old_rows="whole",
    ),
    Connector(("db2",), _OF_LSN, _db2_numbers, _first_digits(_DB2_WIDTH), old_rows="whole"),
    Connector(("informix",), _OF_LSN, _informix_numbers, _first_digits(WIDTH), old_rows="whole"),
    Connector(("ydb",), ("step",), lambda source, _: (source.step, source.txId), scans=True),
    Connector(("cockroachdb",), ("ts_hlc",), _cockroachdb_numbers, named=False, scans=True),
    Connector(("mongodb",), ("ord",), _mongodb_numbers, named=False, partial=True),
    Connector(
        ("oracle",),
        ("commit_scn", "scn"),
        _oracle_numbers,
        _oracle_commits,
        old_rows="whole",
        direct=("commit_scn", "scn"),
    ),
    Connector(("spanner",), ("sequence", "mod_number"), _spanner_numbers, partial=True),
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
