"""Where the positions of a table's source start anew: an epoch begins there, or an alarm is raised.

The tasks that decode a batch write down what its records show of the source's log (see
`silver.decode.debezium.events.log_follower`). From this and the positions that earlier batches had
reached follows where another log begins. A segment that a task saw only in part is read again from
bronze; so are all segments of the change log where records arrive in the wrong order.
"""

from collections.abc import Sequence
from dataclasses import replace
from datetime import datetime, timezone

from pyspark.sql import functions as F

from lakehouse.run import gaps
from lakehouse.run.gaps import Gap
from silver.changelog import bronze_rows, log
from silver.changelog.decoded_batch import RawBatch
from silver.decode.debezium.events.log_follower import segments_of
from silver.decode.debezium.events.source_log import (
    Alarm,
    Reached,
    Segment,
    find_restarts,
    from_text,
    is_late,
    to_text,
)
from silver.decode.spark import follow_log
from silver.run import Run, SilverTable
from silver.state.epochs import describe_restart, domain_column
from silver.state.table_state import TableState

_OFFSET_WIDTH, _BATCH_WIDTH = 20, 8


def follow_source(
    run: Run, table: SilverTable, state: TableState, texts: Sequence[str]
) -> TableState:
    """The state with the position of the source's log, and the epochs that begin with another log.

    Records a gap where positions run backwards and nothing shows another log.

    Args:
        run: the run.
        table: the table.
        state: the table's state without these two.
        texts: what the records of the newest batches show of the source's log, as JSON.
    """
    segments, reached = segments_of(texts), {n: from_text(t) for n, t in state.logs.items()}
    if is_late(segments, reached):
        segments, reached = segments_of(_all_texts(table, state)), {}

    def exact(segment: Segment, before: Reached) -> list[Segment]:
        return _followed_again(run, table, state, segment, before)

    result = find_restarts(segments, reached, exact)
    if table.target.aside is None:
        alarms = [_build_gap(table, alarm) for alarm in result.alarms]
        gaps.add_gaps(table.lake, alarms, run.id)
    began = map(describe_restart, result.restarts)
    snapshot_progress = list(dict.fromkeys([*state.whole.snapshot_progress, *began]))
    whole = state.whole._replace(snapshot_progress=snapshot_progress)
    logs = {name: to_text(reached) for name, reached in result.reached.items()}
    return state.replace(logs={**state.logs, **logs}, whole=whole)


def _all_texts(table: SilverTable, state: TableState) -> list[str]:
    rows = log.read_log(table)
    return log.read_source_log(rows.where(F.col("_batch") <= state.logged))


def _followed_again(
    run: Run, table: SilverTable, state: TableState, segment: Segment, before: Reached
) -> list[Segment]:
    """The segments within a segment, when one task reads its records with the position `before`."""
    first, last = segment.first, segment.last
    raw, by_offset = bronze_rows.read_all_rows(table), len(first) == len(last) == _OFFSET_WIDTH
    if by_offset:
        raw = raw.where(F.col("_offset").between(int(first), int(last)))
    else:
        raw = raw.where(F.col("_arrival").between(first, last))
    batch = RawBatch(table, state, raw.where(domain_column() == segment.domain))
    columns = replace(batch.load_columns(), reached={segment.name: before})
    followed = segments_of(follow_log(batch.raw, table.config, columns, by_offset))
    return [one for one in followed if one.name == segment.name]


def _build_gap(table: SilverTable, alarm: Alarm) -> Gap:
    """The alarm as a gap: it is shown, fails the run and is closed like any other gap."""
    topic, _, partition = alarm.domain.rpartition("/")
    feeds = bronze_rows.feeds_of(table.config)
    feed = next((f for f, topics in feeds.items() if topic in topics), next(iter(feeds)))
    before, after = alarm.before, alarm.after
    first, last = _parse_number(alarm.first), _parse_number(alarm.last)
    description = f"{_describe_position(*before)}, then {_describe_position(*after)}"
    if alarm.of_offsets:
        first = last = int(after[0], 16)
        last_old = _describe_position(str(int(before[0], 16) - 1), before[1])
        description = f"up to offset {last_old}, then offset"
        description += (
            f" {_describe_position(str(first), after[1])}: the topic seems to be made anew"
        )
    return Gap(
        table=table.name,
        feed=feed,
        topic=topic or None,
        partition=int(partition) if partition else None,
        kind="positions",
        transaction=description,
        first=first,
        last=last,
    )


def _parse_number(place: str) -> int:
    """The offset as a number; of an order of arrival, the ingest batch."""
    return int(place) if len(place) == _OFFSET_WIDTH else int(place[:_BATCH_WIDTH], 16)


def _describe_position(position: str, time: int) -> str:
    at = datetime.fromtimestamp(time / 1_000_000, timezone.utc)
    return f"{position} of {at.isoformat(sep=' ', timespec='milliseconds')}"
