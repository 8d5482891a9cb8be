"""`verify --source` on the command line, and views that are read back, without Spark."""

import json
from pathlib import Path
from typing import TYPE_CHECKING, cast

import pytest

from cdc_lakehouse.cli.check import verify
from gold.source_check import database
from gold.source_check.digests import Difference
from gold.source_check.verdict import SourceDatabase, Verdict
from gold.source_check.verified import Verified, write_verified
from lakehouse.config.target import Target
from lakehouse.errors import ConfigurationError, SourceDiffers
from lakehouse.storage.lake import Lake
from lakehouse.storage.views import View, load_views, publish_views
from tests.helpers.builders import table

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_SPARK = cast("SparkSession", None)
CHANGED = Difference("k", {"id": "1"}, {"note": "a"}, {"note": None}, "90")
GONE = Difference("l", {"id": "2"}, {"id": "2"}, None)


def checked(
    monkeypatch: pytest.MonkeyPatch,
    real: list[Difference],
    in_flight: list[Difference],
    json: bool,
    root: str = "/lake",
) -> None:
    def verdict(*_: object, **__: object) -> Verdict:
        return Verdict("shop.t", 3, 2, ("id", "note"), ("seen",), real, in_flight)

    monkeypatch.setattr("gold.source_check.verdict.compare_with_source", verdict)
    one = table("debezium", ["id"])
    given = SourceDatabase("u", None, False)
    verify.check_source(Lake(NO_SPARK, Target(root=root)), one, given, json)


def test_what_is_in_flight_is_shown_and_no_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    checked(monkeypatch, [], [GONE], json=False)
    told = capsys.readouterr().out.splitlines()
    assert told[0].split() == ["in", "flight", "missing", "at", "the", "source", "id=2"]
    assert told[1] == "3 rows in gold, 2 in shop.t: 0 real differences, 1 in flight"
    assert told[2] == "not compared: seen"


def test_files_that_wait_to_be_read_are_said_at_once(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    (tmp_path / "landing" / "here").mkdir(parents=True)
    (tmp_path / "landing" / "here" / "1.jsonl").touch()
    checked(monkeypatch, [], [GONE], json=False, root=str(tmp_path))
    told = capsys.readouterr().out.splitlines()
    assert told[-1] == "1 landing file not read yet; do: `lakehouse run`, then compare again"
    checked(monkeypatch, [], [GONE], json=True, root=str(tmp_path))
    assert json.loads(capsys.readouterr().out.splitlines()[-1])["unread_files"] == 1


def test_no_line_of_a_summary_is_wider_than_a_terminal() -> None:
    names = tuple(f"a_long_name_of_a_column_{number}" for number in range(9))
    verdict = Verdict("a_schema.a_table", 1_234_567, 1_234_567, (), names, [CHANGED], [])
    lines = list(verify._render_summary(verdict, 0))
    assert max(map(len, lines)) <= 80
    assert "1 real difference, 0 in flight" in " ".join(" ".join(lines).split())
    failed = str(SourceDiffers("a_table_with_a_long_name", 1_234_567))
    assert failed.startswith("a_table_with_a_long_name: 1,234,567 rows differ from the source\n")
    assert max(map(len, failed.splitlines())) <= 80


def test_a_real_difference_is_named_with_both_values_and_fails_the_table(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(SourceDiffers, match="t: 1 row differs from the source\n"):
        checked(monkeypatch, [CHANGED], [], json=True)
    row, summary = map(json.loads, capsys.readouterr().out.splitlines())
    assert (row["difference"], row["key"], row["gold"], row["source"]) == (
        "real",
        {"id": "1"},
        {"note": "a"},
        {"note": None},
    )
    assert (summary["real"], summary["in_flight"], summary["not_compared"]) == (1, 0, ["seen"])


@pytest.mark.parametrize("url", ["nonsense", "nodb://host/x", "postgresql+nodriver://h/x"])
def test_a_url_that_cannot_be_used_is_told_before_spark_starts(url: str) -> None:
    with pytest.raises(ConfigurationError, match="--source"):
        database.resolve_url(url)


def test_a_password_is_not_told() -> None:
    with pytest.raises(ConfigurationError) as refused:
        database.resolve_url("nodb://me:secret@host/x")
    assert "secret" not in str(refused.value)


def test_a_password_of_databricks_is_asked_of_its_store() -> None:
    url = database.resolve_url("postgresql://me:secret:shop/pw@host/shop")
    assert database.with_secret(NO_SPARK, "postgresql://me:pw@host/x").endswith("//me:pw@host/x")
    with pytest.raises(ConfigurationError, match="no Databricks secret store") as refused:
        database.with_secret(NO_SPARK, url)
    assert "--source" in str(refused.value)


def test_a_table_that_was_found_equal_is_not_compared_again(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    target, one = Target(root=str(tmp_path)), table("debezium", ["id"])
    write_verified(target, one.table, Verified("0/1A", "2026-03-04T12:00:00Z", "shop.t"))
    given, when = SourceDatabase("nothing is asked"), "2026-03-04T12:00:00Z"
    verify.check_source(Lake(NO_SPARK, target), one, given, False, when)
    verify.check_source(Lake(NO_SPARK, target), one, given, True, when)
    text, line = capsys.readouterr().out.splitlines()
    assert text == "equal through 0/1A, compared at 2026-03-04T12:00Z before an interruption"
    assert json.loads(line)["verified_through"] == "0/1A"


def test_postgresql_is_reached_with_the_driver_that_is_here() -> None:
    found = database.resolve_url("postgresql://me:p%40ss@host:5432/shop")
    assert found == "postgresql+psycopg://me:p%40ss@host:5432/shop"


def test_a_pinned_view_is_read_back_as_it_was_written(tmp_path: Path) -> None:
    target = Target(root=str(tmp_path))
    view = View("orders", {"id": None}, "orders", ("id",), "SELECT 1", pinned=("orders", 7))
    publish_views(Lake(NO_SPARK, target), "gold", [view])
    found = load_views(target, "gold")["orders"]
    assert (found.pinned, found.query) == (view.pinned, view.query)
