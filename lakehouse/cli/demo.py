"""`demo`: everything on captured events, in one go."""

import importlib
import shlex

from lakehouse import demo as shop
from lakehouse.cli.ask import print_answer, print_status
from lakehouse.cli.front import command, configured, start
from lakehouse.cli.report import destination
from lakehouse.cli.rounds import JOBS
from lakehouse.cli.run import fail_at_the_end, one_round
from lakehouse.options import Chosen


@command("demo")
def demo(chosen: Chosen) -> None:
    """Run everything on the captured events of a shop and show what came out."""
    chosen = chosen._replace(conf=shop.configuration(chosen.conf))
    target, tables = configured(chosen)
    tables = shop.of_the_shop(tables)
    events = shop.place_events(target)
    print(f"events in {events}, tables in {target.lake}", flush=True)
    spark = start(target, tables)
    entries = one_round(spark, target, tables, list(JOBS))
    print("\nEvery table")
    records = print_status(spark, target, tables, as_json=False)
    page = destination(target)
    importlib.import_module("gold.report").write(spark, target, tables, page, records)
    fail_at_the_end(entries)
    for question in shop.questions(tables):
        print(f"\n{question.heading}\n  {question.query}", flush=True)
        print_answer(spark, target, question.query, "table")
    print(f"\nThe report, for a browser: {page}")
    print(f"\n{shop.hints(_options(chosen))}")


def _options(chosen: Chosen) -> str:
    """The options with which another command finds the same lake."""
    given = Chosen()
    options = [
        f" --{key} {shlex.quote(str(getattr(chosen, key)))}"
        for key in ("conf", "target", "root")
        if getattr(chosen, key) != getattr(given, key)
    ]
    return "".join(options)
