"""`publish: table`: what other engines read in `lake/gold/T` is what gold shows."""

import json
import re
from pathlib import Path
from typing import Any
from unittest.mock import patch

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable
from pyspark.sql import DataFrame

from cdc_lakehouse.cli.work.erase import Erasure, erase_key
from cdc_lakehouse.cli.work.rebuild import rebuild_table
from gold import published
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.storage.lake import Lake
from lakehouse.storage.statements import Follower
from lakehouse.storage.views import load_views
from tests.helpers.lakes import land, run
from tests.helpers.lakes import rows as shown
from tests.pages.shell import ROOT

Row = dict[str, Any]
OPTIONS: dict[str, Any] = {
    "table": "orders",
    "source": {"format": "rows", "path": "orders"},
    "keys": ["id"],
    "columns": {"id": "bigint", "note": {"type": "string", "sensitive": True}, "odd name": "int"},
    "sequence_by": "at",
    "except_column_list": ["at", "op"],
    "apply_as_deletes": "op = 'D'",
    "apply_as_truncates": "op = 'T'",
    "publish": "table",
    "change_data_feed": True,
}


def orders(**more: Any) -> Table:
    return Table.model_validate(OPTIONS | more)


class Source:
    """Rows with a version that only grows."""

    def __init__(self, target: Target) -> None:
        self.target, self.at = target, 0

    def write(self, *rows: Row) -> None:
        lines = []
        for row in rows:
            self.at += 1
            lines.append(json.dumps({"op": "U", "at": self.at} | row))
        land(self.target, "orders", f"{self.at}.jsonl", lines)


def key(row: Row) -> str:
    return repr(sorted(row.items(), key=str))


def plain(rows: list[Row]) -> list[str]:
    return sorted(key({n.replace(" ", "_"): v for n, v in row.items()}) for row in rows)


def folder(target: Target, view: str = "orders") -> str:
    return f"{target.lake}/gold/{view}"


def of_spark(lake: Lake, view: str = "orders") -> list[Row]:
    frame = lake.spark.read.format("delta").load(folder(lake.target, view))
    return [row.asDict() for row in frame.collect()]


def agree(lake: Lake, view: str = "orders") -> int:
    """Spark, polars and delta-rs read the rows of gold; how many."""
    told = plain(shown(lake, view))
    place = folder(lake.target, view)
    assert plain(of_spark(lake, view)) == told
    if view == "orders":
        assert plain(pl.read_delta(place).to_dicts()) == told
        assert plain(DeltaTable(place).to_pyarrow_table().to_pylist()) == told
    protocol = DeltaTable(place).protocol()
    assert protocol.min_reader_version == 1
    assert not protocol.reader_features
    return len(told)


def fed(target: Target) -> list[str]:
    """The rows that a reader holds who applies the change feed from version 0 on."""
    held: dict[int, Row] = {}
    table = DeltaTable(folder(target)).load_cdf(starting_version=0).read_all()
    changes = [dict(row) for row in _dicts(table)]
    order = {"delete": 0, "update_preimage": 0, "insert": 1, "update_postimage": 1}
    changes.sort(key=lambda row: (row["_commit_version"], order[row["_change_type"]]))
    for row in changes:
        kind = row["_change_type"]
        values = {n: v for n, v in row.items() if not n.startswith("_")}
        if order[kind] == 0:
            assert held.pop(row["id"]) == values
        else:
            assert row["id"] not in held
            held[row["id"]] = values
    return plain(list(held.values()))


def _dicts(table: Any) -> list[Row]:
    return list(pa.table(table).to_pylist())


def kinds(target: Target, version: int) -> list[str]:
    table = DeltaTable(folder(target)).load_cdf(starting_version=version).read_all()
    return sorted(row["_change_type"] for row in _dicts(table))


@pytest.fixture
def source(target: Target) -> Source:
    return Source(target)


@pytest.mark.slow
def test_every_engine_reads_what_gold_shows(lake: Lake, source: Source) -> None:
    table = orders()
    source.write(*({"id": n, "note": f"n{n}", "odd name": n, "amount": n} for n in range(1, 7)))
    run(lake, [table])
    assert agree(lake) == 6
    source.write({"id": 1, "note": "other", "amount": 1}, {"id": 2, "op": "D"}, {"id": 7})
    run(lake, [table])
    assert agree(lake) == 6
    version = DeltaTable(folder(lake.target)).version()
    source.write({"id": 3, "note": "n3", "odd name": 3, "amount": 3}, {"id": 4, "amount": 5})
    run(lake, [table])
    assert kinds(lake.target, version + 1) == ["update_postimage", "update_preimage"]
    source.write({"op": "T"}, {"id": 9, "amount": 9, "colour": "red"})
    run(lake, [table])
    assert agree(lake) == 1
    assert fed(lake.target) == plain(of_spark(lake))
    before = DeltaTable(folder(lake.target)).version()
    run(lake, [table])
    assert DeltaTable(folder(lake.target)).version() == before


