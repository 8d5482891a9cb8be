"""A null in a key is a value like any other, wherever keys are compared."""

import json
from typing import Any

import pytest

from cdc_lakehouse.cli.work.erase import Erasure, erase_key
from gold import job as gold
from gold.views import agreement
from lakehouse.config.table import Table
from lakehouse.storage.lake import Lake
from silver.audit.explain import explain
from silver.audit.verify import verify
from tests.helpers import extract_lake, lakes
from tests.helpers.arrivals import applied
from tests.helpers.builders import Line, table

pytestmark = pytest.mark.slow

KEYS = ["tenant", "id"]
COLUMNS = {"tenant": "string", "id": "int", "name": "string", "qty": "int"}
NULL = {"tenant": None, "id": "1"}


def change(key: list[Any], step: int, **values: Any) -> dict[str, Any]:
    """An update, or without values an erase."""
    return {"key": key, "ts": [1_760_000_000 + step, 1]} | (
        {"update": values} if values else {"erase": {}}
    )


FIRST: list[Line] = [
    change(["t", 1], 1, name="a", qty=1),
    change([None, 1], 2, name="b", qty=1),
    change([None, 2], 3, name="c", qty=1),
    change([None, None], 4, name="d", qty=1),
]
SECOND: list[Line] = [
    change([None, 1], 6, name="B", qty=2),
    change([None, 1], 5, name="late", qty=2),
    change([None, 2], 7),
    change([None, None], 8, name="D", qty=2),
]
AFTER = {("t", 1): "a", (None, 1): "B", (None, None): "D"}


def config(scd: int = 1, **options: Any) -> Table:
    given = {"columns": COLUMNS, "stored_as_scd_type": scd}
    return table("ydb", KEYS, **(given | options))


def shown(lake: Lake) -> dict[tuple[str | None, int | None], str]:
    found = lakes.rows(lake, "t")
    rows = {(row["tenant"], row["id"]): row["name"] for row in found}
    assert len(rows) == len(found)
    return rows


def assert_verified(lake: Lake, of: Table) -> None:
    laws = verify(lake, of, agreement.build_gold_laws(lake, of))
    assert {law.law: law.first for law in laws if not law.holds} == {}


@pytest.mark.parametrize("scd", [1, 2])
def test_changes_meet_the_row_of_their_key(lake: Lake, scd: int) -> None:
    of = config(scd)
    for number, lines in enumerate([FIRST, SECOND], start=1):
        lakes.arrive(lake, of, lines, number)
        lakes.settle(lake, [of])

    assert shown(lake) == AFTER
    assert_verified(lake, of)
    *records, row = explain(lake, of, NULL)
    assert [line.sequence and line.sequence[:16] for line in records] == [
        f"{1_760_000_000 + step:016X}" for step in (2, 5, 6)
    ]
    assert json.loads(str(row.values)) == {"name": "B", "qty": 2}
    *records, row = explain(lake, of, {"tenant": None, "id": None})
    assert (len(records), json.loads(str(row.values))["name"]) == (2, "D")


def test_what_waits_is_laid_over_the_row_of_its_key(lake: Lake) -> None:
    waits = config(max_staleness="1 day")
    lakes.arrive(lake, waits, FIRST)
    lakes.settle(lake, [waits])
    lakes.arrive(lake, waits, SECOND, 2)
    assert applied(lake, waits, merges=False).counts == {"records": 4, "pending": 4}

    gold.publish(lake, [config(max_staleness=0)], "run", lakes.quiet)

    assert shown(lake) == AFTER


@pytest.mark.parametrize("scd", [1, 2])
def test_a_stale_key_is_hidden_and_no_other(lake: Lake, scd: int) -> None:
    of = config(scd, on_stale_key="hide")
    bad = [change([None, 1], 5, qty="many"), change([None, "x"], 6, qty=2), "no json"]
    lakes.arrive(lake, of, [*FIRST, *bad])
    lakes.settle(lake, [of])
    assert shown(lake) == {("t", 1): "a", (None, 2): "c", (None, None): "d"}


@pytest.mark.parametrize("id", ["1", pytest.param(None, id="all of it null")])
def test_a_key_with_a_null_is_erased_and_no_other(lake: Lake, id: str | None) -> None:
    of = config()
    lakes.arrive(lake, of, [*FIRST, *SECOND, "no json"])
    lakes.settle(lake, [of])
    told: list[str] = []
    key = {"tenant": None, "id": id}

    erase_key(lake, Erasure(of, key, False, told.append), [of])

    gone = (None, id and int(id))
    assert shown(lake) == {k: v for k, v in AFTER.items() if k != gone}
    assert "gone: " in told[-1]
    (row,) = explain(lake, of, key)
    assert row.outcome == "no row"
    letters = lake.spark.table(f"delta.`{lake.target.lake}/silver/t_dead_letters`")
    assert [row["reason"] for row in letters.collect()] == ["not_json"]


def debezium(op: str, id: int, lsn: int, big: str, headers: Any = None) -> dict[str, Any]:
    row = {"tenant": None, "id": id, "big": big}
    source = {"connector": "postgresql", "name": "s", "lsn": lsn, "ts_ms": lsn}
    value = {"op": op, "source": source, "before": row, "after": None if op == "d" else row}
    key = {"tenant": None, "id": id}
    record = {"topic": "s.p.t", "partition": 0, "offset": lsn, "key": key, "value": value}
    return record | {"headers": headers or {}}


def test_a_large_value_moves_from_a_key_with_a_null(lake: Lake) -> None:
    columns = {"tenant": {"type": "string", "nullable": True}, "id": "int", "big": "string"}
    of = table("debezium", KEYS, columns=columns)
    moved = {"__debezium.oldkey": {"tenant": None, "id": 1}}
    unavailable = debezium("c", 2, 3, "__debezium_unavailable_value", moved)
    batches = [
        [debezium("c", 1, 1, "stays")],
        [debezium("d", 1, 3, "stays"), unavailable | {"offset": 4}],
        [debezium("u", 1, 2, "changed")],
    ]
    for number, records in enumerate(batches, start=1):
        lakes.land(lake.target, "here", f"{number}.jsonl", [json.dumps(one) for one in records])
        lakes.run(lake, [of])

    (row,) = lakes.rows(lake, "t")
    assert (row["tenant"], row["id"], row["big"]) == (None, 2, "changed")


@pytest.mark.parametrize("mode", ["full", "delta"])
def test_snapshot_files_are_compared_by_keys_with_nulls(lake: Lake, mode: str) -> None:
    nullable = {"type": "string", "nullable": True}
    of = extract_lake.table(mode, keys=KEYS, columns={"tenant": nullable, "id": "int", "a": "int"})
    days = [[(None, 1, 1), ("t", 1, 1), (None, 2, 1)], [(None, 1, 2), ("t", 1, 1)]]
    for day, keys in enumerate(days, start=1):
        lines = [json.dumps({"tenant": t, "id": id, "a": a}) for t, id, a in keys]
        file = extract_lake.land(lake.target, f"2024-01-0{day}", "a", lines)
        extract_lake.ingest(lake, of, day, file)
        extract_lake.apply(lake, of)

    found = extract_lake.rows(lake, of, "t_changes")
    second = {
        (row["tenant"], row["id"], row["operation"], row["a"])
        for row in found
        if row["effective_date"].day == 2
    }
    missing = (None, 2, "D" if mode == "full" else "X", 1)
    assert second == {(None, 1, "U", 2), ("t", 1, "N", 1), missing}
    assert len(lakes.rows(lake, "t")) == (2 if mode == "full" else 3)
    assert_verified(lake, of)
