"""One key taken out of every layer: planted values, and where they are looked for."""

import json
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
import typer

from bronze.contract import mended_name
from bronze.erasure import erase as bronze
from bronze.mended import mend_record
from cdc_lakehouse.cli.work.erase import Erasure, erase_key, preview_erasure, verify_erasure
from lakehouse.config.table import Table
from lakehouse.errors import EraseIncomplete
from lakehouse.run import ledger
from lakehouse.storage.lake import Lake
from lakehouse.storage.traces import PASSED_OVER
from lakehouse.storage.upkeep import read_facts
from silver.maintenance import erase
from tests.helpers.arrivals import applied, arrive, silver
from tests.helpers.lakes import land, rows, run

pytestmark = pytest.mark.slow

EMAIL, NAME = "ada@example.org", "Ada Lovelace"
PEOPLE = Table.model_validate(
    {
        "table": "people",
        "source": {"format": "ydb", "path": "crm", "topic": "crm.people"},
        "keys": ["id"],
        "columns": {"id": "int", "name": "string", "email": "string", "city": "string"},
        "stored_as_scd_type": 2,
    }
)


def record(topic: str, at: int, key: list[int] | None, **values: str) -> dict[str, Any]:
    value: dict[str, Any] = {"update": values, "ts": [1_700_000_000_000 + at, at]}
    return {"topic": topic, "partition": 0, "offset": at, "value": value | {"key": key}}


def deliver(lake: Lake) -> None:
    records = [
        record("crm.people", 1, [7], name=NAME, email=EMAIL, city="London"),
        record("crm.people", 2, [8], name="Bob Hope", email="bob@example.org", city="London"),
        record("crm.orders", 3, [7], item="book"),
        record("crm.people", 4, None, email=EMAIL),
        record("crm.people", 5, [7], name="Ada King", email=EMAIL, city="Surrey"),
    ]
    arrive(lake, PEOPLE, records, 1)
    applied(lake, PEOPLE)
    unread = [record("crm.people", 6, [7], name="Countess of Lovelace", email=EMAIL, city="London")]
    arrive(lake, PEOPLE, unread, 2)


def test_a_key_is_erased_from_every_layer_and_the_files_prove_it(lake: Lake) -> None:
    deliver(lake)
    told: list[str] = []
    wanted = Erasure(PEOPLE, {"id": "7"}, False, told.append)
    erase_key(lake, wanted, [PEOPLE])
    assert any("4 records of the key" in line for line in told)
    assert any("its records also lie in /landing/t/1.jsonl" in line for line in told)
    assert "gone: no row of the key and none of its 5 own texts" in told[-1]
    feed = lake.spark.table(lake.name("bronze", "feed_crm")).orderBy("_offset")
    assert [row["_offset"] for row in feed.collect()] == [2, 3]
    assert [row["id"] for row in silver(lake, "people_changes", "_arrival")] == [8]
    assert silver(lake, "people_dead_letters", "_arrival") == []
    assert [row["name"] for row in rows(lake, "people_history")] == ["Bob Hope"]
    (entry,) = ledger.read_entries(lake).where("counts['erased'] > 0").collect()
    assert entry["run_id"] == wanted.run_id and "7" not in str(entry["counts"])
    texts = [EMAIL, NAME]
    page = Path(lake.target.lake, "report.html")
    page.write_text(f"<td>{EMAIL}</td>", encoding="utf-8")
    with pytest.raises(EraseIncomplete) as left:
        verify_erasure(lake, wanted, texts)
    assert left.value.left == (f"{page} (1 places)",)
    page.unlink()
    verify_erasure(lake, wanted, texts)


def test_an_erasure_that_was_killed_is_ended_when_it_is_repeated(lake: Lake) -> None:
    deliver(lake)
    found = erase.find_records(lake, PEOPLE, {"id": "7"})
    assert found is not None
    with pytest.raises(EraseIncomplete, match="people_history"):
        verify_erasure(lake, Erasure(PEOPLE, {"id": "7"}, False, print), found.values)
    bronze.remove_records(lake, bronze.feeds_of(lake, PEOPLE), found.arrivals)
    erase_key(lake, Erasure(PEOPLE, {"id": "7"}, False, print), [PEOPLE])
    assert [row["id"] for row in silver(lake, "people_changes", "_arrival")] == [8]


def test_a_dropped_file_that_an_earlier_erasure_left_is_known(lake: Lake) -> None:
    """In two steps: first without the dropped files, then with them, when bronze knows no more."""
    lines = [
        record("crm.people", 1, [7], name=NAME, email=EMAIL, city="London"),
        record("crm.people", 2, [8], name="Bob Hope", email="bob@example.org", city="London"),
    ]
    land(lake.target, "crm", "people.jsonl", [json.dumps(line) for line in lines])
    file = Path(lake.target.landing, "crm", "people.jsonl")
    told: list[str] = []
    assert not erase_key(lake, Erasure(PEOPLE, {"id": "7"}, False, told.append), [PEOPLE])
    assert any("1 record of the key" in line for line in told)
    foreseen: list[str] = []
    preview_erasure(lake, Erasure(PEOPLE, {"id": "8"}, True, foreseen.append), [PEOPLE])
    assert foreseen[-2:] == [
        f"people: {file} would be deleted, with all other keys in it",
        "people: nothing was removed",
    ]
    assert file.exists() and len(rows(lake, "people")) == 1
    assert not any("gone: " in line for line in told)
    named = [line for line in told if str(file) in line]
    assert named == [f"people: the key's records lie in {file}"]
    assert "--landing" in told[-2]
    refused = Erasure(PEOPLE, {"id": "7"}, True, told.append, lambda _: False)
    with pytest.raises(typer.Abort):
        erase_key(lake, refused, [PEOPLE])
    assert file.exists()
    told.clear()
    erase_key(lake, Erasure(PEOPLE, {"id": "7"}, True, told.append), [PEOPLE])
    assert "gone: " in told[-1] and not file.exists()
    assert [row["name"] for row in rows(lake, "people")] == ["Bob Hope"]


