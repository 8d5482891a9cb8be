"""The law for every format, in the current table and in the history.

Ten keys live through random changes. They arrive in any order, cut anywhere, some of them twice,
and each batch may be killed between two commits and started again. The tables are the oracle's.
"""

import os
from collections.abc import Callable
from datetime import datetime, timezone
from itertools import pairwise
from random import Random
from typing import Any, NamedTuple

import pytest

from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from tests.helpers import flat, oracle
from tests.helpers.builders import table
from tests.helpers.flat import Stop
from tests.helpers.oracle import Event

pytestmark = pytest.mark.slow

SEED = int(os.environ.get("LAKEHOUSE_SEED", "7"))
KEYS = range(1, 11)
STOPS: list[Stop | None] = [None, "after the log", "after the table", "after all"]
COLUMNS = {"id": "int", "a": "string", "b": "string"}
GROUPED = {**COLUMNS, "stock": "int", "version": "int"}
ROWS: dict[str, Any] = {
    "source": {"time_column": "_time"},
    "sequence_by": "_seq",
    "apply_as_deletes": "_op = 'D'",
    "apply_as_truncates": "_op = 'T'",
}


class Case(NamedTuple):
    """A table, how an event looks in its format, and what may happen to it."""

    config: Table
    line: Callable[[Event], dict[str, Any]]
    truncates: bool = False
    values: tuple[str, ...] = ("a", "b")


def row(event: Event) -> dict[str, Any]:
    kind = {"delete": "D", "truncate": "T"}.get(event.operation, "U")
    place = {"_seq": event.sequence, "_time": event.sequence, "_op": kind}
    return place | {"id": event.key} | dict(event.values)


def row_with_nulls(event: Event) -> dict[str, Any]:
    return {"a": None, "b": None} | row(event)


def row_that_names_its_columns(event: Event) -> dict[str, Any]:
    return {"a": "?", "b": "?"} | row(event) | {"changed": [name for name, _ in event.values]}


def ydb_update(event: Event) -> dict[str, Any]:
    change = {"erase": {}} if event.operation == "delete" else {"update": dict(event.values)}
    return {"key": [event.key], **change, "ts": [event.sequence, 1]}


def bigquery_row(event: Event) -> dict[str, Any]:
    number = f"{event.sequence // 16:x}/{event.sequence % 16:X}"
    place = {"_CHANGE_SEQUENCE_NUMBER": number, "_time": event.sequence}
    return place | {"_CHANGE_TYPE": event.operation.upper(), "id": event.key} | dict(event.values)


GROUPS: dict[str, Any] = {
    "columns": GROUPED,
    "sequence_groups": [{"sequence_by": "version", "columns": ["stock"]}],
    "on_delete": "flag",
}
GROUP = ("a", "b", "stock", "version")
HISTORY: dict[str, Any] = {"stored_as_scd_type": 2}
PLAIN: dict[str, Any] = {"columns": COLUMNS}
CASES = {
    "rows, groups": Case(table("rows", ["id"], **ROWS, **GROUPS), row, False, GROUP),
    "rows, groups, history": Case(
        table("rows", ["id"], **ROWS, **GROUPS, **HISTORY, track_history_except_column_list=["b"]),
        row,
        False,
        GROUP,
    ),
    "rows, nulls ignored": Case(
        table("rows", ["id"], **ROWS, **PLAIN, ignore_null_updates=True), row_with_nulls, True
    ),
    "rows, columns named, history": Case(
        table("rows", ["id"], **ROWS, **PLAIN, **HISTORY, columns_to_update="changed"),
        row_that_names_its_columns,
        True,
    ),
    "rows, flagged": Case(table("rows", ["id"], **ROWS, **PLAIN, on_delete="flag"), row, True),
    "rows, flagged, history": Case(
        table("rows", ["id"], **ROWS, **PLAIN, **HISTORY, on_delete="flag"), row, True
    ),
    "rows, columns not declared": Case(table("rows", ["id"], **ROWS), row, True),
    "rows, columns not declared, history": Case(
        table("rows", ["id"], **ROWS, **HISTORY), row, True
    ),
    "ydb": Case(table("ydb", ["id"], **PLAIN), ydb_update),
    "ydb, history": Case(table("ydb", ["id"], **PLAIN, **HISTORY), ydb_update),
    "bigquery": Case(
        table("bigquery", ["id"], source={"time_column": "_time"}, **PLAIN), bigquery_row
    ),
    "bigquery, history": Case(
        table("bigquery", ["id"], source={"time_column": "_time"}, **PLAIN, **HISTORY), bigquery_row
    ),
}


