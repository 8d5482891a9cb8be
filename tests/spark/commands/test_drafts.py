"""Drafts of `init --from` run without a dead letter on the very data they were made from."""

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow.parquet import write_table

from cdc_lakehouse.drafts.first_draft import LandingPlace, write_drafts
from cdc_lakehouse.drafts.topics import TopicFinder
from lakehouse.config.loading import load_tables
from lakehouse.storage.lake import Lake
from tests.helpers import lakes
from tests.helpers.captures import EVENTS, lines

pytestmark = pytest.mark.slow


@pytest.mark.parametrize("capture", ["small", "small_with_schemas"])
def test_a_capture_has_no_dead_letters_by_its_own_drafts(
    lake: Lake, tmp_path: Path, capture: str
) -> None:
    conf = tmp_path / "conf"
    write_drafts(
        [EVENTS / f"{capture}.jsonl.gz"], conf, lambda _: LandingPlace("shop", is_sure=True)
    )
    lakes.land(lake.target, "shop", "events.jsonl", lines(capture))
    tables = load_tables(conf, find_topics=TopicFinder(lake.target).find)
    entries = lakes.run(lake, tables)
    rejected = {
        entry.table: counted
        for entry in entries
        if (counted := [name for name in entry.counts if name.startswith("dead_letter")])
    }
    assert rejected == {}
    assert len(lakes.rows(lake, "orders")) == 8


def test_a_csv_file_has_no_dead_letters_by_its_own_draft(lake: Lake, tmp_path: Path) -> None:
    rows = ["zip,id,price,updated_at", "01234,1,2.5,2024-01-01", "99999,2,3,2024-01-02", ""]
    sample = tmp_path / "prices.csv"
    sample.write_text("\n".join(rows))
    write_drafts([sample], tmp_path / "conf", lambda _: LandingPlace("prices", is_sure=True))
    lakes.land(lake.target, "prices", "prices.csv", rows[:-1])
    lakes.run(lake, load_tables(tmp_path / "conf"))
    assert [row["zip"] for row in lakes.rows(lake, "prices")] in (
        ["01234", "99999"],
        ["99999", "01234"],
    )


def test_a_parquet_file_has_no_dead_letters_by_its_own_draft(lake: Lake, tmp_path: Path) -> None:
    landed = Path(lake.target.landing, "pay", "1.parquet")
    landed.parent.mkdir(parents=True)
    times = pa.array([0, 1, 2], pa.timestamp("us", tz="UTC"))
    amounts = pa.array([Decimal("1.10"), None, Decimal("-2.00")], pa.decimal128(10, 2))
    tags = pa.array([["a"], [], None])
    columns = {"amount": amounts, "id": pa.array([1, 2, 3], pa.int32()), "at": times, "tags": tags}
    write_table(pa.table(columns), landed)
    write_drafts([landed], tmp_path / "conf", lambda _: LandingPlace("pay", is_sure=True))
    lakes.run(lake, load_tables(tmp_path / "conf"))
    found = {row["id"]: (row["amount"], row["tags"]) for row in lakes.rows(lake, "pay")}
    assert found == {1: (Decimal("1.10"), ["a"]), 2: (None, []), 3: (Decimal("-2.00"), None)}