def test_a_mended_line_without_a_topic_is_erased_like_the_line_itself(lake: Lake) -> None:
    known = record("crm.people", 1, [7], name=NAME, email=EMAIL, city="London")
    land(lake.target, "crm", "1.jsonl", [json.dumps(known), f"cut off: {EMAIL}"])
    run(lake, [PEOPLE])
    lines = lake.spark.table(lake.name("bronze", "feed_crm")).where("_topic IS NULL")
    (line,) = lines.collect()
    mend_record(lake, PEOPLE, ("feed_crm", line["_arrival"]), f"still cut off: {EMAIL}")
    told: list[str] = []
    erase_key(lake, Erasure(PEOPLE, {"id": "7"}, True, told.append), [PEOPLE])
    assert "gone: " in told[-1] and lines.isEmpty()
    assert lake.spark.table(lake.name("bronze", mended_name("feed_crm"))).isEmpty()


NUMBERED = Table.model_validate(
    {
        "table": "t",
        "source": {"format": "rows", "path": "t", "file_format": "csv"},
        "keys": ["id"],
        "sequence_by": "seq",
        "columns": {"id": "decimal(9,2)", "seq": "int"},
    }
)


def test_the_files_of_a_key_without_a_text_are_known_from_bronze(lake: Lake) -> None:
    """However the file writes the key: `7.50` has the key 7.5."""
    land(lake.target, "t", "mine.csv", ["id;seq", "7.50;1", "8;2"])
    land(lake.target, "t/sub", "other.csv", ["id;seq", "8;3"])
    mine, other = (Path(lake.target.landing, "t", name) for name in ("mine.csv", "sub/other.csv"))
    told: list[str] = []
    for _ in range(2):
        told.clear()
        wanted = Erasure(NUMBERED, {"id": "7.5"}, False, told.append)
        assert not erase_key(lake, wanted, [NUMBERED])
        named = [line for line in told if "the key's records lie in" in line]
        assert named == [f"t: the key's records lie in {mine}"]
    entries = ledger.read_entries(lake).where("message IS NOT NULL").collect()
    assert entries and not any("mine" in entry["message"] for entry in entries)
    assert erase_key(lake, wanted._replace(landing=True), [NUMBERED])
    assert (mine.exists(), other.exists()) == (False, True)
    assert [str(row["id"]) for row in rows(lake, "t")] == ["8.00"]


CLUSTERED = Table.model_validate(
    {
        "table": "people",
        "source": {"format": "ydb", "path": "crm", "topic": "crm.people"},
        "keys": ["login"],
        "columns": {"login": "string", "born": "date", "city": "varchar(30)", "email": "string"},
        "cluster_by": ["born", "email"],
    }
)


def person(at: int, login: str, city: str) -> dict[str, Any]:
    update = {"born": f"1990-01-{at % 9 + 1:02}", "city": city, "email": f"{login}@example.org"}
    value = {"update": update, "key": [login], "ts": [1_700_000_000_000 + at, at]}
    return {"topic": "crm.people", "partition": 0, "offset": at, "value": value}


def holding(folder: Path, texts: list[str]) -> set[str]:
    """The names of files that hold one of the texts, as bytes or in a Parquet file's values."""
    found = set()
    for file in (file for file in folder.rglob("*") if file.is_file()):
        content = file.read_bytes()
        if file.suffix == ".parquet":
            content += str(pq.ParquetFile(file).read().to_pylist()).encode()
        if any(text.encode() in content for text in texts):
            found.add(file.name)
    return found


def test_no_least_or_greatest_value_of_an_erased_key_stays_in_a_log_or_checkpoint(
    lake: Lake,
) -> None:
    """The key is the first of all, and so the least value of its file."""
    arrive(lake, CLUSTERED, [person(n, f"person{n:02}", "London") for n in range(9)], 1)
    applied(lake, CLUSTERED)
    changed = [person(20, "aaron.first", "Atown"), person(21, "person05", "London")]
    arrive(lake, CLUSTERED, changed, 2)
    applied(lake, CLUSTERED)
    people = lake.name("silver", "people")
    lake.spark.sql(f"OPTIMIZE {people} FULL")
    lake.spark.sql(f"ALTER TABLE {people} SET TBLPROPERTIES ('delta.checkpointInterval' = '1')")
    texts, silver_tables = ["aaron.first", "Atown"], Path(lake.target.lake, "silver")
    assert any(name.endswith(".json") for name in holding(silver_tables, texts))
    assert any(".checkpoint." in name for name in holding(silver_tables, texts))
    wanted = Erasure(CLUSTERED, {"login": "aaron.first"}, False, print)
    assert erase_key(lake, wanted, [CLUSTERED])
    left = [folder for folder in Path(lake.target.lake).iterdir() if folder.name not in PASSED_OVER]
    assert set().union(*(holding(folder, texts) for folder in left)) == set()
    assert len(rows(lake, "people")) == 9
    assert read_facts(lake.spark, people).layout.cluster_by == ["born", "email"]
    arrive(lake, CLUSTERED, [person(30, "person05", "Leeds")], 3)
    applied(lake, CLUSTERED)
    assert {row["city"] for row in rows(lake, "people")} == {"London", "Leeds"}