@pytest.mark.slow
def test_a_history_is_published_with_its_versions(lake: Lake, source: Source) -> None:
    table = orders(stored_as_scd_type=2)
    source.write({"id": 1, "amount": 1}, {"id": 2, "amount": 1})
    run(lake, [table])
    source.write({"id": 1, "amount": 2}, {"id": 2, "op": "D"}, {"id": 3, "amount": 1})
    run(lake, [table])
    source.at = 10
    source.write({"id": 1, "amount": 1})
    run(lake, [table])
    source.write({"id": 1, "at": 3, "amount": 2}, {"id": 1, "at": 4, "amount": 1})
    run(lake, [table])
    assert agree(lake) == 2
    assert agree(lake, "orders_history") == len(shown(lake, "orders_history"))
    source.write({"id": 4, "amount": 1, "tier": "gold"})
    run(lake, [table])
    views = load_views(lake.target, "gold")
    for name in ("orders", "orders_history"):
        written = lake.spark.table(lake.name("gold", name)).columns
        shows = lake.spark.sql(views[name].query).columns
        assert written == [column.replace(" ", "_") for column in shows]


@pytest.mark.slow
def test_a_reader_of_the_feed_holds_the_same_rows_whenever_runs_are_killed(
    lake: Lake, source: Source
) -> None:
    table = orders()
    merge, replace = Follower.merge_rows, published.PublishedTable._replace

    def killed(*given: Any, **options: Any) -> int:
        merge(*given, **options)
        raise KeyboardInterrupt

    def killed_at_first(*given: Any) -> None:
        replace(*given)
        raise KeyboardInterrupt

    for at in range(6):
        source.write(
            {"id": at % 4, "amount": at}, {"id": (at + 1) % 4, "op": "D"}, {"id": 10 + at},
            *([{"op": "T"}, {"id": 50, "amount": at}] if at == 3 else []),
        )  # fmt: skip
        if at % 2 == 0:
            with (
                patch.object(Follower, "merge_rows", killed),
                patch.object(published.PublishedTable, "_replace", killed_at_first),
                pytest.raises(KeyboardInterrupt),
            ):
                run(lake, [table])
        else:
            run(lake, [table])
            agree(lake)
        assert fed(lake.target) == plain(of_spark(lake))


@pytest.mark.slow
def test_a_rebuild_and_an_erasure_reach_the_published_table(
    lake: Lake, source: Source, capsys: pytest.CaptureFixture[str]
) -> None:
    table = orders(columns={"id": "bigint", "note": "string"})
    texts = ({"id": n, "note": f"someone-{n}", "amount": n} for n in range(5))
    source.write(*texts)
    run(lake, [table])
    source.write({"id": 1, "note": "someone-else", "amount": 1})
    run(lake, [table])
    less = table.model_copy(update={"except_column_list": ["at", "op", "amount"]})
    rebuild_table(lake, less, print, [less])
    assert agree(lake) == 5
    assert "amount" not in pl.read_delta(folder(lake.target)).columns
    wanted = Erasure(less, {"id": "1"}, True, print)
    erase_key(lake, wanted, [less])
    assert agree(lake) == 4
    assert "gone: " in capsys.readouterr().out


@pytest.mark.slow
def test_no_version_keeps_the_clear_values_of_a_column_that_becomes_sensitive(
    lake: Lake, source: Source
) -> None:
    source.write({"id": 1, "note": "someone", "amount": 1})
    run(lake, [orders(columns={"id": "bigint", "note": "string"})])
    source.write({"id": 2, "note": "someone else", "amount": 2})
    entries = run(lake, [orders()])
    assert [e.counts.get("rewritten") for e in entries if e.layer == "gold"] == [1]
    assert agree(lake) == 2
    files = [f for f in Path(folder(lake.target)).rglob("*.parquet") if "_delta_log" not in f.parts]
    rows = [row for file in files for row in pq.ParquetFile(file).read().to_pylist()]
    assert files and not [row for row in rows if "someone" in row["note"]]
    source.write({"id": 3, "note": "a third", "amount": 3})
    assert [e.counts.get("rewritten") for e in run(lake, [orders()]) if e.layer == "gold"] == [None]
    assert agree(lake) == 3


@pytest.mark.slow
def test_a_new_type_and_a_switch_of_the_feed_are_followed(lake: Lake, source: Source) -> None:
    table = orders(change_data_feed=False, keys=["id"])
    source.write({"id": 1, "amount": 1})
    run(lake, [table])
    source.write({"id": 2, "amount": 1.5})
    entries = run(lake, [orders(comment="all orders")])
    assert [e.counts.get("published") for e in entries if e.layer == "gold"] != [None]
    agree(lake)
    shown_as = lake.spark.sql(f"SHOW TBLPROPERTIES {lake.name('gold', 'orders')}").collect()
    assert ("delta.enableChangeDataFeed", "true") in {(r["key"], r["value"]) for r in shown_as}


@pytest.mark.slow
def test_the_guide_reads_the_published_table(lake: Lake, source: Source) -> None:
    page = ROOT / "docs" / "guides" / "reading-gold-from-other-tools.md"
    source.write({"id": 1, "amount": 1}, {"id": 2, "amount": 2})
    run(lake, [orders()])
    blocks = re.findall(r"```python\n(.*?)```", page.read_text(), re.DOTALL)
    assert len(blocks) == 3
    for block in blocks:
        told: dict[str, Any] = {"spark": lake.spark}
        exec(block.replace("/data/lake/gold/orders", folder(lake.target)), told)
        found = told.get("changes", told.get("orders"))
        count = found.count() if isinstance(found, DataFrame) else len(found)
        assert count == 2
