"""What the tasks tell of a batch that they write, and what a look at the log tells afterwards."""

from datetime import datetime, timedelta, timezone
from typing import Any

import pytest
from pyspark.sql import functions as F

from lakehouse.storage.lake import Lake
from silver.changelog import bronze_rows, log
from silver.changelog.extend import extend_log
from silver.run import Run, SilverTable
from silver.state.epochs import add_order_keys, filter_changes
from silver.state.key_ranges import list_bounded_keys
from silver.state.summary import summarize
from silver.state.table_state import TableState
from tests.helpers.debezium_records import event, table
from tests.helpers.lakes import quiet
from tests.helpers.landed import land

PLAIN = table()


def at(lsn: int, **more: object) -> dict[str, Any]:
    source = {"connector": "postgresql", "name": "shop", "ts_us": 1_000_000 * lsn}
    return {"source": source | {"lsn": lsn} | more}


def taken(lsn: int, id: int, mark: str = "true") -> Any:
    return event("r", after={"id": id, "name": "a"}, **at(lsn, snapshot=mark))


STREAMED: list[Any] = [
    event("c", after={"id": 3, "name": "a"}, **at(30)),
    event("u", after={"id": 3, "name": "b"}, **at(25)),
    event("d", before={"id": 4, "name": ""}, **at(40)),
    event("t", **at(33)),
    "no JSON",
    event("c", after={"id": "x", "name": "a"}, **at(50)),
]


def extend(lake: Lake, state: TableState, records: list[Any]) -> TableState:
    """The state once the records are in the log; `waits` is the summary of these alone."""
    batch = state.logged + 1
    land(lake, PLAIN, batch, records)
    feeds = bronze_rows.find_arrived(lake, [PLAIN], {"t": state.positions})
    of = SilverTable(lake, PLAIN)
    applied = state.replace(batch=state.logged, waits=None)
    return extend_log(Run("run", quiet), of, applied, state.logged, feeds)


@pytest.mark.parametrize(
    "records",
    [
        pytest.param(STREAMED, id="streamed", marks=pytest.mark.slow),
        pytest.param(
            [taken(28, 1), taken(28, 2, "last"), *STREAMED],
            id="with a snapshot",
            marks=pytest.mark.slow,
        ),
        pytest.param([taken(27, 1), *STREAMED, taken(60, 2, "last")], id="with two snapshots"),
    ],
)
def test_the_tasks_tell_what_the_log_holds(lake: Lake, records: list[Any]) -> None:
    before = datetime.now(timezone.utc)
    first = [taken(20, 1), taken(20, 2, "last"), event("c", after={"id": 9}, **at(21))]
    state = extend(lake, TableState(), first)
    state = extend(lake, state, records)
    told = state.waits
    assert told is not None and told.came is not None
    written = log.read_log(SilverTable(lake, PLAIN)).where("_batch = 2")
    found = summarize(written, list_bounded_keys(PLAIN, written.schema))
    assert told.replace(came=None, first_order=None, last_order=None) == found
    assert found.rejected == {"not_json": 1, "bad_value": 1} and found.keys and found.truncates
    came = datetime.fromtimestamp(told.came / 1_000_000, timezone.utc)
    assert before - timedelta(seconds=1) < came < datetime.now(timezone.utc)


@pytest.mark.slow
def test_no_order_key_is_outside_of_the_bounds_that_the_tasks_tell(lake: Lake) -> None:
    first = [taken(20, 1), taken(20, 2, "last"), STREAMED[0]]
    batches, state = [first, STREAMED, [taken(60, 1), *STREAMED]], TableState()
    for number, records in enumerate(batches, 1):
        state = extend(lake, state, records)
        assert state.waits is not None
        progress = [*state.whole.snapshot_progress, *state.waits.snapshot_progress]
        state = state.replace(whole=state.whole._replace(snapshot_progress=progress))
        rows = log.read_log(SilverTable(lake, PLAIN)).where(f"_batch = {number}")
        ordered = filter_changes(add_order_keys(rows, PLAIN, state.whole.epochs))
        [ends] = ordered.agg(F.min("_order"), F.max("_order")).collect()
        first_order, last_order = state.waits.first_order, state.waits.last_order
        assert first_order is not None and last_order is not None
        lowest, highest = map(bytes, ends)
        assert first_order <= lowest and highest <= last_order
        if number < len(batches):  # to the last snapshot belongs none of what was committed before
            assert (first_order, last_order) == (lowest, highest)
