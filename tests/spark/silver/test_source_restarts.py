"""A source moves to another server, whose positions start anew: no change is lost in silence."""

from typing import Any

import pytest
from pyspark.sql import functions as F

from cdc_lakehouse.cli.work.rebuild import rebuild_table
from cdc_lakehouse.cli.work.rounds import Round, do_layer
from gold import job as gold
from gold.views import agreement
from lakehouse.config.table import Table
from lakehouse.run import gaps
from lakehouse.storage.lake import Lake
from silver.audit.verify import verify
from silver.changelog import log
from silver.decode.debezium.events.source_log import from_text
from silver.maintenance.replay import replay_table
from silver.run import SilverTable
from silver.state.table_state import read_state
from tests.helpers import lakes
from tests.helpers.lakes import quiet
from tests.helpers.landed import apply, failures, land

pytestmark = pytest.mark.slow

Record = dict[str, Any]

MOVED = [(1, "Bergen"), (3, "Rome"), (4, "Kiev")]


def table(source: dict[str, Any] | None = None, **options: Any) -> Table:
    feed = {"format": "debezium", "path": "t"} | (source or {})
    columns = {"id": "int", "city": "string"}
    return Table.model_validate(
        {"table": "t", "source": feed, "keys": ["id"], "columns": columns} | options
    )


def record(offset: int, op: str, key: int, city: str, seconds: int, **source: Any) -> Record:
    row = {"id": key, "city": city}
    value = {
        "before": None if op in "cr" else row,
        "after": None if op == "d" else row,
        "op": op,
        "source": {"name": "erp", "ts_ms": 1_760_000_000_000 + 1000 * seconds} | source,
    }
    return {"topic": "t", "partition": 0, "offset": offset, "key": {"id": key}, "value": value}


def mysql(offset: int, op: str, key: int, city: str, at: tuple[str, int, int]) -> Record:
    """A change of a server (`a` or `b`) at a position, so many seconds after the first."""
    server, pos, seconds = at
    files = {"a": "mysql-bin.000042", "b": "binlog.000002"}
    gtid = f"{server * 8}-0000-11ee-8000-000000000001:{pos}"
    told = {"server_id": ord(server), "gtid": gtid, "file": files[server], "pos": pos, "row": 0}
    return record(offset, op, key, city, seconds, connector="mysql", **told)


MYSQL = [
    mysql(0, "c", 1, "Oslo", ("a", 900, 0)),
    mysql(1, "c", 2, "Bern", ("a", 1200, 1)),
    mysql(2, "c", 4, "Kyiv", ("a", 1300, 2)),
    mysql(3, "c", 2, "Bern", ("a", 1200, 1)),
    mysql(4, "u", 1, "Bergen", ("b", 450, 3600)),
    mysql(5, "d", 2, "Bern", ("b", 800, 3601)),
    mysql(6, "c", 1, "Oslo", ("a", 900, 0)),
    mysql(7, "c", 3, "Rome", ("b", 990, 3602)),
    mysql(8, "u", 4, "Kiev", ("b", 995, 3603)),
    mysql(9, "u", 4, "Kiev", ("b", 995, 3603)),
]  # fmt: skip


def rows(lake: Lake, config: Table) -> list[tuple[Any, ...]]:
    gold.publish(lake, [config], "run", quiet)
    return sorted((row["id"], row["city"]) for row in lakes.rows(lake, "t"))


def epochs(lake: Lake) -> int:
    return len(read_state(lake, "t").whole.epochs)


@pytest.mark.parametrize(
    ("order", "options"),
    [
        ([10], {}),
        ([4, 3, 3], {"stored_as_scd_type": 2}),
        ([2, 2, 1, 5], {"max_staleness": 0}),
        ([3, 3, 4], {"consistency_group": "shop"}),
    ],
    ids=str,
)
def test_mysql_fails_over_to_a_server_whose_positions_are_lower(
    lake: Lake, order: list[int], options: dict[str, Any]
) -> None:
    config, left = table(**options), MYSQL
    for batch, size in enumerate(order, start=1):
        land(lake, config, batch, left[:size])
        left = left[size:]
        assert failures(apply(lake, config)) == []
    assert rows(lake, config) == MOVED
    assert gaps.open_gaps(lake) == []
    if "max_staleness" not in options:
        assert epochs(lake) == 1
        laws = verify(lake, config, agreement.build_gold_laws(lake, config))
        assert {law.law: law.first for law in laws if not law.holds} == {}
    rebuild_table(lake, config, quiet, [config])
    assert (rows(lake, config), epochs(lake)) == (MOVED, 1)


def test_records_that_come_after_those_that_follow_them_count_at_their_own_place(
    lake: Lake,
) -> None:
    config = table()
    for batch, part in enumerate((MYSQL[4:7], MYSQL[:4], MYSQL[7:]), start=1):
        land(lake, config, batch, part)
        assert failures(apply(lake, config)) == []
    assert rows(lake, config) == MOVED


