"""A table built anew from bronze beside the live one, killed on the way, and swapped in."""

from pathlib import Path

import pytest

from cdc_lakehouse.cli.check.dead_letters import acknowledge_letters
from cdc_lakehouse.cli.work.erase import Erasure, erase_key
from cdc_lakehouse.cli.work.rebuild import rebuild_table
from gold import job as gold
from lakehouse.config.table import Table
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake
from silver import job as silver
from silver import table_run
from silver.audit.verify import verify
from silver.changelog.dead_letter_list import Wanted, dead_letters
from silver.maintenance import swap
from tests.helpers.arrivals import applied, arrive
from tests.helpers.lakes import quiet, rows

pytestmark = pytest.mark.slow

ITEMS = Table.model_validate(
    {
        "table": "t",
        "source": {"format": "rows", "path": "t"},
        "keys": ["id"],
        "columns": {"id": "int", "v": "string", "w": "string", "seq": "bigint"},
        "sequence_by": "seq",
    }
)
HISTORY = Table.model_validate(
    ITEMS.model_dump(exclude_unset=True)
    | {"stored_as_scd_type": 2, "except_column_list": ["w"], "columns": {"id": "int"}}
)


class Killed(BaseException):
    """Stands for the end of the process."""


def killed(*_: object) -> None:
    raise Killed


def kill_rebuild(lake: Lake, table: Table, monkeypatch: pytest.MonkeyPatch) -> None:
    """A rebuild that ends when its log is written and its table is not."""
    with monkeypatch.context() as patched:
        patched.setattr(table_run, "write_batch", killed)
        with pytest.raises(Killed):
            rebuild_table(lake, table, quiet, [table])


def change(key: int, seq: int) -> dict[str, object]:
    return {"id": key, "v": f"v{seq}", "w": "w", "seq": seq}


def published(lake: Lake, table: Table) -> list[str]:
    applied(lake, table)
    gold.publish(lake, [table], "run", quiet)
    return shown(lake)


def shown(lake: Lake, view: str = "t") -> list[str]:
    return sorted(f"{row['id']} {row['v']}" for row in rows(lake, view))


def test_a_damaged_table_is_built_anew_from_bronze(lake: Lake) -> None:
    slip = {"id": 9, "v": "x", "w": "w"}
    arrive(lake, ITEMS, [change(1, 1), change(2, 2), change(1, 3), slip], 1)
    assert published(lake, ITEMS) == ["1 v3", "2 v2"]
    assert acknowledge_letters(lake, [ITEMS], Wanted(), "a slip") == [("t", 1)]
    name = lake.name("silver", "t")
    lake.spark.sql(f"UPDATE {name} SET v = 'wrong' WHERE id = 1")
    arrive(lake, ITEMS, [change(3, 4)], 2)
    told: list[str] = []
    rebuild_table(lake, ITEMS, told.append, [ITEMS])
    assert shown(lake) == ["1 v3", "2 v2", "3 v4"]
    assert "  1 dead letter  " in " ".join(told)
    open_, every = (dead_letters(lake, [ITEMS], Wanted(resolved=r)) for r in (False, True))
    assert open_ is not None and open_.isEmpty()
    assert every is not None and [row["acknowledged"] for row in every.collect()] == ["a slip"]
    assert swap.list_unfinished(lake) == []
    arrive(lake, ITEMS, [change(2, 5)], 3)
    assert published(lake, ITEMS) == ["1 v3", "2 v5", "3 v4"]
    entries = ledger.read_entries(lake).where("layer = 'silver'").collect()
    assert [e["counts"].get("rebuilt") for e in entries if "rebuilt" in e["counts"]] == [5]


