"""Days of extracts through silver to gold: what counts, what is refused, and in which order."""

import json
from datetime import date
from pathlib import Path
from typing import Any

import pyarrow
import pytest
from pyarrow import parquet

from bronze import job as bronze
from lakehouse.storage.lake import Lake
from silver import job
from tests.helpers import extract_lake, lakes

pytestmark = pytest.mark.slow

TYPES = {
    "id": "int",
    "a": "string",
    "n": "decimal(10,2)",
    "seen": {"type": "int", "operational": True},
}


def line(id: int | None, a: str | None = None, n: float | None = None, seen: int = 0) -> str:
    return json.dumps({"id": id, "a": a, "n": n, "seen": seen})


def table(mode: str = "full", file_format: str = "json", **options: object) -> Any:
    return extract_lake.table(mode, file_format, **({"columns": TYPES} | options))


def operations(lake: Lake, config: Any) -> set[tuple[Any, ...]]:
    rows = extract_lake.rows(lake, config, "t_changes")
    return {(row["effective_date"].day, row["operation"], row["id"], row["a"]) for row in rows}


def test_what_cannot_be_believed_is_a_dead_letter_and_deletes_nothing(lake: Lake) -> None:
    strict = TYPES | {"a": {"type": "string", "nullable": False}}
    rule = {"type": "expect_column_values_to_be_between", "column": "n", "min_value": 0}
    config = table(columns=strict, expectations=[rule])
    good = [line(id, "x", 1) for id in range(1, 7)]
    extract_lake.ingest(lake, config, 1, extract_lake.land(lake.target, "2024-01-01", "a", good))
    assert extract_lake.apply(lake, config) == {"records": 6, "I": 6}
    bad = [
        line(1, None, 1), line(2, "x", -1), '{"id": 3, "a": "x", "n": "1.005"}', line(None, "x", 1),
        "{", line(4, "first", 1), line(4, "last", 1), line(5, "x", 1), line(5, "x", 1),
    ]  # fmt: skip
    second = extract_lake.land(lake.target, "2024-01-02", "a", bad)
    extract_lake.ingest(lake, config, 2, second)
    rejected = {
        "bad_value": 2, "no_key": 1, "not_json": 1, "duplicate_key": 1,
        "rule:expect_column_values_to_be_between(n)": 1,
    }  # fmt: skip
    letters = {f"dead_letter:{reason}": count for reason, count in rejected.items()}
    counts = extract_lake.apply(lake, config)
    assert counts == {"records": 9, "U": 1, "N": 1, "duplicate": 1} | letters
    shown = {row["id"]: row["a"] for row in extract_lake.rows(lake, config, "t")}
    assert shown == {1: "x", 2: "x", 3: "x", 4: "last", 5: "x", 6: "x"}
    second_day = {row for row in operations(lake, config) if row[0] == 2}
    assert second_day == {(2, "U", 4, "last"), (2, "N", 5, "x")}
    dead = lake.spark.table(lake.name("silver", "t_dead_letters")).where("reason = 'duplicate_key'")
    assert json.loads(dead.collect()[0]["raw"])["a"] == "first"


def test_an_extract_of_which_no_row_can_be_believed_changes_nothing(lake: Lake) -> None:
    config = table()
    for day, text in enumerate([line(1, "x"), "nonsense"], start=1):
        file = extract_lake.land(lake.target, f"2024-01-0{day}", "a", [text])
        extract_lake.ingest(lake, config, day, file)
    assert extract_lake.apply(lake, config) == {
        "records": 2, "I": 1, "dead_letter:not_json": 1
    }  # fmt: skip
    assert len(extract_lake.rows(lake, config, "t")) == 1


@pytest.mark.parametrize("scd", [1, 2])
def test_operational_columns_decide_no_letter_and_are_kept_up_to_date(lake: Lake, scd: int) -> None:
    config = table(stored_as_scd_type=scd)
    days = {1: [line(1, "x", 1, seen=1)], 2: [line(1, "x", 1, seen=2)]}
    files = [
        extract_lake.land(lake.target, f"2024-01-0{at}", "a", rows) for at, rows in days.items()
    ]
    extract_lake.ingest(lake, config, 1, *files)
    assert extract_lake.apply(lake, config) == {"records": 2, "I": 1, "N": 1}
    assert extract_lake.rows(lake, config, "t")[0]["seen"] == 2
    if scd == 2:
        versions = lakes.rows(lake, "t_history")
        assert [row["valid_from"].date() for row in versions] == [date(2024, 1, 1)]