def test_a_run_that_was_killed_after_its_log_was_written_finds_the_same(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    config = table()
    land(lake, config, 1, MYSQL[:4])
    apply(lake, config)
    land(lake, config, 2, MYSQL[4:])
    with monkeypatch.context() as patched:
        patched.setattr("silver.table_run.write_batch", _fail)
        assert failures(apply(lake, config)) == ["killed"]
    assert failures(apply(lake, config)) == []
    assert (rows(lake, config), epochs(lake)) == (MOVED, 1)
    reached = from_text(read_state(lake, "t").logs["t/0 erp"])
    assert (int(reached.place), reached.again_from, reached.alarmed) == (9, None, False)


def _fail(*_: object) -> None:
    raise OSError("killed")


def told(lake: Lake) -> set[str]:
    """What the change log tells of the source's log."""
    return set(log.read_source_log(lake.spark.table(lake.name("silver", "t_changes"))))


def test_a_dead_letter_that_is_replayed_tells_nothing_twice(lake: Lake) -> None:
    rule = {"type": "expect_column_values_to_not_be_in_set", "column": "city"}
    strict = table(expectations=[rule | {"value_set": ["Rome"], "severity": "critical"}])
    land(lake, strict, 1, MYSQL[:8])
    assert failures(apply(lake, strict)) == []
    before, config, texts = read_state(lake, "t"), table(), told(lake)

    assert replay_table(SilverTable(lake, config), F.lit(True), "replay").resolved == 1

    after = read_state(lake, "t")
    assert (after.logs, after.whole) == (before.logs, before.whole)
    assert told(lake) == texts
    land(lake, config, 2, MYSQL[8:])
    assert failures(apply(lake, config)) == []
    assert (rows(lake, config), epochs(lake)) == (MOVED, 1)


def postgresql(offset: int, op: str, key: int, city: str, at: tuple[int, int, int]) -> Record:
    commit, lsn, seconds = at
    told = {"lsn": lsn, "sequence": f'["{commit}","{lsn}"]'}
    return record(offset, op, key, city, seconds, connector="postgresql", **told)


@pytest.mark.parametrize("order", [[7], [2, 3, 2]], ids=str)
def test_postgresql_is_restored_into_a_cluster_whose_positions_are_lower(
    lake: Lake, order: list[int]
) -> None:
    left = [
        postgresql(0, "c", 1, "Oslo", (5000, 5010, 0)),
        postgresql(1, "c", 2, "Bern", (5020, 5015, 1)),
        postgresql(2, "c", 4, "Kyiv", (5030, 5035, 2)),
        postgresql(3, "u", 1, "Bergen", (900, 910, 3600)),
        postgresql(4, "d", 2, "Bern", (920, 930, 3601)),
        postgresql(5, "c", 3, "Rome", (940, 935, 3602)),
        postgresql(6, "u", 4, "Kiev", (950, 960, 3603)),
    ]
    config = table()
    for batch, size in enumerate(order, start=1):
        land(lake, config, batch, left[:size])
        left = left[size:]
        assert failures(apply(lake, config)) == []
    assert (rows(lake, config), epochs(lake)) == (MOVED, 1)
    assert gaps.open_gaps(lake) == []


@pytest.mark.parametrize("moves", [False, True])
def test_records_that_come_again_in_the_next_batch_are_looked_at_once_more(
    lake: Lake, moves: bool
) -> None:
    """They go on with new ones of the same log, or of another one that begins just there."""
    config = table()
    first = [
        postgresql(0, "c", 1, "Oslo", (5000, 5010, 0)),
        postgresql(1, "c", 2, "Bern", (5020, 5030, 1)),
        postgresql(2, "u", 2, "Basel", (5040, 5050, 2)),
    ]
    again = [one | {"offset": at} for at, one in enumerate(first, start=3)]
    if moves:
        again = [again[0], postgresql(4, "u", 2, "Biel", (5015, 5025, 60))]
    land(lake, config, 1, first)
    apply(lake, config)
    land(lake, config, 2, [*again, postgresql(6, "c", 3, "Rome", (5060, 5070, 90))])

    assert failures(apply(lake, config)) == []

    alarms = [(gap.kind, gap.first, gap.last) for gap in gaps.open_gaps(lake)]
    assert alarms == ([("positions", 3, 4)] if moves else [])
    known = read_state(lake, "t").whole.epochs
    assert [epoch.number for epoch in known] == ([1] if moves else [])
    left = [(2, "Biel" if moves else "Basel"), (3, "Rome")]
    assert rows(lake, config) == [(1, "Oslo"), *left]


def sqlserver(offset: int, op: str, key: int, city: str, at: tuple[int, int]) -> Record:
    commit, seconds = at
    lsn = f"{commit:08x}:00000d50:0003"
    told = {"commit_lsn": lsn, "change_lsn": lsn, "event_serial_no": 1, "db": "erp"}
    if op == "r":
        told["snapshot"] = "last"
    return record(offset, op, key, city, seconds, connector="sqlserver", **told)


def run(lake: Lake, config: Table) -> str | None:
    (entry,) = do_layer(Round(lake, "r1"), [config], "silver", quiet)
    return entry.message


def test_positions_that_run_backwards_without_a_proof_are_an_alarm(lake: Lake) -> None:
    config, goes_on = table(), table({"on_data_loss": "continue"})
    land(lake, config, 1, [sqlserver(0, "c", 1, "Oslo", (42, 0))])
    assert run(lake, config) is None
    moved = [sqlserver(1, "u", 1, "Bergen", (7, 60)), sqlserver(2, "c", 3, "Rome", (8, 61))]
    land(lake, config, 2, moved)

    found = run(lake, config)

    assert found is not None
    assert "positions run backwards from offset 1 of t/0 on: 0000002A" in found
    assert "lakehouse rebootstrap t" in found
    assert run(lake, config) == found
    assert run(lake, goes_on) is None
    (shown,) = lakes.status(lake, [config])
    assert [(gap["kind"], gap["from"], gap["to"]) for gap in shown["gaps"]] == [("positions", 1, 1)]
    assert shown["order"] == "source"

    snapshot = sqlserver(3, "r", 1, "Bergen", (9, 3_000_000_000))
    land(lake, config, 3, [snapshot])
    assert run(lake, config) is None
    assert gaps.open_gaps(lake) == []
    assert rows(lake, config) == [(1, "Bergen")]


def test_records_without_positions_and_keys_with_more_parts_are_told(lake: Lake) -> None:
    config, first = table(), record(0, "c", 1, "Oslo", 0, connector="risingwave")
    land(lake, config, 1, [first | {"key": {"id": 1, "tenant": "x"}}])
    assert failures(apply(lake, config)) == []
    (shown,) = lakes.status(lake, [config])
    assert (shown["order"], shown["key_parts"]) == ("arrival", ["tenant"])
    assert lake.exists("silver", "t")


def test_a_key_that_only_an_invented_old_row_has_is_told(lake: Lake) -> None:
    columns = {"id": "int", "city": "string"}
    config, told = table(keys=["id", "city"], columns=columns), {"connector": "postgresql"}
    inserted = record(0, "c", 1, "Oslo", 0, lsn=10, **told)
    land(lake, config, 1, [inserted])
    assert failures(apply(lake, config)) == []
    assert lakes.status(lake, [config])[0]["lacked_keys"] == []
    land(lake, config, 2, [record(1, "d", 1, "", 1, lsn=20, **told)])
    assert failures(apply(lake, config)) == []
    (shown,) = lakes.status(lake, [config])
    assert shown["lacked_keys"] == ["city"]
    assert rows(lake, config) == [(1, "Oslo")]


def arrived(offset: int, op: str, key: int, city: str, seconds: int | None) -> Record:
    """A record without a position, which is ordered by its offset."""
    found = record(offset, op, key, city, seconds or 0, connector="risingwave")
    if seconds is None:
        del found["value"]["source"]["ts_ms"]
    return found


def test_a_topic_that_is_made_anew_below_a_snapshot_is_an_alarm(lake: Lake) -> None:
    config = table()
    snapshot = postgresql(1000, "r", 1, "Oslo", (500, 510, 0))
    snapshot["value"]["source"] |= {"snapshot": "last"}
    land(lake, config, 1, [snapshot, postgresql(1001, "c", 2, "Bern", (520, 530, 1))])
    assert failures(apply(lake, config)) == []
    new = [
        postgresql(0, "u", 1, "Bergen", (600, 610, 60)),
        postgresql(1, "d", 2, "Bern", (620, 630, 61)),
    ]
    land(lake, config, 2, new)
    found = run(lake, config)
    assert found is not None
    assert "positions run backwards from offset 0 of t/0 on: up to offset 1001" in found


def test_a_topic_that_is_made_anew_is_an_alarm(lake: Lake) -> None:
    config = table()
    land(lake, config, 1, [arrived(0, "c", 1, "Oslo", 0), arrived(3, "c", 2, "Bern", 3)])
    land(lake, config, 2, [arrived(1, "c", 3, "Rome", 1), arrived(2, "u", 1, "Bodo", 60)])
    found = run(lake, config)
    assert found is not None
    assert "positions run backwards from offset 2 of t/0 on: up to offset 3 of 2025" in found
    assert "the topic seems to be made anew" in found