def test_a_rebuild_that_goes_on_after_runs_of_the_live_table_lets_nothing_be_read_twice(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(lake, ITEMS, [change(1, 1)], 1)
    published(lake, ITEMS)
    kill_rebuild(lake, ITEMS, monkeypatch)
    for batch in (2, 3, 4):
        arrive(lake, ITEMS, [change(batch, batch)], batch)
        applied(lake, ITEMS)
    arrive(lake, ITEMS, [change(5, 5)], 5)
    rebuild_table(lake, ITEMS, quiet, [ITEMS])
    assert shown(lake) == [f"{n} v{n}" for n in range(1, 6)]
    applied(lake, ITEMS)
    assert [law.law for law in verify(lake, ITEMS, {}) if not law.holds] == []
    arrive(lake, ITEMS, [change(6, 6)], 6)
    assert published(lake, ITEMS) == [f"{n} v{n}" for n in range(1, 7)]


def test_an_erasure_drops_the_rebuild_that_was_killed(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(lake, ITEMS, [change(1, 1), {"id": 2, "v": "to be forgotten", "seq": 2}], 1)
    published(lake, ITEMS)
    kill_rebuild(lake, ITEMS, monkeypatch)
    erase_key(lake, Erasure(ITEMS, {"id": "2"}, False, quiet), [ITEMS])
    assert swap.list_unfinished(lake) == []
    rebuild_table(lake, ITEMS, quiet, [ITEMS])
    assert shown(lake) == ["1 v1"]


def test_readers_see_the_old_state_until_a_killed_swap_is_ended(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    arrive(lake, ITEMS, [change(1, 1), change(2, 2), change(1, 3)], 1)
    assert published(lake, ITEMS) == ["1 v3", "2 v2"]
    kill_rebuild(lake, HISTORY, monkeypatch)
    (begun,) = swap.list_unfinished(lake)
    assert begun.step == swap.BUILDING
    half_swapped = Path(lake.target.lake, "silver", "t_history")
    (half_swapped / "_delta_log").mkdir(parents=True)
    (half_swapped / "part-0.zstd.parquet").write_bytes(b"no commit knows it")
    with monkeypatch.context() as patched:
        patched.setattr(swap, "_record_swap", killed)
        with pytest.raises(Killed):
            rebuild_table(lake, HISTORY, quiet, [HISTORY])
    (swapping,) = swap.list_unfinished(lake)
    assert swapping == begun._replace(step=swap.SWAPPING)
    assert lake.exists("silver", "t_history")
    assert shown(lake) == ["1 v3", "2 v2"]
    assert rows(lake, "t")[0].keys() == {"id", "v", "w", "seq"}
    arrive(lake, HISTORY, [change(2, 4)], 2)
    assert published(lake, HISTORY) == ["1 v3", "2 v4"]
    assert shown(lake, "t_history") == ["1 v1", "1 v3", "2 v2", "2 v4"]
    assert rows(lake, "t")[0].keys() == {"id", "v", "seq"}
    assert swap.list_unfinished(lake) == []


def test_what_delta_writes_into_its_properties_is_not_set_by_a_swap(lake: Lake) -> None:
    arrive(lake, ITEMS, [change(1, 1)], 1)
    assert published(lake, ITEMS) == ["1 v1"]
    tracking = "spark.databricks.delta.properties.defaults.enableRowTracking"
    lake.spark.conf.set(tracking, "true")
    try:
        rebuild_table(lake, ITEMS, quiet, [ITEMS])
    finally:
        lake.spark.conf.unset(tracking)
    assert shown(lake) == ["1 v1"]


def test_a_swap_that_fails_fails_its_own_table_alone_and_a_rebuild_mends_it(
    lake: Lake, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = Table.model_validate(
        ITEMS.model_dump(exclude_unset=True)
        | {"table": "o", "source": {"format": "rows", "path": "o"}}
    )
    for table in (ITEMS, other):
        arrive(lake, table, [change(1, 1)], 1)
    silver.apply_all(lake, [ITEMS, other], "run", quiet)

    def fail(*_: object) -> None:
        raise ValueError("a property that cannot be set")

    with monkeypatch.context() as patched:
        patched.setattr(swap, "_replace_own", fail)
        with pytest.raises(ValueError, match="cannot be set"):
            rebuild_table(lake, ITEMS, quiet, [ITEMS])
        arrive(lake, other, [change(2, 2)], 2)
        entries = silver.apply_all(lake, [ITEMS, other], "run", quiet)
        assert {entry.table: entry.status for entry in entries} == {"t": "failed", "o": "ok"}
        (message,) = [entry.message or "" for entry in entries if entry.table == "t"]
        assert "a property that cannot be set" in message
        assert message.endswith("do: lakehouse rebuild t")
        assert lake.spark.table(lake.name("silver", "o")).count() == 2
        with pytest.raises(ValueError, match="cannot be set"):
            rebuild_table(lake, ITEMS, quiet, [ITEMS])

    rebuild_table(lake, ITEMS, quiet, [ITEMS])
    assert shown(lake) == ["1 v1"]
    entries = silver.apply_all(lake, [ITEMS, other], "run", quiet)
    assert {entry.status for entry in entries} == {"ok"}