def test_a_day_that_arrives_late_or_gets_more_files_takes_the_later_ones_along(lake: Lake) -> None:
    config = table()
    first = extract_lake.land(lake.target, "2024-01-01", "a", [line(1, "x"), line(2, "x")])
    third = extract_lake.land(lake.target, "2024-01-03", "a", [line(1, "x"), line(3, "x")])
    extract_lake.ingest(lake, config, 1, first, third)
    counts = extract_lake.apply(lake, config)
    assert counts == {"records": 4, "I": 3, "N": 1, "D": 1}
    late = extract_lake.land(lake.target, "2024-01-02", "a", [line(2, "y"), line(4, "x")])
    extract_lake.ingest(lake, config, 2, late)
    counts = extract_lake.apply(lake, config)
    assert counts == {"records": 4, "I": 3, "U": 1, "D": 3}
    more = extract_lake.land(lake.target, "2024-01-03", "b", [line(4, "x")])
    extract_lake.ingest(lake, config, 3, more)
    assert extract_lake.apply(lake, config) == {"records": 3, "I": 2, "N": 1, "D": 1}
    assert operations(lake, config) == {
        (1, "I", 1, "x"), (1, "I", 2, "x"),
        (2, "D", 1, "x"), (2, "U", 2, "y"), (2, "I", 4, "x"),
        (3, "I", 1, "x"), (3, "D", 2, "y"), (3, "I", 3, "x"), (3, "N", 4, "x"),
    }  # fmt: skip
    shown = {row["id"]: row["a"] for row in lakes.rows(lake, "t")}
    assert shown == {1: "x", 3: "x", 4: "x"}


