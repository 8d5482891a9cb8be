"""YDB's virtual timestamps, `[step, txId]`: order, time and transaction of a change."""

from silver.decode.change import Change, Record
from silver.decode.protocols.objects import time_of
from silver.decode.values.json_values import text_of
from silver.decode.values.sequences import to_section

_LARGEST_SECONDS = 10**11
_LARGEST_TIME = 1 << 63


def stamped_change(record: Record, moment: object) -> Change:
    """A change with the order, time and transaction that the virtual timestamp gives.

    Without a timestamp the record's offset is the order.
    """
    if moment is None:
        return Change(None, (), to_section(record.offset or 0), source_time=time_of(record))
    parts = moment if isinstance(moment, list) else []
    numbers = [_parse_number(part) for part in parts]
    time = _to_micros(numbers[0]) if numbers else None
    change = Change(None, source_time=time_of(record) if time is None else time)
    if len(numbers) == 2 and None not in numbers:
        change.sequence = f"{numbers[0]:016X}/{numbers[1]:016X}"
    change.transaction = "/".join([text_of(part) for part in parts if part is not None])
    return change


def plain_moment(ts: object) -> tuple[str, int, str] | None:
    """Sequence, time and transaction of a virtual timestamp of two numbers; None of any other."""
    if not isinstance(ts, list) or len(ts) != 2 or not type(ts[0]) is type(ts[1]) is int:
        return None
    step, id = ts
    time = _to_micros(step) if step >= 0 else None
    if time is None or not 0 <= id < 1 << 64:
        return None
    return f"{step:016X}/{id:016X}", time, f"{step}/{id}"


def _parse_number(part: object) -> int | None:
    """An unsigned 64-bit number of a virtual timestamp, or its digits; None for all else."""
    if isinstance(part, str) and part.isascii() and part.isdigit() and len(part) <= 20:
        part = int(part)
    return part if type(part) is int and 0 <= part < 1 << 64 else None


def _to_micros(count: int | None) -> int | None:
    """Microseconds of a count of seconds, milli-, micro- or nanoseconds, by its size.

    Below 10^11 it counts seconds (until the year 5138), below a thousand times that milliseconds
    (from the spring of 1973), and so on.
    """
    if count is None or count >= _LARGEST_TIME:
        return None
    if count < _LARGEST_SECONDS:
        return count * 1_000_000
    if count < _LARGEST_SECONDS * 1_000:
        return count * 1_000
    return count if count < _LARGEST_SECONDS * 1_000_000 else count // 1_000
