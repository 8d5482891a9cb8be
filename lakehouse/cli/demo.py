"""`demo`: everything on captured events, in one go, and the story of what happened."""

import importlib
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from typing import TYPE_CHECKING

from lakehouse import demo as shop
from lakehouse.cli.ask import in_six
from lakehouse.cli.front import command, configured, start
from lakehouse.cli.report import destination
from lakehouse.cli.rounds import JOBS, Round
from lakehouse.cli.run import fail_at_the_end, one_round
from lakehouse.demo_story import Explanation, Story, story_lines
from lakehouse.options import Chosen, same_lake
from lakehouse.table import Table
from lakehouse.target import Target

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from lakehouse.grid import Row

STEPS = 5


@command("demo")
def demo(chosen: Chosen) -> None:
    """Run everything on the captured events of a shop and show what came out.

    It takes about half a minute. Everything it writes lies in lake/ and landing/ below the root.
    """
    chosen = chosen._replace(conf=shop.configuration(chosen.conf))
    target, tables = configured(chosen)
    tables = shop.of_the_shop(tables)
    with _step(1, "the captured events are dropped into landing/shop"):
        dropped = shop.place_events(target, tables)
    with _step(2, "Spark is up"):
        spark = start(target, tables, sends_functions=True)
    with _step(3, "bronze, silver and gold are done"):
        entries = one_round(Round(spark, target), tables, list(JOBS))
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(_answers, spark, target, tables)
        with _step(4, "the report is written"):
            records = importlib.import_module("gold.status").status(spark, target, tables)
            page = destination(target)
            importlib.import_module("gold.report").write(spark, target, tables, page, records)
        fail_at_the_end(entries)
        with _step(5, "gold has answered"):
            answers, explained = asked.result()
    shown = [{**record, "rejected": record["dead_letters_total"]} for record in records]
    statuses = [record | {"state": in_six(record)["state"]} for record in shown]
    story = Story(dropped, statuses, explained, answers, page, same_lake(chosen))
    for line in story_lines(story):
        print(line)


@contextmanager
def _step(number: int, done: str) -> Iterator[None]:
    """A line once the step is done, with its seconds."""
    from lakehouse.console import say

    began = time.monotonic()
    yield
    say(f"[{number}/{STEPS}] {done}  ({time.monotonic() - began:.1f} s)")


def _answers(
    spark: "SparkSession", target: Target, tables: Sequence[Table]
) -> "tuple[dict[str, list[Row]], list[Explanation]]":
    """The rows of the demo's questions by name, and what was done with one customer's records."""
    asked = shop.questions(tables).items()
    answers = {name: _rows(spark, target, query) for name, query in asked}
    return answers, _explained(spark, target, tables)


def _rows(spark: "SparkSession", target: Target, query: str) -> "list[Row]":
    from lakehouse import answers

    importlib.import_module("gold.job").open_catalog(spark, target, query)
    return list(answers.texts(spark.sql(query)))


def _explained(spark: "SparkSession", target: Target, tables: Sequence[Table]) -> list[Explanation]:
    """What was done with the records of the demo's customer; nothing without that table."""
    customers = next((table for table in tables if table.table == "customers"), None)
    if customers is None:
        return []
    explain = importlib.import_module("silver.audit.explain").explain
    *records, _ = explain(spark, target, customers, shop.EXPLAINED)
    return [
        Explanation(each.source_time, each.operation, each.outcome, each.because, each.position)
        for each in records
    ]