@pytest.mark.parametrize("moment", ["_note_state", "run_table"])
def test_a_run_that_died_after_the_log_was_written_is_brought_to_its_end(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """Whether or not the table's state names the batch of the log."""
    config = table("delta")
    for day, rows in enumerate([[line(1, "x"), line(2, "x")], [line(1, "y")]], start=1):
        file = extract_lake.land(lake.target, f"2024-01-0{day}", "a", rows)
        extract_lake.ingest(lake, config, day, file)

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(f"silver.snapshot_source.snapshot_run.{moment}", dies)
        job.apply(lake, [config], "run", lakes.quiet)
    assert extract_lake.apply(lake, config) == {"records": 3, "I": 2, "U": 1, "X": 1}
    assert operations(lake, config) == {
        (1, "I", 1, "x"), (1, "I", 2, "x"), (2, "U", 1, "y"), (2, "X", 2, "x")
    }  # fmt: skip


@pytest.mark.parametrize("moment", ["_note_state", "run_table"])
def test_a_run_that_died_over_a_late_day_is_brought_to_its_end(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, moment: str
) -> None:
    """The later days, whose rows the late one has replaced in the log, are compared again."""
    config = table()
    first = extract_lake.land(lake.target, "2024-01-01", "a", [line(1, "x"), line(2, "x")])
    third = extract_lake.land(lake.target, "2024-01-03", "a", [line(1, "x"), line(3, "x")])
    extract_lake.ingest(lake, config, 1, first, third)
    extract_lake.apply(lake, config)
    late = extract_lake.land(lake.target, "2024-01-02", "a", [line(2, "y")])
    extract_lake.ingest(lake, config, 2, late)

    def dies(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as killed, pytest.raises(KeyboardInterrupt):
        killed.setattr(f"silver.snapshot_source.snapshot_run.{moment}", dies)
        job.apply(lake, [config], "run", lakes.quiet)
    extract_lake.apply(lake, config)
    assert operations(lake, config) == {
        (1, "I", 1, "x"), (1, "I", 2, "x"),
        (2, "D", 1, "x"), (2, "U", 2, "y"),
        (3, "I", 1, "x"), (3, "D", 2, "y"), (3, "I", 3, "x"),
    }  # fmt: skip
    shown = {row["id"]: row["a"] for row in lakes.rows(lake, "t")}
    assert shown == {1: "x", 3: "x"}


@pytest.mark.parametrize(("mode", "few"), [("full", 0), ("delta", 0), ("delta", 100)])
def test_each_day_is_compared_with_what_the_days_before_left(
    lake: Lake, monkeypatch: pytest.MonkeyPatch, mode: str, few: int
) -> None:
    """From one row per key or several, some not to be believed."""
    monkeypatch.setattr("silver.snapshot_source.snapshot_log.FEW", few)
    config, bad = table(mode), '{"id": %d, "a": "x", "n": "1.005"}'
    days = [
        [line(1, "x"), line(2, "x"), line(3, "x")],
        [line(1, "y"), bad % 2, line(4, "w"), line(4, "x"), line(None, "x")],
        [line(2, "x", seen=1), line(4, "z")],
        [line(2, "x"), bad % 4, line(None, "x")],
    ]
    files = [
        extract_lake.land(lake.target, f"2024-01-0{at}", "a", rows)
        for at, rows in enumerate(days, start=1)
    ]
    extract_lake.ingest(lake, config, 1, *files)
    extract_lake.apply(lake, config)
    missing = {
        "full": {(3, "D", 3, "x"), (3, "D", 1, "y")},
        "delta": {
            (2, "X", 3, "x"),
            (3, "X", 1, "y"),
            (3, "X", 3, "x"),
            (4, "X", 1, "y"),
            (4, "X", 3, "x"),
        },
    }
    assert operations(lake, config) - missing[mode] == {
        (1, "I", 1, "x"), (1, "I", 2, "x"), (1, "I", 3, "x"), (2, "U", 1, "y"), (2, "I", 4, "x"),
        (3, "N", 2, "x"), (3, "U", 4, "z"), (4, "N", 2, "x"),
    }  # fmt: skip
    assert operations(lake, config) >= missing[mode]


def test_an_extract_with_an_unreadable_file_waits(lake: Lake) -> None:
    config = table()
    first = extract_lake.land(lake.target, "2024-01-01", "a", [line(1, "x"), line(2, "x")])
    half = extract_lake.land(lake.target, "2024-01-02", "a", [line(1, "x")])
    extract_lake.ingest(lake, config, 1, first, half)
    listed = lake.name("bronze", "t_unreadable")
    lake.spark.sql(f"CREATE TABLE {listed} (file string, message string, at timestamp) USING delta")
    lake.spark.sql(f"INSERT INTO {listed} VALUES ('file:{half.parent}/b', 'broken', now())")
    entry = job.apply(lake, [config], "run", lakes.quiet)[0]
    assert entry.status == "failed"
    assert "the day 2024-01-02 waits for files that cannot be read" in str(entry.message)
    assert len(extract_lake.rows(lake, config, "t")) == 2
    lake.spark.sql(f"DELETE FROM {listed}")
    extract_lake.apply(lake, config)
    assert len(extract_lake.rows(lake, config, "t")) == 1


def test_a_csv_row_with_bytes_that_are_no_utf8_lets_the_deletes_wait(lake: Lake) -> None:
    """It is a dead letter, and nobody knows which key the row has: no key is taken for missing."""
    config = table(file_format="csv")
    for at, text in enumerate([b"id,a\n1,x\n2,x\n3,x\n", b"id,a\n1,\xff\n2,\xc3\xa9\n"], start=1):
        file = extract_lake.land(lake.target, f"2024-01-0{at}", "a", [])
        file.write_bytes(text)
        extract_lake.ingest(lake, config, at, file)
    counts = extract_lake.apply(lake, config)
    assert counts == {"records": 5, "I": 3, "U": 1, "dead_letter:not_csv": 1}
    shown = extract_lake.rows(lake, config, "t")
    assert {row["id"]: row["a"] for row in shown} == {1: "x", 2: "é", 3: "x"}


@pytest.mark.parametrize("file_format", ["csv", "parquet"])
def test_extracts_of_other_file_formats(lake: Lake, tmp_path: Path, file_format: str) -> None:
    config = table(file_format=file_format)
    place = Path(lake.target.landing, "s", "2024-01-01")
    place.mkdir(parents=True)
    rows = [{"id": 1, "a": "", "n": "1.50"}, {"id": 2, "a": None, "n": None}]
    if file_format == "csv":
        (place / "a.csv").write_text('id,a,n\n1,"",1.50\n2,,\n')
    else:
        parquet.write_table(pyarrow.Table.from_pylist(rows), place / "a.parquet")
    extract_lake.ingest(lake, config, 1, *place.iterdir())
    assert extract_lake.apply(lake, config) == {"records": 2, "I": 2}
    shown = {row["id"]: (row["a"], str(row["n"])) for row in extract_lake.rows(lake, config, "t")}
    assert shown == {1: ("", "1.50"), 2: (None, "None")}


def test_sensitive_columns_are_shown_apart_where_the_target_says_so(lake: Lake) -> None:
    config = table(columns=TYPES | {"a": {"type": "string", "sensitive": True}})
    apart = lake.target.model_copy(update={"sensitive": "separate"})
    file = extract_lake.land(lake.target, "2024-01-01", "a", [line(1, "secret")])
    extract_lake.ingest(Lake(lake.spark, apart), config, 1, file)
    extract_lake.apply(Lake(lake.spark, apart), config)
    assert "a" not in extract_lake.rows(Lake(lake.spark, apart), config, "t")[0]
    assert "a" not in lakes.rows(Lake(lake.spark, apart), "t_changes")[0]
    found = lakes.rows(Lake(lake.spark, apart), "t_sensitive")
    assert [(len(row["key_digest"]), row["id"], row["a"]) for row in found] == [(64, 1, "secret")]


def test_the_effective_date_is_the_sequence_and_the_beginning_of_a_version(lake: Lake) -> None:
    config = table(stored_as_scd_type=2)
    days = {
        "2024-01-01": [line(1, "x")],
        "2024-02-01": [line(1, "y")],
        "2024-03-01": [line(2, "y")],
    }
    files = [extract_lake.land(lake.target, day, "a", rows) for day, rows in days.items()]
    extract_lake.ingest(lake, config, 1, *files)
    extract_lake.apply(lake, config)
    extract_lake.rows(lake, config, "t")
    found = sorted(lakes.rows(lake, "t_history"), key=lambda row: row["valid_from"])
    bounds = [(row["id"], row["valid_from"].date(), str(row["valid_to"])[:10]) for row in found]
    assert bounds == [
        (1, date(2024, 1, 1), "2024-02-01"),
        (1, date(2024, 2, 1), "2024-03-01"),
        (2, date(2024, 3, 1), "None"),
    ]
    assert found[0]["sequence_from"] == f"{(date(2024, 1, 1) - date(1970, 1, 1)).days:016X}"


@pytest.mark.parametrize("policy", ["apply", pytest.param("fail", marks=pytest.mark.slow)])
def test_a_column_that_the_files_of_a_day_lack_is_told(lake: Lake, policy: str) -> None:
    config = table(file_format="csv", schema_changes={"drop_column": policy})
    days = ["ID,A,n\n1,x,1\n", "id,n\n1,1\n", "id,a,n\n1,y,1\n"]
    told, shown = [], []
    for at, text in enumerate(days, start=1):
        file = extract_lake.land(lake.target, f"2024-01-0{at}", "a.csv", [text.rstrip()])
        extract_lake.ingest(lake, config, at, file)
        entry = job.apply(lake, [config], f"run {at}", lakes.quiet)[0]
        state = json.loads(entry.state or "{}")
        told.append(
            [(c["kind"], c["column"], c["action"]) for c in state.get("schema_changes", [])][-1:]
        )
        shown += [row["a"] for row in extract_lake.rows(lake, config, "t")]
        if entry.status == "failed":
            assert "drop_column a (string)" in str(entry.message)
    if policy == "fail":
        assert (told[1], shown) == ([("drop_column", "a", "failed")], ["x", "x", "x"])
        return
    assert told == [[], [("drop_column", "a", "applied")], [("add_column", "a", "applied")]]
    assert shown == ["x", None, "y"]


def test_a_file_outside_of_a_days_folder_is_refused_whole_until_it_is_moved(lake: Lake) -> None:
    config = table()
    stray = extract_lake.land(
        lake.target, "", "2024-01-01.jsonl", [line(1, "x", 1), line(2, "x", 1)]
    )
    hive = extract_lake.land(lake.target, "dt=2024-01-01", "a.jsonl", [line(3, "x", 1)])
    taken = bronze.ingest(lake, [config], "run", lakes.quiet)
    assert "2024-01-01.jsonl" in str(taken[0].message) and "YYYY-MM-DD" in str(taken[0].message)
    assert "dt=2024-01-01/a.jsonl" in str(taken[0].message)
    hive.unlink()
    (stray.parent / "2024-01-01").mkdir()
    stray.rename(stray.parent / "2024-01-01" / stray.name)
    taken = bronze.ingest(lake, [config], "run", lakes.quiet)
    assert (taken[0].message, taken[0].counts["records"]) == (None, 2)
    assert extract_lake.apply(lake, config) == {"records": 2, "I": 2}
    assert "dt" not in extract_lake.rows(lake, config, "t")[0]