@pytest.mark.parametrize("name", CASES)
def test_any_delivery_in_any_format_gives_the_oracles_tables(lake: Lake, name: str) -> None:
    case, random = CASES[name], Random(f"{SEED} {name}")
    events = stream(random, case)
    delivered = [*events, *random.sample(events, len(events) // 5)]
    random.shuffle(delivered)
    if not case.config.columns:
        delivered.sort(key=lambda event: "b" in dict(event.values))
    cuts = sorted(random.sample(range(1, len(delivered)), 2))
    batches = [delivered[: cuts[0]], delivered[cuts[0] : cuts[1]], delivered[cuts[1] :]]
    for done, batch in enumerate(batches):
        stop = random.choice(STOPS)
        flat.deliver(lake, case.config, [case.line(e) for e in batch], done, stop)
    check(lake, case, events)


def stream(random: Random, case: Case) -> list[Event]:
    """What happens to the keys: upserts whole and partial, deletes, truncates."""
    places = random.sample(range(0, 1000, 2), len(KEYS) * 6)
    events = [change(random, case, key, places.pop()) for key in KEYS for _ in range(6)]
    truncates = random.sample(range(1, 700, 2), 2) if case.truncates else []
    events += [Event("truncate", place, time=place) for place in truncates]
    return events


def change(random: Random, case: Case, key: int, place: int) -> Event:
    if random.random() < 0.2:
        return Event("delete", place, key, time=place)
    carried = random.sample(["a", "b"], random.randint(1, 2))
    values: dict[str, Any] = {column: random.choice("xyz") for column in carried}
    orders: tuple[tuple[str, int], ...] = ()
    if case.config.sequence_groups and random.random() < 0.7:
        version = random.randint(1, 6)
        values |= {"stock": place, "version": version}
        orders = (("stock", version), ("version", version))
    return Event("upsert", place, key, tuple(values.items()), time=place, orders=orders)


def check(lake: Lake, case: Case, events: list[Event]) -> None:
    excepted = case.config.track_history_except_column_list or []
    tracked = [column for column in case.values if column not in excepted]
    want = oracle.outcome(set(events), [*case.values], tracked)
    flagged = case.config.on_delete == "flag"
    names = ["id", *case.values, *(["is_deleted"] if flagged else [])]
    live = [(key, *row.values(), False) for key, row in want.current.items()]
    gone = [(key, *row.values(), True) for key, row in want.flagged.items() if flagged]
    rows = [one if flagged else one[:-1] for one in (*live, *gone)]
    shown = flat.shown(lake, case.config).select(*names)
    assert flat.rows(shown) == sorted(rows, key=repr)
    if case.config.stored_as_scd_type == 2:
        columns = ("id", "valid_from", "valid_to", *case.values)
        view = flat.shown(lake, case.config, "t_history")
        versions = [tuple(r) for r in view.select(*columns).collect()]
        found = [(r[0], seconds(r[1]), seconds(r[2]), *r[3:]) for r in versions]
        assert sorted(found, key=repr) == want.history
        obey_the_laws(found, want, events)


def obey_the_laws(found: list[Any], want: oracle.Outcome, events: list[Event]) -> None:
    """No versions overlap, gaps come after deletes only, open versions are the current rows."""
    ends = {(e.key, e.time) for e in events if e.operation == "delete"}
    cuts = {e.time for e in events if e.operation == "truncate"}
    for key in {version[0] for version in found}:
        versions = sorted(v for v in found if v[0] == key)
        for earlier, later in pairwise(versions):
            assert earlier[2] is not None and earlier[2] <= later[1]
            gap = earlier[2] < later[1]
            assert not gap or (key, earlier[2]) in ends or earlier[2] in cuts
    current = {v[0]: [*v[3:]] for v in found if v[2] is None}
    assert current == {key: [*row.values()] for key, row in want.current.items()}


def seconds(time: datetime | None) -> int | None:
    return None if time is None else int(time.replace(tzinfo=timezone.utc).timestamp())
