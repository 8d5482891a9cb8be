"""Answers without Spark: to the letter those of Spark, and none where that is not certain."""

import json
import re
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from cdc_lakehouse.cli.ask.queries import print_answer, print_quickly, print_status
from cdc_lakehouse.cli.check import dead_letters
from cdc_lakehouse.terminal.answers import json_lines
from gold.status.quick import quick_lake
from lakehouse.config.loading import load_tables, load_target
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.quick.lake import NotQuick, QuickLake
from lakehouse.storage.delta_log import read_table_log
from lakehouse.storage.lake import Lake
from silver.changelog.dead_letter_list import Wanted, select_newest
from silver.changelog.dead_letter_list import dead_letters as asked
from tests.spark.commands import test_idle_run

COLUMNS = {
    "id": "bigint", "v": "int", "name": "string", "price": "decimal(12,7)", "day": "date",
    "at": "timestamp", "told": "timestamp_ntz", "good": "boolean", "data": "binary",
    "share": "double",
}  # fmt: skip
FIRST = {
    "id": 1, "v": 1, "name": "a \"b\" \\ \u001f ü 字, '", "price": "0.0000001", "day": "2026-01-31",
    "at": "2026-01-31T01:02:03.5Z", "told": "2026-01-31T01:02:03", "good": True, "data": "AP8=",
    "share": 1e10,
}  # fmt: skip
QUICK = "SELECT id, v, name, price, day, `at`, told, good, data FROM gold.t"
LOOKS = [
    f"{QUICK} ORDER BY id",
    f"{QUICK} WHERE id >= 2 AND name IS NOT NULL ORDER BY v DESC, id LIMIT 3;",
    "SELECT count(*) FROM gold.t WHERE name = 'n 7'",
    "select name from gold.t where name <> 'n 7' order by name",
    "SELECT `at` FROM gold.`t` WHERE id = 40",
]
SLOW = [
    "SELECT * FROM gold.t",
    "SELECT ID FROM gold.t",
    "SELECT id + 1 FROM gold.t",
    "SELECT id FROM gold.t WHERE id = '1'",
    "SELECT id FROM gold.t WHERE share > 1",
    "SELECT id FROM gold.nothing",
    "SELECT id FROM silver.t",
    "SELECT current_date FROM gold.t",
]


class Settled(test_idle_run.Lake):
    """A lake whose table has rows of every type, of which a later batch changed some."""

    def fill(self) -> None:
        """Runs three times: rows, changes and dead letters."""
        rows = [FIRST, *({"id": n, "v": 1, "name": f"n {n}"} for n in range(2, 60))]
        self.drop("1.jsonl", *rows)
        self.run()
        self.drop("2.jsonl", *({"id": n, "v": 2, "name": "", "good": False} for n in range(3, 6)))
        self.drop("3.jsonl", {"id": 9, "v": "x"}, {"id": 7, "v": 3, "price": "many"})
        self.run()

    @property
    def target(self) -> Target:
        """The lake's target."""
        return load_target(self.root / "conf", "local", str(self.root))

    @property
    def tables(self) -> list[Table]:
        """Its tables."""
        return load_tables(self.root / "conf", ())


@pytest.fixture(scope="module")
def lake(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Settled:
    settled = Settled(tmp_path_factory.mktemp("quick"), columns=COLUMNS)
    settled.fill()
    return settled


def test_files_hide_rows_that_later_batches_changed(lake: Settled) -> None:
    log = read_table_log(lake.target, "silver", "t")
    assert log is not None and any(log.vectors)
    quick = QuickLake(lake.target)
    (row,) = quick.ask(
        f"SELECT count(*) AS n, max(_order) AS most FROM {quick.name('silver', 't')}"
    )
    assert row["n"] == log.rows == 59


@pytest.mark.parametrize("shown", ["table", "json", "csv"])
def test_a_look_at_a_table_prints_what_spark_would(
    spark: SparkSession, lake: Settled, capsys: pytest.CaptureFixture[str], shown: str
) -> None:
    for look in LOOKS:
        assert print_quickly(lake.target, lake.tables, look, shown), look
        quick = capsys.readouterr().out
        print_answer(spark, lake.target, look, shown)
        assert quick == capsys.readouterr().out, look


def test_what_is_not_certain_is_left_to_spark(
    lake: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    for query in SLOW:
        assert not print_quickly(lake.target, lake.tables, query, "table"), query
    promised = [lake.tables[0].model_copy(update={"max_staleness": "1 hour"})]
    assert not print_quickly(lake.target, promised, LOOKS[0], "table")
    assert capsys.readouterr().out == ""
    with pytest.raises(NotQuick):
        QuickLake(lake.target.model_copy(update={"catalog": "main"}))


def test_status_and_dead_letters_print_what_spark_would(
    spark: SparkSession, lake: Settled, capsys: pytest.CaptureFixture[str]
) -> None:
    told = []
    for each in (quick_lake(lake.target), Lake(spark, lake.target)):
        print_status(each, lake.tables, as_json=False)
        print_status(each, lake.tables, as_json=False, wide=True)
        lines = capsys.readouterr().out.splitlines()
        told.append([re.sub(r"\b\d+ s\b *", "LAG ", line) for line in lines])
    assert told[0] == told[1]
    assert "dead letters" in told[0][0]
    for wanted in (Wanted(), Wanted(["bad_value"]), Wanted(resolved=True)):
        for shown in ("table", "json"):
            quick = quick_lake(lake.target)
            dead_letters._print_quickly(quick, lake.tables, wanted, 5, shown)
            quickly = capsys.readouterr().out
            found = asked(spark, lake.target, lake.tables, wanted)
            if shown == "json":
                assert found is not None
                print(*json_lines(select_newest(found, 5)), sep="\n")
            else:
                dead_letters._print_table(found, 5, wanted.resolved, lake.target)
            assert quickly == capsys.readouterr().out
    assert len(quickly.splitlines()) == 2
    assert json.loads(quickly.splitlines()[0])["table"] == "t"


def test_a_table_that_a_newer_delta_wrote_is_left_to_spark(lake: Settled) -> None:
    log = Path(lake.target.lake, "silver", "t", "_delta_log")
    later = log / f"{len(list(log.glob('*.json'))):020}.json"
    features = ["deletionVectors", "columnMapping", "typeWidening", "something new"]
    told = {"protocol": {"minReaderVersion": 3, "minWriterVersion": 7, "readerFeatures": features}}
    later.write_text(json.dumps(told) + "\n")
    try:
        with pytest.raises(NotQuick):
            QuickLake(lake.target).name("silver", "t")
    finally:
        later.unlink()
