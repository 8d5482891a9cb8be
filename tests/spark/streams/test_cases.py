"""Small cases of what sources really send: each folder of tests/fixtures/cases is one table.

A case has a table's YAML, the files of each round, and what is expected after the last: the rows of
gold, maybe its history, the dead letters, and what bronze says of files that it cannot read; under
`or` other outcomes that do as well. Numbers are compared by value, also where they are expected as
text, and times in UTC with or without a `Z`. `some_columns` says that gold has more columns than
the expected rows name. LAKEHOUSE_CASES names another folder of cases, of which only the columns
and the failures that they name are compared.
"""

import base64
import json
import math
import os
import re
import shutil
from datetime import date, datetime
from decimal import Context, Decimal
from pathlib import Path
from typing import Any, NamedTuple

import pytest
import yaml
from pyspark.errors import AnalysisException
from pyspark.sql import Row, SparkSession

from bronze import job as bronze
from gold import job as gold
from lakehouse.config.loading import load_tables
from lakehouse.config.table import Table
from lakehouse.config.target import Target
from lakehouse.run import ledger
from lakehouse.run.ledger import Entry
from lakehouse.storage.lake import Lake
from silver import job as silver
from silver.decode.values.json_values import special_text
from tests.conftest import target_at
from tests.helpers.lakes import quiet

pytestmark = pytest.mark.slow

OWN = Path(__file__).parents[2] / "fixtures" / "cases"
FOLDER = Path(os.environ.get("LAKEHOUSE_CASES", OWN))
EXACT = Context(prec=100)
ZONE = re.compile(r"(?<=\dT\d\d:\d\d:\d\d)(\.\d*[1-9])?(?:\.?0*)Z?$")
CASES = sorted(case for case in FOLDER.iterdir() if (case / "table.yml").is_file())


class Done(NamedTuple):
    """A lake after all rounds, the tables of the cases by folder, and what each layer said."""

    target: Target
    tables: dict[str, Table]
    entries: list[Entry]

    def said(self, table: str, layer: str) -> str:
        """The messages of a table's failed entries."""
        mine = [e for e in self.entries if (e.table, e.layer) == (table, layer)]
        return "; ".join(e.message or "" for e in mine if e.status == "failed")


@pytest.fixture(scope="module")
def done(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Done:
    root = tmp_path_factory.mktemp("cases")
    target = target_at(root)
    conf = root / "conf"
    (conf / "tables").mkdir(parents=True)
    for case in CASES:
        shutil.copy(case / "table.yml", conf / "tables" / f"{case.name}.yml")
    tables = load_tables(conf)
    by_name = {table.table: table for table in tables}
    named = {
        case.name: by_name[yaml.safe_load((case / "table.yml").read_text())["table"]]
        for case in CASES
    }
    entries: list[Entry] = []
    rounds = {place.name for case in CASES for place in (case / "input").iterdir()}
    for number in sorted(rounds, key=int):
        for case in CASES:
            if (case / "input" / number).is_dir():
                place = Path(target.landing, str(named[case.name].feeds[0].path))
                shutil.copytree(case / "input" / number, place, dirs_exist_ok=True)
        found = bronze.ingest(Lake(spark, target), tables, number, quiet)
        ledger.append_entries(Lake(spark, target), found)
        found += silver.apply(Lake(spark, target), tables, number, quiet)
        found += gold.publish(Lake(spark, target), tables, number, quiet)
        entries += found
    return Done(target, named, entries)


@pytest.mark.parametrize("case", CASES, ids=[case.name for case in CASES])
def test_a_case_comes_out_as_expected(spark: SparkSession, done: Done, case: Path) -> None:
    wanted = json.loads((case / "expected.json").read_text(), parse_float=Decimal)
    table = done.tables[case.name]
    unread = done.said(table.table, "bronze")
    if "failed" in wanted or FOLDER == OWN:
        assert re.search(wanted.get("failed", "^$"), unread), unread
    assert done.said(table.table, "silver") == ""

    letters = _letters(Lake(spark, done.target), table)
    told = [row["message"] for row in letters]
    some = FOLDER != OWN or wanted.get("some_columns", False)
    found = _shown(Lake(spark, done.target), table.table, wanted["rows"], some)
    outcomes = [
        one
        for one in [wanted, *wanted.get("or", ())]
        if one["dead_letters"] == len(letters) and found == _like(one["rows"], found)
    ]
    expected = next(iter(outcomes), wanted)
    assert len(letters) == expected["dead_letters"], told
    if "reasons" in expected:
        assert sorted({row["reason"] for row in letters}) == expected["reasons"]
        assert expected.get("said", "") in (told[0] or "")
    assert found == _like(expected["rows"], found)
    if "history" in expected:
        found = _shown(
            Lake(spark, done.target), f"{table.table}_history", expected["history"], True
        )
        assert found == _like(expected["history"], found)


def _letters(lake: Lake, table: Table) -> list[Row]:
    name = f"{table.table}_dead_letters"
    if not lake.exists("silver", name):
        return []
    letters = lake.spark.table(lake.name("silver", name)).where("resolved_at IS NULL")
    return letters.select("reason", "message").collect()


def _shown(
    lake: Lake, name: str, expected: list[dict[str, Any]], some: bool
) -> list[dict[str, Any]]:
    """The rows of a view of gold, with all columns or `some`: those that are expected."""
    query = f"SELECT * FROM gold.`{name}`"
    if not expected and not _is_there(lake, query):
        return []
    gold.open_catalog(lake, query)
    rows = [row.asDict(recursive=True) for row in lake.spark.sql(query).collect()]
    columns = {name for row in expected for name in row} if some and expected else None
    return _sorted(
        [{n: v for n, v in row.items() if columns is None or n in columns} for row in rows]
    )


def _like(expected: list[dict[str, Any]], found: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """The expected rows, numbers where those that were found have numbers."""
    numbers = {n for row in found for n, value in row.items() if isinstance(value, Decimal)}

    def like(name: str, value: Any) -> Any:
        if name not in numbers or not isinstance(value, str):
            return value
        number = Decimal(value)
        return number if number.is_finite() else value

    return _sorted([{n: like(n, v) for n, v in row.items()} for row in expected])


def _is_there(lake: Lake, query: str) -> bool:
    try:
        gold.open_catalog(lake, query)
        lake.spark.sql(query)
    except AnalysisException:
        return False
    return True


def _sorted(rows: list[dict[str, Any]]) -> list[dict[str, Any]]:
    plain = [{name: _plain(value) for name, value in row.items()} for row in rows]
    return sorted(plain, key=lambda row: json.dumps(row, sort_keys=True, default=str))


def _plain(value: Any) -> Any:
    """Numbers as decimals without zeros at their end; times, bytes and NaN as text."""
    if isinstance(value, float) and not math.isfinite(value):
        return special_text(value)
    if isinstance(value, int | float | Decimal) and not isinstance(value, bool):
        return Decimal(repr(value) if isinstance(value, float) else value).normalize(EXACT)
    if isinstance(value, dict):
        return {name: _plain(one) for name, one in value.items()}
    if isinstance(value, list):
        return [_plain(one) for one in value]
    if isinstance(value, datetime | date):
        return ZONE.sub(r"\1", value.isoformat())
    if isinstance(value, str):
        return ZONE.sub(r"\1", value)
    if isinstance(value, bytes | bytearray):
        return base64.b64encode(bytes(value)).decode()
    return value
