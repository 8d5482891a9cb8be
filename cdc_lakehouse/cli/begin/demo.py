"""`demo`: all layers over captured events in one go, and the story of what happened."""

import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from cdc_lakehouse.cli.ask.queries import to_narrow_row
from cdc_lakehouse.cli.ask.report import find_report_file, write_page
from cdc_lakehouse.cli.ask.status_records import keep_status
from cdc_lakehouse.cli.front import command, load_conf, open_lake
from cdc_lakehouse.cli.options import Chosen, same_lake
from cdc_lakehouse.cli.work.rounds import Round, fail_at_the_end
from cdc_lakehouse.cli.work.run import one_round
from cdc_lakehouse.demo import questions as shop
from cdc_lakehouse.demo.story import Story, story_lines
from cdc_lakehouse.terminal.console import say
from cdc_lakehouse.terminal.grid import Row
from lakehouse.config.table import Table
from lakehouse.config.target import LAYERS
from lakehouse.storage.lake import Lake

if TYPE_CHECKING:
    from silver.audit.explain import Explained

STEPS = 5


Live = Annotated[bool, typer.Option("--live", help="With a PostgreSQL, in the new folder live.")]


@command("demo")
def demo(chosen: Chosen, live: Live = False) -> None:
    """Run everything on the captured events of a shop and show what came out.

    It takes about a minute on two processors. Everything it writes lies in lake/ and landing/ below
    the root, and in conf/ where there is none. With --live a PostgreSQL server is started, a small
    shop in it captured and changed, and gold compared with it.
    """
    if live:
        from cdc_lakehouse.demo.live import show_live

        show_live(Path(chosen.root or "live"))
        return
    chosen = chosen._replace(conf=shop.copy_configuration(chosen.conf))
    target, tables = load_conf(chosen)
    tables = shop.select_shop_tables(tables)
    with _time_step(1, "the captured events are dropped into landing/shop"):
        dropped = shop.place_events(target, tables)
    with _time_step(2, "Spark is up"):
        lake = open_lake(target, tables, sends_functions=True)
    with _time_step(3, "bronze, silver and gold are done"):
        entries = one_round(Round(lake), tables, list(LAYERS))
    with ThreadPoolExecutor(1) as beside:
        asked = beside.submit(_answer_questions, lake, tables)
        with _time_step(4, "the report is written"):
            keep_status(lake, tables)
            page = find_report_file(target)
            records = write_page(target, (tables, tables), page).records
        fail_at_the_end(entries)
        with _time_step(5, "gold has answered"):
            answers, explained = asked.result()
    rows = [to_narrow_row(record) for record in records]
    statuses = [row | {"rejected": row["dead letters"]} for row in rows]
    story = Story(dropped, statuses, explained, answers, page, same_lake(chosen))
    for line in story_lines(story):
        print(line)


@contextmanager
def _time_step(number: int, done: str) -> Iterator[None]:
    """Prints a line with the step's seconds once it is done."""
    began = time.monotonic()
    yield
    say(f"[{number}/{STEPS}] {done}  ({time.monotonic() - began:.1f} s)")


def _answer_questions(
    lake: Lake, tables: Sequence[Table]
) -> "tuple[dict[str, list[Row]], list[Explained]]":
    """The rows of the demo's questions by name, and what was done with one customer's records.

    Without the table `customers` there are no such records.
    """
    from cdc_lakehouse.terminal.answers import row_texts
    from gold.job import open_catalog
    from silver.audit.explain import explain

    answers: dict[str, list[Row]] = {}
    for name, query in shop.select_questions(tables).items():
        open_catalog(lake, query)
        answers[name] = list(row_texts(lake.spark.sql(query)))
    customers = next((table for table in tables if table.table == "customers"), None)
    explained = explain(lake, customers, shop.EXPLAINED)[:-1] if customers else []
    return answers, explained
