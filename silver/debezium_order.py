"""Where a Debezium record stands: its sequence, snapshot, source time and transaction."""

from pyspark.sql import Column
from pyspark.sql import functions as F

from silver import sequence

_DIGITS = r"\A[0-9]{1,20}\z"
_LSN_PAIR = r"\A[0-9A-Fa-f:]{1,24}\z"
_SQL_SERVER_WIDTH, _SERIAL_WIDTH = 20, 8
_TX_ID_AND_LSN = r"\A([0-9]+):[0-9]+\z"


def sequence_of(source: Column, lsn: Column, total_order: Column) -> Column:
    """The sequence by the connector's own positions; null when they are missing or malformed.

    PostgreSQL: LSN, order in the transaction. MySQL: binlog file number, position, row. SQL Server:
    commit LSN, change LSN and event serial number packed into three sections. Oracle: commit SCN,
    SCN, order in the transaction. A record without a source block has no position: all are equal,
    arrival decides. `lsn` is what `position_of` gives.
    """
    order = F.when(total_order.isNull(), F.lit("0")).otherwise(total_order)
    scn = F.coalesce(source["commit_scn"], source["scn"])
    return (
        F.when(source.isNull(), _numbers(F.lit("0")))
        .when(lsn.isNotNull(), _numbers(lsn, order))
        .when(source["file"].isNotNull(), _mysql(source))
        .when(source["commit_lsn"].isNotNull(), _sql_server(source))
        .when(scn.isNotNull(), _numbers(scn, F.coalesce(source["scn"], scn), order))
    )


def position_of(source: Column) -> Column:
    """PostgreSQL's LSN as text: `lsn`, or of `sequence` the change's own and then the commit's."""
    pair = F.from_json(source["sequence"], "array<string>")
    return F.coalesce(source["lsn"], F.get(pair, F.lit(1)), F.get(pair, F.lit(0)))


def snapshot_of(op: Column, source: Column, lsn: Column, sequence: Column) -> Column:
    """The id of the full snapshot a row was read by; only `op` r tells, `source.snapshot` does not.

    Rows of an incremental snapshot belong to none: they are upserts at their LSN.
    """
    full = (op == "r") & (F.coalesce(source["snapshot"], F.lit("")) != "incremental")
    place = F.coalesce(lsn, sequence)
    id = F.concat(F.coalesce(source["name"], F.lit("")), F.lit(":"), place)
    return F.when(full & source.isNotNull(), id)


def snapshot_last_of(op: Column, source: Column) -> Column:
    """Whether the row ends a full snapshot of its table."""
    ends = (op == "r") & source["snapshot"].isin("last", "last_in_data_collection")
    return F.coalesce(ends, F.lit(False))


def micros_of(source: Column, envelope_us: Column, envelope_ms: Column) -> Column:
    """Commit time at the source in µs since 1970; without a source block, that of the event."""
    micros = F.coalesce(
        _ticks(source["ts_us"]),
        F.call_function("div", _ticks(source["ts_ns"]), F.lit(1000)),
        F.try_multiply(_ticks(source["ts_ms"]), F.lit(1000)),
    )
    own = F.coalesce(_ticks(envelope_us), F.try_multiply(_ticks(envelope_ms), F.lit(1000)))
    return F.when(source.isNull(), own).otherwise(micros)


def time_of(micros: Column) -> Column:
    """The moment of a number of µs since 1970; null after the year 9999."""
    return F.timestamp_micros(F.when(micros.between(0, 253_402_300_799_999_999), micros))


def transaction_of(id: Column, source: Column) -> Column:
    """The transaction; of PostgreSQL's `txId:lsn`, whose end differs within one, the first part."""
    plain = F.regexp_extract(id, _TX_ID_AND_LSN, 1)
    return F.coalesce(F.when(plain != "", plain), id, source["txId"])


def _numbers(*texts: Column) -> Column:
    return sequence.join(*[_section(text) for text in texts])


def _section(text: Column) -> Column:
    """The section of a number of up to 20 digits; of all but long ones without a pattern."""
    long = F.when(text.rlike(_DIGITS), text.try_cast("decimal(20,0)"))
    small = text.try_cast("bigint")
    return F.when(_is_plain(text), sequence.of_bigint(small)).otherwise(sequence.section(long))


def _is_plain(text: Column) -> Column:
    """Whether a text is a number from 0 to 2^63 - 1, written as Spark writes it."""
    number = text.try_cast("bigint")
    return (number.cast("string") == text) & (number >= 0)


def _mysql(source: Column) -> Column:
    number = F.regexp_extract(source["file"], r"([0-9]+)\z", 1)
    zero = F.lit("0")
    return _numbers(number, F.coalesce(source["pos"], zero), F.coalesce(source["row"], zero))


def _sql_server(source: Column) -> Column:
    serial = _ticks(F.coalesce(source["event_serial_no"], F.lit("0")))
    packed = F.concat(
        _packed(source["commit_lsn"]),
        _packed(F.coalesce(source["change_lsn"], F.lit("0"))),
        F.lpad(F.hex(F.when(serial.between(0, 0xFFFFFFFF), serial)), _SERIAL_WIDTH, "0"),
    )
    return sequence.join(*[F.substring(packed, at, sequence.WIDTH) for at in (1, 17, 33)])


def _packed(lsn: Column) -> Column:
    digits = F.upper(F.translate(lsn, ":", ""))
    fits = lsn.rlike(_LSN_PAIR) & (F.length(digits) <= _SQL_SERVER_WIDTH)
    return F.when(fits, F.lpad(digits, _SQL_SERVER_WIDTH, "0"))


def _ticks(text: Column) -> Column:
    digits = _is_plain(text) | text.rlike(r"\A[0-9]{1,19}\z")
    return F.when(digits, text.try_cast("bigint"))
